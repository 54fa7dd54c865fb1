"""Reductions, ArgMax and ArgMin, TopK, cumulative sums: any shapes and axes, against NumPy."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, drawn, numbers, shapes
from tests.conformance.random_models import check

Function = Callable[..., Any]

REDUCTIONS: dict[str, Function] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceProd": np.prod,
    "ReduceMax": lambda x, **how: np.max(x, initial=-np.inf, **how),
    "ReduceMin": lambda x, **how: np.min(x, initial=np.inf, **how),
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
}


@st.composite
def reduced(draw: st.DrawFn, smallest: int = 0) -> tuple[Shape, list[int] | None]:
    """A shape and some of its axes, in any order and counted from either end; None for an input that is not there."""
    shape = draw(shapes(smallest=smallest))
    chosen = draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    axes = [axis - len(shape) if draw(st.booleans()) else axis for axis in chosen]
    return shape, draw(st.sampled_from([axes, axes, None]))


def reduce(function: Function, x: Array, axes: list[int] | None, keep: int, noop: int) -> Array:
    if not axes and noop:
        return np.asarray(function(x[None], axis=(0,)))  # of one element each
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means of nothing
        return np.asarray(function(x, axis=tuple(axes) if axes else None, keepdims=bool(keep)))


@drawn(
    40,
    op=st.sampled_from(list(REDUCTIONS)),
    case=reduced(),
    keep=st.integers(0, 1),
    noop=st.integers(0, 1),
    seed=SEEDS,
    how=HOWS,
    old=st.booleans(),
)
def test_floats(op: str, case: tuple[Shape, list[int] | None], keep: int, noop: int, seed: int, how: How, old: bool) -> None:
    shape, axes = case
    x = numbers(shape, "float32", seed, low=0.5 if op == "ReduceLogSum" else -2, high=2)
    if old:  # axes are an attribute
        wanted = reduce(REDUCTIONS[op], x.astype(np.float64), axes, keep, 0).astype(np.float32)
        check(op, [x], [wanted], how, opset=11, keepdims=keep, **({"axes": axes} if axes else {}), atol=1e-5)
        return
    given = None if axes is None else np.array(axes, np.int64)
    wanted = reduce(REDUCTIONS[op], x.astype(np.float64), axes, keep, noop).astype(np.float32)
    check(op, [x, given], [wanted], how, keepdims=keep, noop_with_empty_axes=noop, atol=1e-5)


@drawn(
    15,
    op=st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"]),
    case=reduced(smallest=1),
    dtype=st.sampled_from(["int32", "int64"]),
    seed=SEEDS,
    how=HOWS,
    special=st.booleans(),
)
def test_integers_wrap_around(
    op: str, case: tuple[Shape, list[int] | None], dtype: str, seed: int, how: How, special: bool
) -> None:
    x = numbers(case[0], dtype, seed, special=special)
    functions: dict[str, Function] = {
        "ReduceSum": np.sum,
        "ReduceMax": np.max,
        "ReduceMin": np.min,
        "ReduceProd": np.prod,
        "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
    }
    wanted = reduce(functions[op], x, case[1], 1, 0).astype(dtype)
    check(op, [x, None if case[1] is None else np.array(case[1], np.int64)], [wanted], how)


@drawn(15, op=st.sampled_from(["ReduceMax", "ReduceMin"]), case=reduced(smallest=1), seed=SEEDS, how=HOWS)
def test_extremes_of_floats_meet_nan_and_infinities(op: str, case: tuple[Shape, list[int] | None], seed: int, how: How) -> None:
    x = numbers(case[0], "float32", seed, special=True)
    wanted = reduce(np.max if op == "ReduceMax" else np.min, x, case[1], 1, 0)
    check(op, [x, None if case[1] is None else np.array(case[1], np.int64)], [wanted], how)


@st.composite
def along(draw: st.DrawFn, smallest: int = 1) -> tuple[Shape, int]:
    """A shape of one axis or more, and one of its axes counted from either end."""
    shape = draw(shapes(low=1, smallest=smallest))
    return shape, draw(st.integers(-len(shape), len(shape) - 1))


@drawn(
    20,
    op=st.sampled_from(["ArgMax", "ArgMin"]),
    case=along(),
    keep=st.integers(0, 1),
    last=st.integers(0, 1),
    dtype=st.sampled_from(["float32", "int32"]),
    seed=SEEDS,
    how=HOWS,
)
def test_positions_of_extremes(op: str, case: tuple[Shape, int], keep: int, last: int, dtype: str, seed: int, how: How) -> None:
    (shape, axis), find = case, np.argmax if op == "ArgMax" else np.argmin
    x = numbers(shape, dtype, seed, low=-2, high=2).round().astype(dtype)
    found = shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
    wanted = np.expand_dims(found, axis) if keep else np.asarray(found)
    check(op, [x], [wanted.astype(np.int64)], how, axis=axis, keepdims=keep, select_last_index=last)


@drawn(
    20,
    case=along(smallest=0),
    reverse=st.integers(0, 1),
    exclusive=st.integers(0, 1),
    product=st.booleans(),
    seed=SEEDS,
    how=HOWS,
    dtype=st.sampled_from(["float32", "int64"]),
)
def test_cumulative_sums(
    case: tuple[Shape, int], reverse: int, exclusive: int, product: bool, seed: int, how: How, dtype: str
) -> None:
    (shape, axis), start = case, int(product)
    x = numbers(shape, dtype, seed)
    made = np.flip(x, axis) if reverse else x
    made = (np.cumprod if product else np.cumsum)(made, axis, dtype=x.dtype)
    if exclusive:
        made = np.roll(made, 1, axis)
        made[(slice(None),) * (axis % x.ndim) + (slice(0, 1),)] = start
    wanted = np.ascontiguousarray(np.flip(made, axis) if reverse else made)
    op, opset = ("CumProd", 26) if product else ("CumSum", 14)
    check(op, [x, np.array(axis)], [wanted], how, opset=opset, reverse=reverse, exclusive=exclusive, atol=1e-5)


@drawn(
    20,
    case=along(smallest=1),
    largest=st.integers(0, 1),
    share=st.floats(0, 1),
    dtype=st.sampled_from(["float32", "int64"]),
    seed=SEEDS,
    how=HOWS,
)
def test_the_k_largest(case: tuple[Shape, int], largest: int, share: float, dtype: str, seed: int, how: How) -> None:
    shape, axis = case
    k = round(share * shape[axis])
    x = numbers(shape, dtype, seed, low=-3, high=3).round().astype(dtype)
    order = np.argsort(-x if largest else x, axis, kind="stable")
    order = np.ascontiguousarray(np.take(order, range(k), axis))
    wanted = np.take_along_axis(x, order, axis)
    check("TopK", [x, np.array([k])], [wanted, order], how, axis=axis, largest=largest, sorted=1)


@drawn(
    20,
    case=along(smallest=0),
    op=st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]),
    seed=SEEDS,
    how=HOWS,
    special=st.booleans(),
)
def test_softmax(case: tuple[Shape, int], op: str, seed: int, how: How, special: bool) -> None:
    shape, axis = case
    x = numbers(shape, "float32", seed, low=-80 if special else -3, high=80 if special else 3)
    if x.size == 0:
        wanted = x
    elif op == "Hardmax":
        wanted = np.zeros_like(x)
        np.put_along_axis(wanted, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    else:
        e = np.exp(x.astype(np.float64) - np.max(x, axis, keepdims=True))
        wanted = (e / e.sum(axis, keepdims=True)).astype(np.float64)
        wanted = (np.log(np.maximum(wanted, 1e-300)) if op == "LogSoftmax" else wanted).astype(np.float32)
    check(op, [x], [wanted], how, axis=axis, atol=2e-5)
