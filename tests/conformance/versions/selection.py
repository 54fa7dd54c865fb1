"""Operators that pick elements by index or by condition, and those that put elements somewhere."""

import builtins
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.cpu.check import ints, ramp

X = ramp((3, 4, 2), low=0.5, high=6)
MATRIX = ramp((4, 3), low=0.5, high=6)
EMPTY = np.zeros((0, 3), np.float32)
_I32 = np.int32


def indices(*values: Any, dtype: Any = np.int64) -> Array:
    return np.array(values, dtype)


GATHERS = [
    case("Gather", X, indices([0, 2], [1, 1])),
    case("Gather", X, indices(3, 0, dtype=_I32), types=(), axis=1),
    case("Gather", X, np.array(1), types=(), axis=1),
    case("Gather", X, indices(-1, 0, -3), since=11, types=()),
    case("Gather", X, indices(1), types=(), axis=-1),
    case("Gather", X, np.zeros((0,), np.int64), types=(), axis=1),
    case("Gather", np.zeros((2, 0), np.float32), indices(1, 0), types=()),
    case("GatherElements", MATRIX, indices([0, 3, 1], [2, 0, 0])),
    case("GatherElements", MATRIX, indices([0, -1], [2, -3], [1, 1], [0, 0], dtype=_I32), types=(), axis=1),
    case("GatherElements", MATRIX, indices([0, -1], [2, -3], [1, 1], [0, 0]), types=(), axis=-1, oracle=np.take_along_axis),
    case("GatherElements", MATRIX, np.zeros((0, 3), np.int64), types=()),
    case("GatherND", X, indices([0, 1], [2, 3])),
    case("GatherND", X, indices([[0]], [[-1]]), types=()),
    case("GatherND", X, indices([0, 1, 1], [-1, -2, 0]), types=()),
    case("GatherND", X, indices([1], [3], [0]), since=12, types=(), batch_dims=1),
    case("GatherND", X, np.zeros((0, 2), np.int64), types=()),
]

_COMBINE: dict[str, Any] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


def scattered(x: Array, index: Array, updates: Array, axis: int = 0, reduction: str = "none") -> Array:
    """One element after the other."""
    y = x.copy()
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[axis] = index[at]
        y[tuple(to)] = _COMBINE[reduction](y[tuple(to)], updates[at])
    return y


def scattered_nd(x: Array, index: Array, updates: Array, reduction: str = "none") -> Array:
    """One slice after the other."""
    y = x.copy()
    function = np.frompyfunc(_COMBINE[reduction], 2, 1)
    for at in np.ndindex(*index.shape[:-1]):
        to = tuple(index[at])
        y[to] = updates[at] if reduction == "none" else function(y[to], updates[at]).astype(x.dtype)
    return y


