"""Reductions, running sums, and positions of extremes."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ort_lite_xla.along import PaddedDims, Rule, by_axes, constant_of, except_axis
from ort_lite_xla.registry import FLOATS, INDICES, NUMBERS, Array, Function, PaddingMask, XlaOp, lowering

WIDE = FLOATS | {"int32", "int64", "uint32", "uint64"}


def _mean(xp: Array, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if jnp.issubdtype(x.dtype, jnp.floating):
        return xp.mean(x, axis=axes, keepdims=keepdims)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    return jax.lax.div(xp.sum(x, axis=axes, keepdims=keepdims).astype(x.dtype), np.array(count, x.dtype))


# name: element types, the neutral element, True if NumPy can compute it too, (xp, x, axes, keepdims) -> result
REDUCTIONS: dict[str, tuple[frozenset[str], str | None, bool, Function]] = {
    "ReduceL1": (WIDE, "zero", False, lambda xp, x, a, k: xp.sum(xp.abs(x), axis=a, keepdims=k)),
    "ReduceL2": (WIDE, "zero", False, lambda xp, x, a, k: xp.sqrt(xp.sum(x * x, axis=a, keepdims=k))),
    "ReduceLogSum": (WIDE, "zero", False, lambda xp, x, a, k: xp.log(xp.sum(x, axis=a, keepdims=k))),
    "ReduceLogSumExp": (FLOATS, "lowest", False, lambda xp, x, a, k: jax.scipy.special.logsumexp(x, axis=a, keepdims=k)),
    "ReduceMax": (NUMBERS | {"bool"}, "lowest", True, lambda xp, x, a, k: _extreme(xp, "max", x, a, k)),
    "ReduceMean": (WIDE, None, False, _mean),
    "ReduceMin": (NUMBERS | {"bool"}, "highest", True, lambda xp, x, a, k: _extreme(xp, "min", x, a, k)),
    "ReduceProd": (WIDE, "one", True, lambda xp, x, a, k: xp.prod(x, axis=a, keepdims=k)),
    "ReduceSum": (WIDE, "zero", True, lambda xp, x, a, k: xp.sum(x, axis=a, keepdims=k)),
    "ReduceSumSquare": (WIDE, "zero", False, lambda xp, x, a, k: xp.sum(x * x, axis=a, keepdims=k)),
}


def _extreme(xp: Array, name: str, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Reduce to the extreme; an empty tensor, to the neutral element."""
    kind = x.dtype
    if kind == np.bool_:
        return getattr(xp, "any" if name == "max" else "all")(x, axis=axes, keepdims=keepdims)
    if jnp.issubdtype(kind, jnp.floating):
        neutral = np.array(-np.inf if name == "max" else np.inf).astype(kind)
    else:
        neutral = np.array(np.iinfo(kind).min if name == "max" else np.iinfo(kind).max, kind)
    return getattr(xp, name)(x, axis=axes, keepdims=keepdims, initial=neutral)


def _axes(given: Sequence[int] | None, noop: bool, rank: int) -> tuple[int, ...]:
    """Return the dimensions to reduce: all of them if none are given, unless the attribute says none."""
    if given is None or not len(given):
        return () if noop else tuple(range(rank))
    return tuple(axis % rank for axis in given)


def _along(fill: str | None) -> Rule:
    def rule(dims: PaddedDims) -> list[PaddingMask]:
        operand = dims.node.inputs[1] if len(dims.node.inputs) > 1 else None
        given = dims.node.attr("axes")
        if operand is not None:
            found = constant_of(operand)
            if found is None:
                return by_axes(dims, range(len(dims.operand(0))), None)
            given = found.tolist()
        axes = _axes(given, bool(dims.node.attr("noop_with_empty_axes", 0)), len(dims.operand(0)))
        return by_axes(dims, axes, fill)

    return rule


def _reduction(function: Function) -> Function:
    def reduce(op: XlaOp, x: Array, axes: Array = None) -> Array:
        given = op.attr("axes") if axes is None else op.numbers(1)
        found = _axes(given, bool(op.attr("noop_with_empty_axes", 0)), x.ndim)
        return function(op.xp, x, found, bool(op.attr("keepdims", 1))).astype(x.dtype)

    return reduce


for _name, (_types, _fill, _host, _function) in REDUCTIONS.items():
    lowering(_name, types=(_types, INDICES), contents=(1,), host=_host, along=_along(_fill))(_reduction(_function))


@lowering("ArgMax", types=NUMBERS, along=except_axis(0, "lowest"))
@lowering("ArgMin", types=NUMBERS, along=except_axis(0))
def arg_extreme(op: XlaOp, x: Array) -> Array:
    """Return the index of the largest or smallest element, the first or the last of equal ones. Spec: ONNX ArgMax-13."""
    if x.ndim == 0:
        return jnp.zeros((), np.int64)
    axis, keep = op.attr("axis", 0), bool(op.attr("keepdims", 1))
    function = jnp.argmax if op.node.op_type == "ArgMax" else jnp.argmin
    if not op.attr("select_last_index", 0):
        return function(x, axis=axis, keepdims=keep).astype(np.int64)
    return (x.shape[axis] - 1 - function(jnp.flip(x, axis), axis=axis, keepdims=keep)).astype(np.int64)


def _running(function: Function) -> Function:
    def running(op: XlaOp, x: Array, axis: Array) -> Array:
        (where,) = op.numbers(1) or (0,)
        turned = jnp.flip(x, where) if op.attr("reverse", 0) else x
        sums = function(turned, axis=where, dtype=x.dtype)
        if op.attr("exclusive", 0):
            sums = _delay(sums, where % x.ndim, 1 if function is jnp.cumprod else 0)
        return jnp.flip(sums, where) if op.attr("reverse", 0) else sums

    return running


def _delay(x: Array, axis: int, first: int) -> Array:
    """Move each element one position along the axis, with `first` in front."""
    if not x.shape[axis]:
        return x
    front = jnp.full_like(jax.lax.slice_in_dim(x, 0, 1, axis=axis), first)
    return jnp.concatenate([front, jax.lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=axis)], axis)


def _prefix(dims: PaddedDims) -> list[PaddingMask]:
    """Accept running sums from the front: they do not depend on later elements."""
    return by_axes(dims, range(len(dims.operand(0))) if dims.node.attr("reverse", 0) else (), None)


lowering("CumSum", since=11, types=(WIDE, INDICES), contents=(1,), along=_prefix)(_running(jnp.cumsum))
lowering("CumProd", since=26, types=(WIDE, INDICES), contents=(1,), along=_prefix)(_running(jnp.cumprod))
