"""Integer products and convolutions, against NumPy."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ort_lite.dtypes import Array, to_numpy
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, broadcastable, drawn, limits, numbers
from tests.conformance.random_models import check
from tests.conformance.windows import CHANNELS, Windows, convolved, windows


def zero_points(shape: Shape, dtype: str, seed: int) -> Array:
    low = 0 if dtype.startswith("u") else -5
    return np.asarray(np.random.default_rng(seed).integers(low, 7, shape)).astype(np.int32).astype(to_numpy(dtype))


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
