"""Quantisation, scales a tensor, an axis and a block; integer products and convolutions. Against NumPy."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ort_lite.dtypes import Array, to_numpy, to_onnx
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, broadcastable, drawn, limits, numbers, shapes
from tests.conformance.random_models import check
from tests.conformance.windows import CHANNELS, Windows, convolved, windows

TYPES = st.sampled_from(["uint8", "int8", "uint16", "int16", "int4", "uint4"])


@st.composite
def scaled(draw: st.DrawFn) -> tuple[Shape, Shape, int, int]:
    """A shape, that of its scales (nothing, an axis or blocks of it), the axis, the block size (0: no blocks)."""
    shape = draw(shapes(low=1, side=6, smallest=1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    n, kind = shape[axis], draw(st.sampled_from(["tensor", "axis", "block"]))
    if kind == "tensor":
        return shape, (), axis, 0
    if kind == "axis":
        return shape, (n,), axis, 0
    block = draw(st.integers(1, n))
    at = axis % len(shape)
    return shape, (*shape[:at], -(-n // block), *shape[at + 1 :]), axis, block


def spread(values: Array, shape: Shape, axis: int, block: int) -> Array:
    """A scale for each element."""
    if block:
        return np.repeat(values, block, axis)[tuple(map(slice, shape))]
    if values.ndim == 0:
        return np.broadcast_to(values, shape)
    return np.broadcast_to(values.reshape([-1 if k == axis % len(shape) else 1 for k in range(len(shape))]), shape)


def zero_points(shape: Shape, dtype: str, seed: int) -> Array:
    low = 0 if dtype.startswith("u") else -5
    return np.asarray(np.random.default_rng(seed).integers(low, 7, shape)).astype(np.int32).astype(to_numpy(dtype))


@drawn(25, case=scaled(), dtype=TYPES, zero=st.booleans(), seed=SEEDS, how=HOWS)
def test_quantize(case: tuple[Shape, Shape, int, int], dtype: str, zero: bool, seed: int, how: How) -> None:
    shape, parts, axis, block = case
    x, scale = numbers(shape, "float32", seed, low=-9, high=9), numbers(parts, "float32", seed + 1, low=0.05, high=0.5)
    points = zero_points(parts, dtype, seed + 2) if zero else None
    steps = np.rint(x / spread(scale, shape, axis, block))
    steps = steps + (0 if points is None else spread(points.astype(np.int32), shape, axis, block))
    wanted = np.clip(steps, *limits(dtype)).astype(np.int32).astype(to_numpy(dtype))
    more: dict[str, Any] = {"block_size": block} if block else {}
    if not zero:
        more["output_dtype"] = to_onnx(dtype)
    check("QuantizeLinear", [x, scale, points], [wanted], how, axis=axis, **more)


@drawn(25, case=scaled(), dtype=TYPES, zero=st.booleans(), seed=SEEDS, how=HOWS)
def test_dequantize(case: tuple[Shape, Shape, int, int], dtype: str, zero: bool, seed: int, how: How) -> None:
    shape, parts, axis, block = case
    scale = numbers(parts, "float32", seed + 1, low=0.05, high=0.5)
    x = np.random.default_rng(seed).integers(*limits(dtype), shape, endpoint=True).astype(np.int32)
    points = zero_points(parts, dtype, seed + 2) if zero else None
    centred = x - (0 if points is None else spread(points.astype(np.int32), shape, axis, block))
    wanted = centred.astype(np.float32) * spread(scale, shape, axis, block)
    more: dict[str, Any] = {"block_size": block} if block else {}
    check("DequantizeLinear", [x.astype(to_numpy(dtype)), scale, points], [wanted], how, axis=axis, **more)


@drawn(10, shape=shapes(smallest=1), seed=SEEDS, how=HOWS, low=st.integers(-5, 5), span=st.integers(1, 9))
def test_dynamic_quantize(shape: Shape, seed: int, how: How, low: int, span: int) -> None:
    x = numbers(shape, "float32", seed, low=low, high=low + span)
    least, most = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = np.asarray((most - least) / np.float32(255))
    point = np.asarray(np.clip(np.rint(-least / scale), 0, 255).astype(np.uint8))
    wanted = np.clip(np.rint(x / scale) + point, 0, 255).astype(np.uint8)
    check("DynamicQuantizeLinear", [x], [np.asarray(wanted), scale, point], how)


@st.composite
def products(draw: st.DrawFn) -> tuple[Shape, Shape]:
    m, k, n = (draw(st.sampled_from([1, 2, 3, 5, 17, 33])) for _ in range(3))
    before = draw(st.sampled_from([((), ())]) | broadcastable(2).filter(lambda both: max(map(len, both)) < 3))
    return (*before[0], m, k), (*before[1], k, n)


@drawn(
    20, case=products(), kinds=st.tuples(*[st.sampled_from(["uint8", "int8"])] * 2), points=st.booleans(), seed=SEEDS, how=HOWS
)
def test_integer_products(case: tuple[Shape, Shape], kinds: tuple[str, str], points: bool, seed: int, how: How) -> None:
    a, b = (numbers(shape, kind, seed + k, special=True) for k, (shape, kind) in enumerate(zip(case, kinds, strict=True)))
    zeros = [zero_points((), kind, seed + k) if points else None for k, kind in enumerate(kinds)]
    centred = [x.astype(np.int32) - (0 if z is None else z.astype(np.int32)) for x, z in zip((a, b), zeros, strict=True)]
    check("MatMulInteger", [a, b, *zeros], [np.asarray(centred[0] @ centred[1])], how, opset=10)


BYTES = st.sampled_from(["uint8", "int8"])


def rescaled(steps: Array, factor: Array, point: Array) -> Array:
    return np.asarray(np.clip(np.rint(steps * factor) + point.astype(np.int32), *limits(str(point.dtype)))).astype(point.dtype)


@drawn(20, case=products(), kinds=st.tuples(BYTES, BYTES, BYTES), columns=st.booleans(), seed=SEEDS, how=HOWS)
def test_quantized_products(case: tuple[Shape, Shape], kinds: tuple[str, str, str], columns: bool, seed: int, how: How) -> None:
    """Steps of 2**-k, so that no rounding depends on the order of the arithmetic."""
    a, b = (numbers(shape, kind, seed + k, special=True) for k, (shape, kind) in enumerate(zip(case, kinds[:2], strict=True)))
    columns = columns and b.ndim == 2
    parts = (b.shape[-1],) if columns else ()
    powers = np.asarray(np.random.default_rng(seed).integers(-4, 2, parts))
    scales = [np.array(0.25, np.float32), np.ldexp(np.float32(1), powers).astype(np.float32), np.array(16, np.float32)]
    points = [zero_points((), kinds[0], seed), zero_points(parts, kinds[1], seed + 1), zero_points((), kinds[2], seed + 2)]
    steps = (a.astype(np.int32) - points[0].astype(np.int32)) @ (b.astype(np.int32) - points[1].astype(np.int32))
    inputs = [a, scales[0], points[0], b, np.asarray(scales[1]), points[1], scales[2], points[2]]
    check("QLinearMatMul", inputs, [rescaled(steps, scales[0] * scales[1] / scales[2], points[2])], how, opset=21)


@drawn(
    25,
    w=windows(),
    n=st.integers(1, 2),
    channels=CHANNELS,
    kinds=st.tuples(BYTES, BYTES),
    bias=st.booleans(),
    seed=SEEDS,
    how=HOWS,
)
def test_integer_convolutions(
    w: Windows, n: int, channels: tuple[int, int, int], kinds: tuple[str, str], bias: bool, seed: int, how: How
) -> None:
    """ConvInteger, and QLinearConv of a scale for each channel of the weight."""
    groups, before, behind = channels
    x = numbers((n, groups * before, *w.sizes), kinds[0], seed, special=True)
    weight = numbers((groups * behind, before, *w.kernel), kinds[1], seed + 1, special=True)
    points = [zero_points((), kind, seed + k) for k, kind in enumerate(kinds)]
    centred = [array.astype(np.int32) - point.astype(np.int32) for array, point in zip((x, weight), points, strict=True)]
    steps = convolved(w, centred[0], centred[1], groups)
    attributes: dict[str, Any] = {"group": groups, **w.attributes()}
    check("ConvInteger", [x, weight, *points], [steps.astype(np.int32)], how, opset=10, **attributes)
    along = (-1, *[1] * len(w.sizes))
    b = numbers((groups * behind,), "int32", seed + 2, low=-900, high=900) if bias else None
    powers = np.random.default_rng(seed).integers(-8, -2, groups * behind)
    scales = [np.array(0.5, np.float32), np.ldexp(np.float32(1), powers).astype(np.float32), np.array(2, np.float32)]
    wanted = rescaled(steps + (0 if b is None else b.reshape(along)), scales[1].reshape(along) / 4, points[0])
    inputs = [x, scales[0], points[0], weight, scales[1], np.full(groups * behind, points[1]), scales[2], points[0], b]
    check("QLinearConv", inputs, [wanted], how, opset=10, **attributes)
