"""Operators that the reference lacks in some versions or types."""

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, INTEGERS, Array, from_numpy
from tests.generated.ports.registry import port


@port("OneHot")
def one_hot(indices: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Indices beyond the depth give a row of the off value."""
    count = int(np.ravel(depth)[0])
    places = np.floor(indices.astype(np.float64)).astype(np.int64) if indices.dtype.kind == "f" else indices.astype(np.int64)
    places = np.where(places < 0, places + count, places)
    hot = np.expand_dims(places, axis) == np.arange(count).reshape(-1, *(1,) * (-axis - 1 if axis < 0 else indices.ndim - axis))
    result: Array = np.where(hot, values[1], values[0]).astype(values.dtype)
    return result


@port("DequantizeLinear", until=18)
def dequantize_linear(x: Array, scale: Array, zero: Array | None = None, axis: int = 1) -> Array:
    """One scale, or one for each slice of an axis."""
    shape = [1] * x.ndim
    if scale.ndim and scale.size != 1:
        shape[axis] = scale.size
    shift = 0 if zero is None else zero.reshape(shape if zero.size > 1 else (1,) * x.ndim).astype(np.float64)
    return np.asarray((x.astype(np.float64) - shift) * scale.reshape(shape if scale.size > 1 else (1,) * x.ndim))


def _log_sum(x: Array, axes: Any, keep: int, exponential: bool) -> Array:
    """Integers are computed in float64, and cut."""
    chosen = tuple(range(x.ndim)) if axes is None or not len(axes) else tuple(int(axis) for axis in axes)
    wide = x.astype(np.float64)
    greatest = np.max(wide, axis=chosen, keepdims=True, initial=-np.inf) if exponential else np.zeros((1,) * x.ndim)
    greatest = np.where(np.isfinite(greatest), greatest, 0)
    terms = np.exp(wide - greatest) if exponential else wide
    result = np.log(terms.sum(axis=chosen, keepdims=True)) + greatest
    result = result if keep else np.squeeze(result, chosen)
    return np.asarray(result.astype(x.dtype))


def _reducer(exponential: bool) -> Callable[..., Array]:
    """The axes are an attribute or the second input."""

    def reduce(x: Array, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
        if noop_with_empty_axes and (axes is None or not len(axes)):
            raise NotImplementedError("no axes")
        return _log_sum(x, axes, keepdims, exponential)

    return reduce


port("ReduceLogSum")(_reducer(False))
port("ReduceLogSumExp")(_reducer(True))


@port("CastLike")
def cast_like(x: Array, like: Array, **_: Any) -> Array:
    """Between integers, bools and ordinary floats."""
    plain = FLOATS | INTEGERS | {"bool"}
    if from_numpy(x.dtype) not in plain or from_numpy(like.dtype) not in plain:
        raise NotImplementedError("CastLike of other types")
    return x.astype(like.dtype)


@port("Optional")
def optional(x: Any = None, **_: Any) -> Any:
    return (x,)


@port("Identity", "OptionalGetElement")
def identity(x: Any) -> Any:
    return (x,)


@port("OptionalHasElement")
def optional_has_element(x: Any = None) -> Array:
    return np.array(x is not None)


@port("Shape")
def shape(x: Array, start: int = 0, end: int | None = None) -> Array:
    """Bounds are counted from the end if they are negative, and clamped."""
    rank = x.ndim
    low, high = (min(max(one + rank if one < 0 else one, 0), rank) for one in (start, rank if end is None else end))
    return np.array(x.shape[low:high], np.int64)


@port("NonZero")
def non_zero(x: Array) -> Array:
    """A scalar has an index, as a vector of one element."""
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)


@port("Unique")
def unique(x: Array, axis: int | None = None, sorted: int = 1) -> tuple[Array, ...]:
    """NaN equals NaN and comes last. Spec: ONNX Unique-11."""
    parts = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    rows = parts.reshape(len(parts), int(np.prod(parts.shape[1:])))
    numbers = rows if rows.dtype.kind in "OUST" else rows.astype(np.float64) if rows.dtype.kind in "fV" else rows
    keys = [tuple((one != one, 0 if one != one else one) for one in row) for row in numbers.tolist()]
    places: dict[Any, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    order = builtins.sorted(places) if sorted else list(places)
    first = np.array([places[key][0] for key in order], np.int64)
    numbered = {key: number for number, key in enumerate(order)}
    inverse = np.array([numbered[key] for key in keys], np.int64)
    counts = np.array([len(places[key]) for key in order], np.int64)
    return (parts[first] if axis is None else np.moveaxis(parts[first], 0, axis)), first, inverse, counts


@port("Unsqueeze")
def unsqueeze(x: Array, axes: Any) -> Array:
    """The axes are an attribute or the second input, in any order."""
    return np.expand_dims(x, tuple(int(axis) for axis in np.ravel(axes)))
