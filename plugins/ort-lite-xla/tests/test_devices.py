"""Memory, copies and results that differ between the devices of JAX. The tests run on each device."""

import ast
import os
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx.parser
import pytest
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.devices import PREALLOCATE
from ort_lite_xla.registry import XlaOp, find

import ort_lite
from ort_lite.load.load import load

XLA = XLAExecutionProvider.name


def session(text: str, deterministic: bool = False) -> ort_lite.InferenceSession:
    settings = ort_lite.SessionOptions()
    settings.use_deterministic_compute = deterministic
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}').SerializeToString()
    return ort_lite.InferenceSession(made, settings, providers=[XLA])


@pytest.mark.parametrize(
    ("given", "wanted", "seen"),
    [(None, False, "false"), (None, True, "true"), ("true", False, "true"), ("false", True, "false")],
)
def test_jax_takes_the_memory_of_a_gpu_at_the_start_only_on_request(
    monkeypatch: pytest.MonkeyPatch, given: str | None, wanted: bool, seen: str
) -> None:
    if given is None:
        monkeypatch.delenv(PREALLOCATE, raising=False)
    else:
        monkeypatch.setenv(PREALLOCATE, given)
    found, start = [], jax.devices

    def devices(kind: str) -> Any:
        found.append(os.environ.get(PREALLOCATE))
        return start(kind)

    monkeypatch.setattr(jax, "devices", devices)
    XLAExecutionProvider(preallocate=wanted)
    assert found == [seen]
    assert os.environ.get(PREALLOCATE) == given


def test_the_memory_of_the_device_is_counted_where_jax_counts_it() -> None:
    made = session("(float[N] x) => (float[N] y) { y = Exp(x) }")
    made.run(None, {"x": np.zeros(1 << 20, np.float32)})
    facts = made.explain().facts[f"{XLA}_0"]
    (device,) = [
        device for device in jax.local_devices(backend=str(facts["device"]).split(":")[0]) if str(device) == facts["device"]
    ]
    assert ("device_peak_bytes" in facts) == bool(device.memory_stats())
    assert int(facts.get("device_peak_bytes", 1 << 22)) >= 1 << 22


CONVOLUTION = "(uint8[1,3,6,6] x, uint8[2,3,3,3] w) => (int32[1,2,4,4] y) { y = ConvInteger(x, w) }"
PRODUCT = "(uint8[3,6] x, uint8[6,4] w) => (int32[3,4] y) { y = MatMulInteger(x, w) }"


@pytest.mark.parametrize(
    ("text", "operation", "types"),
    [(CONVOLUTION, "convolution", ("f64", "f64")), (PRODUCT, "dot_general", ("i8", "i32"))],
)
def test_gpus_get_products_of_types_that_they_have(text: str, operation: str, types: tuple[str, str]) -> None:
    """They have no convolutions of integers, which shows only when a program is compiled for them."""
    shapes = [jax.ShapeDtypeStruct(ast.literal_eval(found), np.uint8) for found in re.findall(r"uint8(\[[\d,]+\])", text)]
    node = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {text}')).graph.nodes[0]
    lowering = find(node)
    assert lowering is not None
    with jax.enable_x64(True):
        traced = jax.jit(partial(lowering.function, XlaOp(node, {}, jnp))).trace(*shapes)
        lowered = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert re.findall(rf"stablehlo\.{operation}.*: \(tensor<\S*x(\w+)>, .*-> tensor<\S*x(\w+)>", lowered) == [types]


def test_products_of_integers_are_exact() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 256, shape, np.uint8) for shape in ((5, 3000), (3000, 4)))
    text = "(uint8[5,3000] x, uint8[3000,4] w) => (int32[5,4] y) { y = MatMulInteger(x, w) }"
    np.testing.assert_array_equal(session(text).run(None, {"x": x, "w": w})[0], x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_convolutions_of_integers_are_exact(pads: list[int]) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 256, shape, np.uint8) for shape in ((2, 70, 9, 9), (4, 70, 3, 3)))
    text = f"(uint8[2,70,9,9] x, uint8[4,70,3,3] w) => (int32[A,B,C,D] y) {{ y = ConvInteger<pads = {pads}>(x, w) }}"
    (got,) = session(text).run(None, {"x": x, "w": w})
    wide = np.pad(x.astype(np.int64), [(0, 0), (0, 0), pads[:2], pads[:2]])
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    np.testing.assert_array_equal(got, np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64)))


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.7])
def test_levels_between_two_integers_are_rounded_to_even(scale: float) -> None:
    """They are between them exactly; a quotient that is off by the last bit would go to the wrong side."""
    x = (np.arange(-120, 120, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
    exact = x / np.float32(scale)
    text = f"(float[N] x) => (int8[N] y) <float s = {{{scale}}}, int8 z = {{0}}> {{ y = QuantizeLinear(x, s, z) }}"
    np.testing.assert_array_equal(session(text).run(None, {"x": x})[0], np.clip(np.round(exact), -128, 127))


def test_sums_of_what_goes_to_one_place_have_the_same_bits_each_time() -> None:
    text = """(float[1] x, int64[N] i, float[N] u) => (float[1] y) { y = ScatterElements<reduction = "add">(x, i, u) }"""
    made = session(text, deterministic=True)
    updates = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    feeds = {"x": np.zeros(1, np.float32), "i": np.zeros(len(updates), np.int64), "u": updates}
    first = made.run(None, feeds)[0]
    assert all(np.array_equal(first, made.run(None, feeds)[0]) for _ in range(20))
