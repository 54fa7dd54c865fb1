"""Operators that read and write at indices, or make them: any shapes, axes and types, against NumPy."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, drawn, numbers, shapes
from tests.conformance.random_models import check

TYPES = st.sampled_from(["float32", "int64", "uint8", "float16", "bool"])


@st.composite
def gathers(draw: st.DrawFn) -> tuple[Shape, Shape, int]:
    shape = draw(shapes(low=1, smallest=1))
    return shape, draw(shapes(high=3)), draw(st.integers(-len(shape), len(shape) - 1))


@drawn(25, case=gathers(), dtype=TYPES, index=st.sampled_from(["int32", "int64"]), seed=SEEDS, how=HOWS)
def test_gather(case: tuple[Shape, Shape, int], dtype: str, index: str, seed: int, how: How) -> None:
    shape, places, axis = case
    x, at = numbers(shape, dtype, seed), numbers(places, index, seed + 1, low=-shape[axis], high=shape[axis] - 1)
    check("Gather", [x, at], [np.take(x, at, axis)], how, axis=axis)


@st.composite
def elements(draw: st.DrawFn) -> tuple[Shape, Shape, int]:
    """A shape, the shape of indices within it except along the axis, the axis."""
    shape = draw(shapes(low=1, smallest=1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    index = [draw(st.integers(0, 4 if k == axis % len(shape) else n)) for k, n in enumerate(shape)]
    return shape, tuple(index), axis


def inside(x: Array, index: Array, axis: int) -> tuple[Array, ...]:
    """The places in x that the elements of index name."""
    places: list[Array] = list(np.indices(index.shape))
    places[axis] = index % x.shape[axis]
    return tuple(places)


@drawn(25, case=elements(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_gather_elements(case: tuple[Shape, Shape, int], dtype: str, seed: int, how: How) -> None:
    shape, places, axis = case
    x, at = numbers(shape, dtype, seed), numbers(places, "int64", seed + 1, low=-shape[axis], high=shape[axis] - 1)
    check("GatherElements", [x, at], [x[inside(x, at, axis)]], how, axis=axis)


UPDATES: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@drawn(
    25,
    case=elements(),
    dtype=st.sampled_from(["float32", "int64"]),
    seed=SEEDS,
    how=HOWS,
    mode=st.sampled_from(["none", *UPDATES]),
)
def test_scatter_elements(case: tuple[Shape, Shape, int], dtype: str, seed: int, how: How, mode: str) -> None:
    shape, places, axis = case
    x, updates = numbers(shape, dtype, seed), numbers(places, dtype, seed + 2)
    at = numbers(places, "int64", seed + 1, low=-shape[axis], high=shape[axis] - 1)
    wanted = x.copy()
    for place in np.ndindex(*places):
        target = tuple(k[place] for k in inside(x, at, axis))
        wanted[target] = updates[place] if mode == "none" else UPDATES[mode](wanted[target], updates[place])
    check("ScatterElements", [x, at, updates], [wanted], how, axis=axis, reduction=mode)


@st.composite
def tuples(draw: st.DrawFn) -> tuple[Shape, Shape, int, int]:
    """A shape, the leading shape of indices, how many axes they name, batch_dims."""
    shape = draw(shapes(low=1, smallest=1))
    batch = draw(st.integers(0, len(shape) - 1))
    depth = draw(st.integers(1, len(shape) - batch))
    return shape, (*shape[:batch], *draw(shapes(high=2))), depth, batch


def tuples_within(shape: Shape, lead: Shape, depth: int, batch: int, seed: int) -> Array:
    columns = [numbers(lead, "int64", seed + k, low=-n, high=n - 1) for k, n in enumerate(shape[batch : batch + depth])]
    return np.stack(columns, -1)


@drawn(25, case=tuples(), dtype=TYPES, seed=SEEDS, how=HOWS)
def test_gather_nd(case: tuple[Shape, Shape, int, int], dtype: str, seed: int, how: How) -> None:
    shape, lead, depth, batch = case
    x, at = numbers(shape, dtype, seed), tuples_within(shape, lead, depth, batch, seed)
    wanted = x[tuple(np.indices(lead)[:batch]) + tuple(np.moveaxis(at, -1, 0))]
    check("GatherND", [x, at], [np.asarray(wanted)], how, batch_dims=batch)


@drawn(
    25,
    case=tuples(),
    dtype=st.sampled_from(["float32", "int64"]),
    seed=SEEDS,
    how=HOWS,
    mode=st.sampled_from(["none", *UPDATES]),
)
def test_scatter_nd(case: tuple[Shape, Shape, int, int], dtype: str, seed: int, how: How, mode: str) -> None:
    shape, lead, depth, _ = case
    x, at = numbers(shape, dtype, seed), tuples_within(shape, lead, depth, 0, seed)
    updates = numbers((*lead, *shape[depth:]), dtype, seed + 9)
    wanted = x.copy()
    for place in np.ndindex(*lead):
        target = tuple(at[place])
        wanted[target] = updates[place] if mode == "none" else UPDATES[mode](wanted[target], updates[place])
    check("ScatterND", [x, at, updates], [wanted], how, reduction=mode)


@drawn(15, shape=shapes(smallest=0), dtype=st.sampled_from(["float32", "bool"]), seed=SEEDS, how=HOWS)
def test_nonzero(shape: Shape, dtype: str, seed: int, how: How) -> None:
    x = np.asarray(numbers(shape, dtype, seed, low=-1, high=1).round().astype(dtype))
    check("NonZero", [x], [np.array(np.nonzero(np.atleast_1d(x)), np.int64)], how)


@drawn(15, case=elements(), seed=SEEDS, how=HOWS, flat=st.booleans(), dtype=TYPES)
def test_compress(case: tuple[Shape, Shape, int], seed: int, how: How, flat: bool, dtype: str) -> None:
    shape, _, axis = case
    x = numbers(shape, dtype, seed)
    condition = numbers((max(shape[axis] - seed % 2, 0),), "bool", seed + 1)
    if flat:
        check("Compress", [x, condition], [np.compress(condition, x)], how)
    else:
        check("Compress", [x, condition], [np.compress(condition, x, axis)], how, axis=axis)


@drawn(
    20,
    shape=shapes(high=3),
    depth=st.integers(1, 4),
    seed=SEEDS,
    how=HOWS,
    data=st.data(),
    kind=st.sampled_from(["int64", "float32"]),
)
def test_one_hot(shape: Shape, depth: int, seed: int, how: How, data: Any, kind: str) -> None:
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    at = numbers(shape, "int64", seed, low=-6, high=6)
    values = numbers((2,), kind, seed + 1)
    inside_range = (at >= -depth) & (at < depth)
    hot = np.expand_dims(np.where(inside_range, at % depth, -1), axis)
    place = axis % (len(shape) + 1)
    steps = np.arange(depth).reshape([-1 if k == place else 1 for k in range(len(shape) + 1)])
    check("OneHot", [at, np.array(depth), values], [np.where(hot == steps, values[1], values[0])], how, axis=axis)
