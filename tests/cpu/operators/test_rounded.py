"""Convolutions of 16-bit models: what rounds and activates their sums is done in their epilogue, with the roundings of the model."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_lite.native.lang import OK, Ptr, Static, cast, native, span
from ort_lite.native.spec import Spec
from ort_lite_cpu.kernels.gemm.activation import activate_half
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment_run import SegmentRun
from tests.cpu.check import text_program
from tests.native.calls import call

HALVES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
PIXELS = np.linspace(-4, 4, 32 * 3, dtype=np.float32).reshape(1, 32, 1, 3)
WEIGHT = np.linspace(-0.3, 0.4, 32 * 32, dtype=np.float32).reshape(32, 32, 1, 1)
BEHIND = "a = Cast<to={code}>(s) b = Cast<to=1>(a) c = {node}(b) d = Cast<to={code}>(c) {y} = Cast<to=1>(d)"


def program(nodes: str, fusion: bool = True, outputs: str = "float[1,32,1,3] y") -> Program:
    text = f"(float[1,32,1,3] x, float[32,32,1,1] w) => ({outputs}) {{ s = Conv(x, w) {nodes} }}"
    return text_program(text, constants={"w": WEIGHT}, fusion=fusion)


def kinds(made: Program) -> list[str]:
    """Of the instructions: what their epilogues do, "-" for those that have none."""
    [run] = made.steps
    assert isinstance(run, SegmentRun)
    return [str(dict(i.spec.statics).get("kind", "-")) for i in run.segment.instructions]


def test_the_casts_and_the_activation_are_no_instructions() -> None:
    behind = BEHIND.format(code=10, node="HardSwish", y="y")
    fused, apart = program(behind), program(behind, fusion=False)
    assert [kind for kind in kinds(fused) if kind != "-"] == ["float16 HardSwish"]
    assert len(kinds(fused)) == len(kinds(apart)) - 5
    [got], [expected] = fused([PIXELS]), apart([PIXELS])
    assert (got == got.astype(np.float16)).all()
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-6)


def test_limits_are_the_register_tile_s() -> None:
    made = program(BEHIND.format(code=10, node="Relu", y="y"))
    assert "float16" in kinds(made)
    [got] = made([PIXELS])
    sums = np.einsum("oc,chw->ohw", WEIGHT[:, :, 0, 0].astype(np.float64), PIXELS[0])
    np.testing.assert_allclose(got[0], np.maximum(sums, 0), rtol=1e-3, atol=1e-5)
    assert (got == got.astype(np.float16)).all()


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("a = Cast<to=10>(s) y = Cast<to=1>(a)", "float[1,32,1,3] y, float16[1,32,1,3] a"),
        ("a = Cast<to=10>(s) b = Cast<to=1>(a) y = Add(b, s)", "float[1,32,1,3] y"),
        ("a = Cast<to=11>(s) y = Cast<to=1>(a)", "float[1,32,1,3] y"),
    ],
    ids=["an output", "another reader", "no half"],
)
def test_what_others_read_too_stays(nodes: str, outputs: str) -> None:
    made = program(nodes, outputs=outputs)
    assert not [kind for kind in kinds(made) if "float" in kind]
    for got, expected in zip(made([PIXELS]), program(nodes, fusion=False, outputs=outputs)([PIXELS]), strict=True):
        np.testing.assert_array_equal(got, expected)


@native
def rounded_elements(x: Ptr, y: Ptr, n: int, kind: Static, part: int, parts: int) -> int:
    for i in span(n, part, parts):
        y[i] = activate_half(x[i], cast(0.25, "f32"), cast(0.5, "f32"), kind)
    return OK


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ["", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid"])
def test_sums_are_rounded_before_and_behind(half: str, name: str) -> None:
    x = np.linspace(-5, 5, 50, dtype=np.float32)
    y = np.empty_like(x)
    assert call(Spec(rounded_elements, ("f32", "f32"), {"kind": f"{half} {name}".strip()}), [x, y], [len(x)]) == 0
    z = x.astype(HALVES[half]).astype(np.float64)
    exact = {
        "": z,
        "HardSigmoid": np.clip(z / 4 + 0.5, 0, 1),
        "HardSwish": z * np.clip(z / 4 + 0.5, 0, 1),
        "LeakyRelu": np.where(z < 0, z / 4, z),
        "Sigmoid": 1 / (1 + np.exp(-z)),
    }[name]
    assert (y == y.astype(HALVES[half])).all()
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[half]
    np.testing.assert_allclose(y, exact, rtol=unit, atol=1e-7)
    assert (y == exact.astype(np.float32).astype(HALVES[half])).mean() > 0.95
