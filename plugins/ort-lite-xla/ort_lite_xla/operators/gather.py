"""Operators that read or write elements by index. An index out of bounds is clamped."""

import jax.numpy as jnp
import numpy as np

from ort_lite_xla.along import except_axis, gather_nd_rule, gather_rule
from ort_lite_xla.registry import ALL, INDICES, NUMBERS, Array, XlaOp, lowering


def from_end(index: Array, size: int) -> Array:
    """Make indices below 0 count from the end."""
    return jnp.where(index < 0, index + size, index)


@lowering("Gather", since=1, types=(ALL, INDICES), host=True, along=gather_rule)
def gather(op: XlaOp, x: Array, index: Array) -> Array:
    """Return x[..., index, ...] along `axis`. Spec: ONNX Gather-13."""
    axis = op.attr("axis", 0)
    if op.xp is np:
        return np.take(x, index, axis)
    if x.shape[axis] == 0:  # for which JAX returns x
        axis %= x.ndim
        return jnp.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    return jnp.take(x, from_end(index, x.shape[axis]), axis, mode="clip")


@lowering("GatherElements", since=11, types=(ALL, INDICES), along=except_axis(0))
def gather_elements(op: XlaOp, x: Array, index: Array) -> Array:
    """Return x[index[i, j], j] for axis 0, and likewise for others. Spec: ONNX GatherElements-13."""
    axis = op.attr("axis", 0) % x.ndim
    return x.at[_places(from_end(index, x.shape[axis]), axis)].get(mode="clip")


@lowering("GatherND", since=11, types=(ALL, frozenset({"int64"})), along=gather_nd_rule)
def gather_nd(op: XlaOp, x: Array, index: Array) -> Array:
    """Return x[index[i]] for each row i of the indices. Spec: ONNX GatherND-13."""
    batch = op.attr("batch_dims", 0)
    columns = [from_end(index[..., k], x.shape[batch + k]) for k in range(index.shape[-1])]
    first = [
        np.arange(size).reshape([-1 if axis == k else 1 for k in range(index.ndim - 1)])
        for axis, size in enumerate(x.shape[:batch])
    ]
    return x.at[(*first, *columns)].get(mode="clip")


def _places(index: Array, axis: int) -> tuple[Array, ...]:
    """Return, for each element of `index`, its position in the operand: its own position, but `index` along the axis."""
    own = np.indices(index.shape, sparse=True)
    return tuple(index if k == axis else place for k, place in enumerate(own))


def _update(op: XlaOp, place: Array, updates: Array) -> Array:
    """Combine the operand with the updates as the attribute `reduction` says."""
    match op.attr("reduction", "none"):
        case "add":
            return place.add(updates, mode="clip")
        case "mul":
            return place.multiply(updates, mode="clip")
        case "max":
            return place.max(updates, mode="clip")
        case "min":
            return place.min(updates, mode="clip")
    return place.set(updates, mode="clip")


@lowering("Scatter", since=9, types=(ALL, INDICES, ALL))
@lowering("ScatterElements", since=11, types=(ALL, INDICES, ALL))
def scatter_elements(op: XlaOp, x: Array, index: Array, updates: Array) -> Array:
    """Copy x, then set y[index[i, j], j] = updates[i, j] for axis 0. Spec: ONNX ScatterElements-18."""
    axis = op.attr("axis", 0) % x.ndim
    x = jnp.asarray(x)
    return _update(op, x.at[_places(from_end(index, x.shape[axis]), axis)], updates)


@lowering("ScatterND", since=11, types=(ALL, frozenset({"int64"}), ALL))
def scatter_nd(op: XlaOp, x: Array, index: Array, updates: Array) -> Array:
    """Copy x, then set y[index[i]] = updates[i] for each row i of the indices. Spec: ONNX ScatterND-18."""
    x = jnp.asarray(x)
    columns = tuple(from_end(index[..., k], x.shape[k]) for k in range(index.shape[-1]))
    return _update(op, x.at[columns], updates)


@lowering("OneHot", since=9, types=(NUMBERS, NUMBERS, ALL), contents=(1,))
def one_hot(op: XlaOp, index: Array, depth: Array, values: Array) -> Array:
    """Return values[1] where the new dimension `axis` has the index, else values[0]. Spec: ONNX OneHot-11."""
    (size,) = op.numbers(1) or (0,)
    axis = op.attr("axis", -1)
    wanted = jnp.expand_dims(from_end(jnp.asarray(index).astype(np.int64), size), axis)
    places = np.arange(size).reshape([-1 if k == axis % wanted.ndim else 1 for k in range(wanted.ndim)])
    return jnp.where(wanted == places, values[1], values[0])
