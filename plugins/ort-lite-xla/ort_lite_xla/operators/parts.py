"""Operators that join, split or pad tensors."""

import jax
import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import Mixed, PaddedDims, except_axis, move_rule, slice_rule
from ort_lite_xla.registry import ALL, FLOATS, INDICES, NUMBERS, Array, PaddingMask, XlaOp, lowering


def _other_axes(dims: PaddedDims) -> list[PaddingMask]:
    """Allow padding of any operand, but not along the axis."""
    axis = int(dims.node.attr("axis", 1))
    if any(isinstance(sizes[axis], str) for sizes in (*dims.operands, *dims.results) if sizes):
        raise Mixed("it joins tensors along a padded dimension")
    return move_rule(dims)


@lowering("Concat", since=4, host=True, along=_other_axes)
def concat(op: XlaOp, *operands: Array) -> Array:
    """Join the operands along `axis`. Spec: ONNX Concat-13."""
    return op.xp.concatenate(operands, op.attr("axis", 1))


@lowering("Split", since=2, types=(ALL, INDICES), contents=(1,), host=True, along=except_axis(0))
def split(op: XlaOp, x: Array, sizes: Array = None) -> tuple[Array, ...]:
    """Split along `axis` into given or equal sizes; the last one may be smaller. Spec: ONNX Split-18."""
    axis, parts = op.attr("axis", 0), len(op.node.outputs)
    given = op.attr("split") if sizes is None else op.numbers(1)
    if given is None:
        piece = -(-x.shape[axis] // op.attr("num_outputs", parts))
        given = [piece] * (parts - 1)
        ends = np.cumsum(given)
    else:
        ends = np.cumsum(given)[:-1]
    return tuple(op.xp.split(x, [int(min(end, x.shape[axis])) for end in ends], axis))


@lowering("Slice", since=10, types=(ALL, INDICES), contents=(1, 2, 3, 4), host=True, along=slice_rule)
def slice_(op: XlaOp, x: Array, *operands: Array) -> Array:
    """Return x[start:end:step] along each of the axes. Spec: ONNX Slice-13."""
    starts, ends = op.numbers(1) or [], op.numbers(2) or []
    return _slice(x, starts, ends, op.numbers(3), op.numbers(4))


@lowering("Slice", since=1, host=True)
def slice_by_attributes(op: XlaOp, x: Array) -> Array:
    """Slice without steps, by attributes. Spec: ONNX Slice-1."""
    return _slice(x, op.attr("starts"), op.attr("ends"), op.attr("axes"), None)


def _slice(x: Array, starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None) -> Array:
    index = [slice(None)] * x.ndim
    for k, axis in enumerate(range(len(starts)) if axes is None else axes):
        size, step = x.shape[axis], 1 if steps is None else steps[k]
        start, end = (at + size if at < 0 else at for at in (starts[k], ends[k]))
        if step > 0:
            index[axis] = slice(min(max(start, 0), size), min(max(end, 0), size), step)
        elif size:
            end = min(max(end, -1), size - 1)
            index[axis] = slice(min(max(start, 0), size - 1), None if end < 0 else end, step)
    return x[tuple(index)]


def _no_negative_copies(node: Node) -> str | None:
    """Reject negative pads in modes that copy: the specification does not say if a part that is cut off returns at the other end."""
    mode = node.attr("mode", "constant")
    pads = node.inputs[1] if len(node.inputs) > 1 else None
    plain = pads is not None and pads.constant is not None and bool((pads.constant >= 0).all())
    return None if plain or mode not in ("reflect", "wrap") else f"mode {mode} with pads that may be negative"


@lowering("Pad", since=11, types=(ALL, INDICES, ALL, INDICES), contents=(1, 3), check=_no_negative_copies)
def pad(op: XlaOp, x: Array, pads: Array, value: Array = None, axes: Array = None) -> Array:
    """Add elements before and after each of the axes; negative pads remove some. Spec: ONNX Pad-25."""
    return _pad(op, x, op.numbers(1) or [], value, op.numbers(3))


@lowering("Pad", since=2, types=FLOATS)
def pad_by_attributes(op: XlaOp, x: Array) -> Array:
    """Pad by attributes. Spec: ONNX Pad-2."""
    return _pad(op, x, op.attr("pads"), np.array(op.attr("value", 0.0)).astype(x.dtype), None)


def _pad(op: XlaOp, x: Array, pads: list[int], value: Array, axes: list[int] | None) -> Array:
    chosen = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    widths = [(0, 0)] * x.ndim
    for k, axis in enumerate(chosen):
        widths[axis] = (pads[k], pads[k + len(pads) // 2])
    mode = op.attr("mode", "constant")
    if mode == "constant":
        fill = jnp.zeros((), x.dtype) if value is None else jnp.asarray(value, x.dtype).reshape(())
        return jax.lax.pad(x, fill, [(before, after, 0) for before, after in widths])
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(widths, x.shape, strict=True))
    return jnp.pad(x[cut], [(max(a, 0), max(b, 0)) for a, b in widths], mode=mode)


@lowering("Trilu", since=14, types=(ALL, frozenset({"int64"})), contents=(1,))
def trilu(op: XlaOp, x: Array, k: Array = None) -> Array:
    """Keep the upper or the lower triangle of the last two dimensions; the rest becomes 0. Spec: ONNX Trilu-14."""
    (diagonal,) = op.numbers(1) or (0,)
    return jnp.triu(x, diagonal) if op.attr("upper", 1) else jnp.tril(x, diagonal)


@lowering("ReverseSequence", since=10, types=(ALL, frozenset({"int64"})))
def reverse_sequence(op: XlaOp, x: Array, lengths: Array) -> Array:
    """Reverse the first lengths[b] elements along the time axis, for each batch entry b. Spec: ONNX ReverseSequence-10."""
    time, batch = op.attr("time_axis", 0), op.attr("batch_axis", 1)
    moved_x = jnp.moveaxis(x, (batch, time), (0, 1))
    steps = jnp.arange(moved_x.shape[1])[None, :]
    at = jnp.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    found = jnp.take_along_axis(moved_x, at.reshape(*at.shape, *[1] * (x.ndim - 2)), axis=1)
    return jnp.moveaxis(found, (0, 1), (batch, time))


def _check_order(node: Node) -> str | None:
    return None if node.attr("sorted", 1) else "sorted = 0 leaves the order open"


@lowering("TopK", since=10, types=(NUMBERS, frozenset({"int64"})), contents=(1,), check=_check_order, along=except_axis(-1))
def top_k(op: XlaOp, x: Array, k: Array) -> tuple[Array, Array]:
    """Return the k largest or smallest elements along `axis`, the first of equal ones first, and their indices. Spec: ONNX TopK-24."""
    (count,) = op.numbers(1) or (0,)
    axis = op.attr("axis", -1)
    order = jnp.argsort(x, axis=axis, descending=bool(op.attr("largest", 1)), stable=True)
    chosen = jax.lax.slice_in_dim(order, 0, count, axis=axis)
    return jnp.take_along_axis(x, chosen, axis=axis), chosen.astype(np.int64)
