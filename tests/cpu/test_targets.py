"""Targets of the provider: names that are taken, that sessions contain nothing wider, and that results agree."""

import math
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.native import Spec, cpu, load
from ort_lite.native.cpu import NAMES, Target, host, parse_target, runnable
from ort_lite.native.spec import key_of
from ort_lite_cpu import CPUExecutionProvider
from ort_lite_cpu.kernels.gemm.gemm import gemm
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.kernels.gemm.pack import panels
from ort_lite_cpu.run.kernels import Kernels
from tests.cpu.test_gemm import assert_near, exact, random
from tests.native.calls import call
from tests.native.compiled import assembly

LESSER = [name for name in ("x86-64-v3", "x86-64-v2", "x86-64", "aarch64") if parse_target(name).runs_on(host())]


MODEL = """<ir_version: 9, opset_import: ["": 17]> g (float[1,16,9,9] x) => (float[] y, int32[] z) {
    c3 = Conv<pads = [1,1,1,1]>(x, w3)  c5 = Conv<pads = [2,2,2,2]>(c3, w5)  cd = Conv<pads = [1,1,1,1], group = 24>(c5, wd)
    c1 = Conv(cd, w1)  t = Tanh(c1)  y = MatMul(t, b)
    q, scale, zero = DynamicQuantizeLinear(y)  z = MatMulInteger(q, w8, zero) }"""
"""A product, convolutions of every kind, a product of bytes, attention's parts and an elementwise expression."""
SHAPES = {"w3": (24, 16, 3, 3), "w5": (24, 24, 5, 5), "wd": (24, 1, 3, 3), "w1": (8, 24, 1, 1), "b": (9, 20)}


def model() -> bytes:
    draw = np.random.default_rng(0).standard_normal
    weights = {name: draw(shape) for name, shape in SHAPES.items()}
    constants: dict[str, Array] = {name: (w / np.sqrt(w[0].size)).astype(np.float32) for name, w in weights.items()}
    constants["w8"] = np.arange(-60, 60, dtype=np.int8).reshape(20, 6)
    made = onnx.parser.parse_model(MODEL)
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    data: bytes = made.SerializeToString()
    return data


X = np.random.default_rng(1).standard_normal((1, 16, 9, 9)).astype(np.float32)


def results(target: str) -> list[Array]:
    session = ort_lite.InferenceSession(model(), providers=[("CPUExecutionProvider", {"target": target})])
    return [np.asarray(value) for value in session.run(None, {"x": X})]


# --- Names
def test_every_name_is_a_target() -> None:
    assert all(isinstance(parse_target(name), Target) for name in NAMES)
    assert runnable("host") is host()


def test_a_name_that_is_unknown_or_does_not_run_here_is_refused_with_those_that_do() -> None:
    strange = "aarch64" if host().architecture == "x86_64" else "x86-64"
    with pytest.raises(InvalidArgument, match=r"target 'pentium': unknown; host, .*run here"):
        CPUExecutionProvider(target="pentium")
    with pytest.raises(InvalidArgument, match=f"target '{strange}': this machine, .*, does not run it; host, .*run here"):
        CPUExecutionProvider(target=strange)


@pytest.mark.parametrize("name", LESSER)
def test_a_config_entry_names_the_target_unless_the_provider_has_one(name: str) -> None:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.target", name)
    provider, other = CPUExecutionProvider(), CPUExecutionProvider(target=LESSER[-1])
    provider.configure(options)
    other.configure(options)
    assert (provider.get_options()["target"], other.get_options()["target"]) == (name, LESSER[-1])
    assert CPUExecutionProvider().get_options()["target"] == "host"


# --- Code
@pytest.mark.parametrize("name", LESSER[:1])
def test_a_session_contains_nothing_wider_than_its_target(name: str) -> None:
    asked: list[tuple[Spec, Target]] = []

    def noted(kernels: Kernels, specs: Sequence[Spec]) -> list[int]:
        asked.extend((spec, kernels.target) for spec in specs)
        found: list[int] = load(specs, kernels.target)
        return found

    with patch.object(Kernels, "load", noted):
        results(name)
    wide = [spec.name for spec, target in asked if target != runnable(name)]
    assert [spec for spec in wide if not any(word in spec for word in ("ort_lite_cpu.run.", "planning", "evaluate"))] == []
    widest = 0
    for spec, target in asked:
        if target == runnable(name):
            text = assembly(spec, target)
            widest = max([widest, *(size for register, size in (("%zmm", 64), ("%ymm", 32)) if register in text)])
    assert widest <= runnable(name).vector_bytes


@pytest.mark.parametrize("name", LESSER)
def test_results_of_targets_agree(name: str) -> None:
    """Bytes are quantised from floats that differ in the last place: sums of them differ by some steps."""
    (floats, sums), (expected, expected_sums) = results(name), results("host")
    np.testing.assert_allclose(floats, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    assert np.abs(sums - expected_sums).max() <= 20 * 60


# --- Widths
@pytest.mark.parametrize(
    "tile", [Tile(5, 3, 4), Tile(3, 5, 4), Tile(7, 1, 4), Tile(9, 3, 4), Tile(12, 2, 4), Tile(6, 4, 4)], ids=str
)
@pytest.mark.parametrize("n", [1, 7, 11, 12, 25, 61])
def test_no_product_assumes_that_a_tile_is_a_power_of_two(tile: Tile, n: int) -> None:
    kernel = Spec(gemm, ("f32",) * 5, {"kind": "", "tile": tile})
    for m in (*range(1, 13), 31):
        a, b = random(m, 19), random(19, n, seed=1)
        c = np.full((m, n), np.nan, np.float32)
        operands = [a, panels(b, tile.columns, Kernels(host())), None, None, c]
        assert call(kernel, operands, [m, n, 19, -math.inf, math.inf, 0.0, 0.0]) == 0
        assert_near(c, exact(a, b))


def test_keys_name_features_and_tuning_and_no_cpu() -> None:
    spec = Spec(gemm, ("f32",) * 5, {"kind": "", "tile": Tile(6, 2, 8)})
    haswell, third, fourth = (key_of(spec, parse_target(name)) for name in ("haswell", "x86-64-v3", "x86-64-v4"))
    assert haswell == third != fourth
    with patch.dict(cpu._TUNINGS, {"x86_64": "haswell"}):
        assert key_of(spec, parse_target("haswell")) != haswell
