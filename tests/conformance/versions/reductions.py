"""Reduce*, ArgMax and ArgMin, CumSum and CumProd, TopK."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.math import SPECIAL
from tests.cpu.check import ints, ramp

X = ramp((2, 3, 4), low=1, high=4)
SIGNED = ramp((3, 4), low=-5, high=5)


def log_sum_exp(x: Array, **how: Any) -> Any:
    """Shifted by the largest, as the sum of exponentials overflows."""
    top = np.max(x, axis=how["axis"], keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    summed = np.log(np.sum(np.exp(x - top), axis=how["axis"], keepdims=True)) + top
    return summed if how["keepdims"] else np.squeeze(summed, how["axis"])


FUNCTIONS: dict[str, Any] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceProd": np.prod,
    "ReduceMax": lambda x, **how: np.max(x, **how, initial=_least(x)),
    "ReduceMin": lambda x, **how: np.min(x, **how, initial=_most(x)),
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
}


def _least(x: Array) -> Any:
    return -np.inf if x.dtype.kind == "f" else False if x.dtype.kind == "b" else np.iinfo(x.dtype).min


def _most(x: Array) -> Any:
    return np.inf if x.dtype.kind == "f" else True if x.dtype.kind == "b" else np.iinfo(x.dtype).max


def reducer(op_type: str) -> Any:
    """In float64 or the integers' own arithmetic; the axes come as attribute or as input."""

    def oracle(x: Array, given: Array | None = None, *, axes: Sequence[int] = (), keepdims: int = 1, **flags: int) -> Array:
        named = list(axes) if given is None else given.tolist()
        if not named and flags.get("noop_with_empty_axes"):
            named_axes: tuple[int, ...] = ()
        else:
            named_axes = tuple(named) if named else tuple(range(x.ndim))
        wide = x.astype(np.float64) if x.dtype.kind == "f" or op_type == "ReduceLogSumExp" else x
        return np.asarray(FUNCTIONS[op_type](wide, axis=named_axes, keepdims=bool(keepdims))).astype(x.dtype)

    return oracle


def reductions(op_type: str) -> list[Case]:
    """Axes are an attribute until version 17, of ReduceSum until 12."""
    first = 13 if op_type == "ReduceSum" else 18
    how: dict[str, Any] = {"oracle": reducer(op_type), "types": ()}
    old, new = how | {"until": first - 1}, how | {"since": first}
    empty = np.zeros((2, 0, 3), np.float32)
    return [
        case(op_type, X, oracle=reducer(op_type)),
        case(op_type, X, axes=[1], **old),
        case(op_type, X, axes=[0, 2], keepdims=0, **old),
        case(op_type, np.array(2.5, np.float32), **how),
        case(op_type, X, axes=[-1], **(old | {"since": 11})),
        case(op_type, X, ints(1), constants=(1,), **new),
        case(op_type, X, ints(-3, 2), keepdims=0, constants=(1,), **new),
        case(op_type, ramp((2, 3, 2, 2), low=1, high=4), ints(0, 2), constants=(1,), **new),
        case(op_type, X, None, keepdims=0, **new),
        case(op_type, X, ints(), **new),
        case(op_type, X, ints(), noop_with_empty_axes=1, **new),
        case(op_type, SPECIAL, **how),
        *([] if op_type == "ReduceMean" else [case(op_type, empty, ints(1), constants=(1,), **new)]),
    ]


def arg(op_type: str) -> list[Case]:
    ties = np.array([[1, 3, 3, 0], [2, 2, 0, 0]], np.float32)
    return [
        case(op_type, SIGNED),
        case(op_type, ties, types=(), axis=1),
        case(op_type, ties, types=(), axis=1, keepdims=0),
        case(op_type, X, types=(), since=11, axis=-2),
        case(op_type, ties, types=(), since=12, axis=-1, select_last_index=1),
        case(op_type, np.array([5, -128, 127], np.int8), types=()),
    ]


def cumulative(op_type: str) -> list[Case]:
    axis, last = np.array(1, np.int32), np.array(-1, np.int64)
    how: dict[str, Any] = {"types": (), "oracle": running(op_type)}
    return [
        case(op_type, X, axis, constants=(1,), oracle=running(op_type)),
        case(op_type, X, last, exclusive=1, constants=(1,), **how),
        case(op_type, X, last, reverse=1, constants=(1,), **how),
        case(op_type, X, axis, reverse=1, exclusive=1, constants=(1,), **how),
        case(op_type, np.zeros((2, 0), np.float32), axis, constants=(1,), **how),
        case(op_type, np.array([2**31 - 1, 2, 3], np.int32), np.array(0, np.int64), constants=(1,), **how),
    ]


def running(op_type: str) -> Any:
    def oracle(x: Array, axis: Array, reverse: int = 0, exclusive: int = 0) -> Array:
        function, neutral = (np.cumsum, 0) if op_type == "CumSum" else (np.cumprod, 1)
        turned = np.moveaxis(x, int(axis), -1)
        turned = turned[..., ::-1] if reverse else turned
        if exclusive:
            turned = np.concatenate([np.full((*turned.shape[:-1], 1), neutral, x.dtype), turned[..., :-1]], -1)
        made = function(turned, axis=-1, dtype=x.dtype)
        return np.moveaxis(made[..., ::-1] if reverse else made, -1, int(axis))

    return oracle


def top(x: Array, count: Any = None, *, k: int = 0, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Array, Array]:
    """Of equal values the one with the lower index first."""
    keys = x.astype(np.float64)
    order = np.argsort(-keys if largest else keys, axis=axis, kind="stable")
    picked = np.take(order, range(k or int(count[0])), axis=axis)
    return np.take_along_axis(x, picked, axis), picked.astype(np.int64)


_TOP: dict[str, Any] = {"oracle": top, "outputs": 2}
TOPS = [
    case("TopK", SIGNED, until=9, k=2, **_TOP),
    case("TopK", X, until=9, k=3, axis=1, types=(), **_TOP),
    case("TopK", SIGNED, ints(2), since=10, constants=(1,), **_TOP),
    case("TopK", X, ints(2), since=10, axis=1, types=(), constants=(1,), **_TOP),
    case("TopK", SIGNED, ints(4), since=10, types=(), **_TOP),
    case("TopK", SIGNED, ints(0), since=10, types=(), constants=(1,), **_TOP),
    case("TopK", SIGNED, ints(2), since=11, largest=0, axis=-2, types=(), constants=(1,), **_TOP),
    case("TopK", SIGNED.round(), ints(3), since=11, types=(), constants=(1,), **_TOP),
]

CASES: tuple[Case, ...] = (
    *(one for op_type in FUNCTIONS for one in reductions(op_type)),
    case("ReduceMax", ramp((2, 3), "bool"), ints(1), since=20, types=(), oracle=reducer("ReduceMax")),
    case("ReduceMin", ramp((2, 3), "bool"), ints(1), since=20, types=(), oracle=reducer("ReduceMin")),
    case("ReduceSum", np.array([2**31 - 1, 2], np.int32), types=(), oracle=lambda x, **_: np.array([-(2**31) + 1], np.int32)),
    *arg("ArgMax"),
    *arg("ArgMin"),
    *cumulative("CumSum"),
    *cumulative("CumProd"),
    *TOPS,
)