_AT, _NEW = indices([1, 0, 2], [3, 2, 0]), ramp((2, 3), low=1, high=8)
_TWICE = indices([1, 0, 2], [1, 2, 0])
_NUMBERS = ("float16", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def scatter(op_type: str, **more: Any) -> list[Case]:
    how: dict[str, Any] = {"oracle": scattered, **more}
    return [
        case(op_type, MATRIX, _AT, _NEW, **how),
        case(op_type, MATRIX, _AT[:, :2] % 3, _NEW[:, :2], types=(), axis=1, **how),
        case(op_type, MATRIX, _AT[:, :2].astype(_I32) % 3 - 3, _NEW[:, :2], types=(), axis=-1, **how),
        case(op_type, MATRIX, np.zeros((0, 3), np.int64), EMPTY, types=(), **how),
    ]


SCATTERS = [
    *scatter("Scatter", until=10),
    *scatter("ScatterElements"),
    *(
        case(
            "ScatterElements",
            MATRIX,
            _TWICE,
            _NEW,
            since=since,
            types=_NUMBERS if mode == "add" else (),
            reduction=mode,
            oracle=scattered,
        )
        for mode, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
    ),
    case("ScatterND", X, indices([0, 1], [2, 3]), ramp((2, 2), low=1, high=4), oracle=scattered_nd),
    case("ScatterND", X, indices([[1]], [[-1]]), ramp((2, 1, 4, 2)), types=(), oracle=scattered_nd),
    case("ScatterND", X, np.zeros((0, 1), np.int64), np.zeros((0, 4, 2), np.float32), types=(), oracle=scattered_nd),
    *(
        case(
            "ScatterND",
            X,
            indices([0, 1], [0, 1]),
            ramp((2, 2), low=1, high=4),
            since=since,
            reduction=mode,
            types=_NUMBERS if mode == "add" else (),
            oracle=scattered_nd,
        )
        for mode, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
    ),
]


def one_hot(index: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Indices beyond the depth, on either side, give rows of the first value alone."""
    size = int(np.ravel(depth)[0])
    hot = np.asarray(index)[..., None].astype(np.int64)
    hot = np.where(hot < 0, hot + size, hot) == np.arange(size)
    return np.moveaxis(np.where(hot, values[1], values[0]).astype(values.dtype), -1, axis)


_HOT = indices([0, 2], [-1, 5])
_DEPTH, _OFF_ON = np.array(4), np.array([1, 5], np.float32)
ONE_HOT = [
    case("OneHot", _HOT, _DEPTH, _OFF_ON, constants=(1,), oracle=one_hot),
    case("OneHot", _HOT, _DEPTH, _OFF_ON, types=(), axis=0, constants=(1,), oracle=one_hot),
    case("OneHot", _HOT, _DEPTH, _OFF_ON, since=11, types=(), axis=-2, constants=(1, 2), oracle=one_hot),
    case("OneHot", _HOT.astype(np.float32), indices(4).astype(np.float32), _OFF_ON, types=(), constants=(1,), oracle=one_hot),
    case("OneHot", _HOT.astype(_I32), np.array(4, _I32), _OFF_ON, types=(), constants=(1,), oracle=one_hot),
    case("OneHot", np.zeros((0,), np.int64), _DEPTH, _OFF_ON, types=(), constants=(1,), oracle=one_hot),
]


def non_zero(x: Array) -> Array:
    truth = np.array([item != "" for item in x.ravel()], bool).reshape(x.shape) if x.dtype == object else x != 0
    return np.array(np.nonzero(truth), np.int64).reshape(x.ndim, -1)


_HOLES = np.array([[0.0, 3.0, 0.0], [1.0, 0.0, -2.0]], np.float32)
_KEEP = np.array([True, False, True])
CONDITIONS = [
    case("NonZero", _HOLES, oracle=non_zero),
    case("NonZero", EMPTY, types=(), oracle=non_zero),
    case("NonZero", np.zeros((2, 2), np.float32), types=(), oracle=non_zero),
    case("Compress", MATRIX, _KEEP, axis=0),
    case("Compress", MATRIX, _KEEP, types=(), axis=1),
    case("Compress", MATRIX, _KEEP[:2], types=()),
    case("Compress", MATRIX, _KEEP, since=11, types=(), axis=-1),
    case("Compress", MATRIX, np.zeros((4,), bool), types=(), axis=0),
]


def unique(x: Array, sorted: int = 1, axis: int | None = None) -> tuple[Array, ...]:
    """Sorted or in the order of their first appearance."""
    slices = list(x.ravel()) if axis is None else [tuple(part.ravel()) for part in np.moveaxis(x, axis, 0)]
    first: dict[Any, int] = {}
    for k, item in enumerate(slices):
        first.setdefault(item, k)
    order = builtins.sorted(first) if sorted else list(first)
    places = [first[item] for item in order]
    inverse = [order.index(item) for item in slices]
    counts = [slices.count(item) for item in order]
    y = x.ravel()[places] if axis is None else np.take(x, places, axis)
    return y, *(np.array(numbers, np.int64) for numbers in (places, inverse, counts))


_SAME = np.array([[2.0, 1, 2], [3, 1, 1], [2, 1, 2]], np.float32)
_UNIQUE: dict[str, Any] = {"oracle": unique, "outputs": 4}
UNIQUE = [
    case("Unique", _SAME, **_UNIQUE),
    case("Unique", _SAME, types=(), sorted=0, **_UNIQUE),
    case("Unique", _SAME, types=(), axis=0, **_UNIQUE),
    case("Unique", _SAME, types=(), axis=-1, sorted=0, **_UNIQUE),
    case("Unique", np.zeros((0,), np.float32), types=(), **_UNIQUE),
]


def tensor_scatter(cache: Array, update: Array, at: Array | None = None, mode: str = "linear", axis: int = -2) -> Array:
    """Writes `update` of each batch at its index along `axis`; circular ones go on at the front."""
    y = cache.copy()
    for batch in range(cache.shape[0]):
        start = 0 if at is None else int(at[batch])
        places = (start + np.arange(update.shape[axis])) % cache.shape[axis]
        into = np.moveaxis(y[batch], axis if axis < 0 else axis - 1, 0)
        into[places] = np.moveaxis(update[batch], axis if axis < 0 else axis - 1, 0)
    return y


_CACHE, _UPDATE = ramp((2, 2, 5, 3), low=0.5, high=6), ramp((2, 2, 2, 3), low=0.5, high=6)
CACHES = [
    case("TensorScatter", _CACHE, _UPDATE, ints(1, 3), oracle=tensor_scatter),
    case("TensorScatter", _CACHE, _UPDATE, types=(), oracle=tensor_scatter),
    case("TensorScatter", _CACHE, _UPDATE, ints(4, 3), types=(), mode="circular", oracle=tensor_scatter),
    case("TensorScatter", _CACHE[:, 0], _UPDATE[:, 0], ints(1, 3), types=(), axis=1, oracle=tensor_scatter),
]

CASES: tuple[Case, ...] = (*GATHERS, *SCATTERS, *ONE_HOT, *CONDITIONS, *UNIQUE, *CACHES)
