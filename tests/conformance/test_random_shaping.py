"""Operators that move elements: any shapes, attributes and types, against NumPy."""

from typing import Any, cast

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, broadcastable, drawn, numbers, shapes
from tests.conformance.random_models import check

TYPES = st.sampled_from(["float32", "int64", "uint8", "float16", "bool"])


def axes_of(*values: int) -> Array:
    return np.array(values, np.int64)


def either_end(draw: st.DrawFn, axis: int, rank: int) -> int:
    return axis - rank if draw(st.booleans()) else axis


@st.composite
def transposes(draw: st.DrawFn) -> tuple[Shape, list[int]]:
    shape = draw(shapes(low=1, high=5))
    return shape, list(draw(st.permutations(range(len(shape)))))


@drawn(25, case=transposes(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_transpose(case: tuple[Shape, list[int]], dtype: str, seed: int, how: How) -> None:
    x = numbers(case[0], dtype, seed)
    check(
        "Transpose", [x], [np.ascontiguousarray(x.transpose(case[1])).reshape([case[0][k] for k in case[1]])], how, perm=case[1]
    )


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[Shape, list[int], int]:
    """A shape, a target with at most one -1 and zeros where the size is copied, allowzero."""
    shape = draw(shapes(smallest=0))
    sides = [n for n in shape if n != 1]
    target = list(draw(st.permutations(sides)))
    while len(target) > 1 and draw(st.booleans()):
        target[:2] = [target[0] * target[1]]
    for _ in range(draw(st.integers(0, 2))):
        target.insert(draw(st.integers(0, len(target))), 1)
    allowzero = draw(st.integers(0, 1))
    if allowzero == 0:
        assume(all(n or (k < len(shape) and shape[k] == 0) for k, n in enumerate(target)))
        target = [0 if k < len(shape) and shape[k] == n and draw(st.booleans()) else n for k, n in enumerate(target)]
    if target and 0 not in shape and draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = -1
    return shape, target, allowzero


@drawn(25, case=reshapes(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_reshape(case: tuple[Shape, list[int], int], dtype: str, seed: int, how: How) -> None:
    shape, target, allowzero = case
    x = numbers(shape, dtype, seed)
    sizes = target if allowzero else [shape[k] if n == 0 else n for k, n in enumerate(target)]
    check("Reshape", [x, axes_of(*target)], [x.reshape(sizes)], how, allowzero=allowzero)


@st.composite
def slices(draw: st.DrawFn) -> tuple[Shape, dict[int, tuple[int, int, int]], bool]:
    """A shape, by axis a start, an end and a step, all of them beyond the ends at times; whether axes and steps are given."""
    shape = draw(shapes(low=1, side=6))
    bounds = st.integers(-8, 8) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
    steps = st.sampled_from([1, 1, 2, 3, -1, -2, 7, -7])
    brief = draw(st.booleans())
    chosen = (
        range(draw(st.integers(0, len(shape)))) if brief else draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    )
    return shape, {axis: (draw(bounds), draw(bounds), 1 if brief else draw(steps)) for axis in chosen}, brief


@drawn(40, case=slices(), dtype=TYPES, seed=SEEDS, how=HOWS, narrow=st.booleans(), data=st.data())
def test_slice(
    case: tuple[Shape, dict[int, tuple[int, int, int]], bool], dtype: str, seed: int, how: How, narrow: bool, data: Any
) -> None:
    shape, by_axis, brief = case
    x = numbers(shape, dtype, seed)
    index = [slice(None)] * len(shape)
    for axis, (start, end, step) in by_axis.items():
        n = shape[axis]  # as the specification clamps, which differs from NumPy for an end below -n and a step below 0
        low, high = (start + n if start < 0 else start), (end + n if end < 0 else end)
        low, high = (
            (min(max(low, 0), n), min(max(high, 0), n)) if step > 0 else (min(max(low, 0), n - 1), min(max(high, -1), n - 1))
        )
        index[axis] = slice(low, None if high < 0 else high, step)
    kind = np.int32 if narrow and all(abs(v) < 2**31 for three in by_axis.values() for v in three) else np.int64
    starts, ends, steps = (np.array([three[k] for three in by_axis.values()], kind) for k in range(3))
    axes = np.array([axis - len(shape) if data.draw(st.booleans()) else axis for axis in by_axis], kind)
    wanted = np.ascontiguousarray(x[tuple(index)])
    check("Slice", [x, starts, ends] if brief else [x, starts, ends, axes, steps], [wanted], how)


@st.composite
def joined(draw: st.DrawFn) -> tuple[list[Shape], int]:
    shape = draw(shapes(low=1))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    return [(*shape[:axis], n, *shape[axis + 1 :]) for n in sizes], either_end(draw, axis, len(shape))


@drawn(25, case=joined(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_concat(case: tuple[list[Shape], int], dtype: str, seed: int, how: How) -> None:
    parts = [numbers(shape, dtype, seed + k) for k, shape in enumerate(case[0])]
    check("Concat", parts, [np.concatenate(parts, case[1])], how, axis=case[1])


@drawn(25, case=joined(), dtype=TYPES, seed=SEEDS, how=HOWS, sizes=st.booleans())
def test_split(case: tuple[list[Shape], int], dtype: str, seed: int, how: How, sizes: bool) -> None:
    """Of given sizes, or into so many parts of which the last one may be smaller."""
    parts, axis = case
    x = np.concatenate([numbers(shape, dtype, seed + k) for k, shape in enumerate(parts)], axis)
    if sizes:
        wanted = np.split(x, np.cumsum([shape[axis] for shape in parts])[:-1], axis)
        split = axes_of(*[shape[axis] for shape in parts])
        check("Split", [x, split], [np.ascontiguousarray(part) for part in wanted], how, axis=axis)
    else:
        each = -(-x.shape[axis] // len(parts))
        assume(x.shape[axis] > each * (len(parts) - 1))
        wanted = np.split(x, range(each, x.shape[axis], each), axis) if each else [x]
        check("Split", [x], [np.ascontiguousarray(part) for part in wanted], how, axis=axis, num_outputs=len(parts))


@st.composite
def padded(draw: st.DrawFn, mode: str) -> tuple[Shape, list[int], list[int], list[int]]:
    """A shape, axes, how much is added before and behind each of them; negative: taken away (constant mode)."""
    shape = draw(shapes(low=1, smallest=0 if mode == "constant" else 2).filter(lambda s: mode == "constant" or 1 not in s))
    axes = draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    low = -1 if mode == "constant" else 0
    pairs = []
    for axis in axes:
        most = min(3, shape[axis] - 1) if mode == "reflect" else 3
        begin, end = draw(st.integers(low, most)), draw(st.integers(low, most))
        pairs.append((begin, end) if shape[axis] + min(begin, 0) + min(end, 0) >= 0 else (0, 0))
    return shape, axes, [begin for begin, _ in pairs], [end for _, end in pairs]


@drawn(30, mode=st.sampled_from(["constant", "reflect", "edge", "wrap"]), data=st.data(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_pad(mode: str, data: Any, dtype: str, seed: int, how: How) -> None:
    shape, axes, begins, ends = data.draw(padded(mode))
    x = numbers(shape, dtype, seed)
    added, kept = [(0, 0)] * len(shape), [slice(None)] * len(shape)
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        added[axis] = max(begin, 0), max(end, 0)
        kept[axis] = slice(max(-begin, 0), shape[axis] - max(-end, 0))
    value = numbers((), dtype, seed + 1) if mode == "constant" else None
    with_value: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    wanted = np.pad(x[tuple(kept)], added, cast(Any, mode), **with_value)
    signed = axes_of(*[either_end(data.draw, axis, len(shape)) for axis in axes])
    check("Pad", [x, axes_of(*begins, *ends), value, signed], [np.ascontiguousarray(wanted)], how, mode=mode)


@drawn(20, both=broadcastable(2), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_expand(both: tuple[Shape, ...], dtype: str, seed: int, how: How) -> None:
    x = numbers(both[0], dtype, seed)
    wanted = np.broadcast_to(x, np.broadcast_shapes(*both))
    check("Expand", [x, axes_of(*both[1])], [np.array(wanted, order="C")], how)


@st.composite
def tiles(draw: st.DrawFn) -> tuple[Shape, list[int]]:
    shape = draw(shapes(side=3))
    return shape, [draw(st.integers(0, 3)) for _ in shape]


@drawn(20, case=tiles(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_tile(case: tuple[Shape, list[int]], dtype: str, seed: int, how: How) -> None:
    x = numbers(case[0], dtype, seed)
    check("Tile", [x, axes_of(*case[1])], [np.tile(x, case[1])], how)


@st.composite
def ones_inserted(draw: st.DrawFn) -> tuple[Shape, list[int]]:
    """A shape, and axes of the result of Unsqueeze that are new, in any order."""
    shape = draw(shapes(high=3))
    count = draw(st.integers(0, 3))
    rank = len(shape) + count
    axes = draw(st.lists(st.sampled_from(range(rank)), min_size=count, max_size=count, unique=True)) if count else []
    return shape, [either_end(draw, axis, rank) for axis in axes]


@drawn(
    25,
    case=ones_inserted(),
    dtype=TYPES,
    seed=SEEDS,
    how=HOWS,
    squeeze=st.sampled_from(["no", "axes", "all"]),
    old=st.booleans(),
)
def test_axes_of_one(case: tuple[Shape, list[int]], dtype: str, seed: int, how: How, squeeze: str, old: bool) -> None:
    shape, axes = case
    x = numbers(shape, dtype, seed)
    y = np.expand_dims(x, tuple(axes)) if axes else x
    opset = 11 if old else 21
    if old and not axes:
        return
    op, before, after = ("Unsqueeze", x, y) if squeeze == "no" else ("Squeeze", y, x if squeeze == "axes" else np.squeeze(x))
    if squeeze == "all":
        check(op, [before], [after], how, opset=opset)
    elif old:
        check(op, [before], [after], how, opset=opset, axes=axes)
    else:
        check(op, [before, axes_of(*axes)], [after], how, opset=opset)


@drawn(20, shape=shapes(low=0), dtype=TYPES, seed=SEEDS, how=HOWS, data=st.data())
def test_flatten(shape: Shape, dtype: str, seed: int, how: How, data: Any) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape)))
    x, at = numbers(shape, dtype, seed), axis % len(shape) if axis < 0 else axis
    check("Flatten", [x], [x.reshape(int(np.prod(shape[:at])), int(np.prod(shape[at:])))], how, axis=axis)


@drawn(20, shape=shapes(low=2), dtype=TYPES, seed=SEEDS, how=HOWS, upper=st.integers(0, 1), k=st.none() | st.integers(-6, 6))
def test_trilu(shape: Shape, dtype: str, seed: int, how: How, upper: int, k: int | None) -> None:
    x = numbers(shape, dtype, seed)
    wanted = (np.triu if upper else np.tril)(x, k or 0)
    check("Trilu", [x, None if k is None else np.array(k)], [wanted.astype(x.dtype)], how, upper=upper)


@drawn(
    15,
    n=st.integers(0, 3),
    c=st.integers(1, 2),
    h=st.integers(1, 3),
    w=st.integers(1, 3),
    b=st.integers(1, 3),
    mode=st.sampled_from(["DCR", "CRD"]),
    seed=SEEDS,
    how=HOWS,
    dtype=TYPES,
)
def test_depth_and_space(n: int, c: int, h: int, w: int, b: int, mode: str, seed: int, how: How, dtype: str) -> None:
    x = numbers((n, c * b * b, h, w), dtype, seed)
    if mode == "DCR":
        y = x.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c, h * b, w * b)
        check("SpaceToDepth", [y], [x], how, blocksize=b)
    else:
        y = x.reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c, h * b, w * b)
    check("DepthToSpace", [x], [y], how, blocksize=b, mode=mode)


@drawn(
    15,
    start=st.integers(-9, 9),
    stop=st.integers(-9, 9),
    step=st.sampled_from([1, 2, 3, -1, -2, 20]),
    kind=st.sampled_from(["int32", "int64", "float32"]),
    how=HOWS,
)
def test_range(start: int, stop: int, step: int, kind: str, how: How) -> None:
    three = [np.array(v, kind) for v in (start, stop, step)]
    check("Range", three, [np.arange(start, stop, step).astype(kind)], how)
