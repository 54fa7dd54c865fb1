"""Convolutions of dequantised bytes that stay in floating point, by target."""

import math

import pytest

from ort_lite.native.cpu import parse_target
from ort_lite_cpu.lowering.float_filters import float_filters
from ort_lite_cpu.options import CPUOptions
from tests.text_graphs import check

SHAPES = {
    "Winograd": ((32, 16, 3, 3), ""),
    "channels": ((7, 16, 3, 3), ""),
    "strides": ((32, 16, 3, 3), "<strides=[2,2]>"),
    "pointwise": ((32, 16, 1, 1), ""),
    "depthwise": ((16, 1, 3, 3), "<group=16>"),
}
WANTED = {
    "x86-64-v4": "Winograd channels strides",
    "x86-64-v3": "Winograd",
    "x86-64": "Winograd depthwise",
    "aarch64": "Winograd depthwise",
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("target", WANTED)
def test_filters_are_floats_where_that_is_faster(target: str, name: str) -> None:
    shape, attributes = SHAPES[name]
    constants = f"<{filled('int8', shape, 'w', 3)}, {filled('int32', shape[:1], 'b', 6)}, float s = {{0.5}}, int8 z = {{1}}>"
    floats = f"<float s = {{0.5}}, {filled('float', shape, 'f', 1)}, {filled('float', shape[:1], 'c', 3)}>"
    signature = "(uint8[N,16,5,5] x) => (float[N,O,H,V] y)"
    before = f"""{{ a = DequantizeLinear(x, s)  d = DequantizeLinear(w, s, z)  e = DequantizeLinear(b, s)
        y = Conv{attributes}(a, d, e) }}"""
    after = f"{{ a = DequantizeLinear(x, s)  y = Conv{attributes}(a, f, c) }}"
    rules = float_filters(CPUOptions(1, True, True), parse_target(target))
    if name in WANTED[target]:
        check(rules, signature, before, after, constants=constants, after_constants=floats)
    else:
        check(rules, signature, before, constants=constants, skip="integers are no slower")


def filled(kind: str, shape: tuple[int, ...], name: str, value: int) -> str:
    """A constant in ONNX's text format, all its elements the same."""
    return f"{kind}[{','.join(map(str, shape))}] {name} = {{{', '.join([str(value)] * math.prod(shape))}}}"


def test_machines_that_multiply_bytes_take_integers_for_all() -> None:
    for target in ("sapphirerapids", "znver4", "neoverse-n1"):
        assert float_filters(CPUOptions(1, True, True), parse_target(target)) == []
