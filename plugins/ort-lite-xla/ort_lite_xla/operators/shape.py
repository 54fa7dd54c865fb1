"""Operators that return shapes, or give elements another shape."""

from collections.abc import Sequence
from math import prod

import jax.numpy as jnp
import numpy as np

from ort_lite.graph import Node
from ort_lite_xla.along import expand_rule, fill_rule, move_rule, only_first, range_rule, regroup_rule, shape_only
from ort_lite_xla.registry import ALL, INDICES, NUMBERS, Array, XlaOp, lowering


@lowering("Shape", host=True, along=shape_only)
def shape(op: XlaOp, x: Array) -> Array:
    """Return the sizes of the dimensions from `start` to `end`. Spec: ONNX Shape-25."""
    return np.array(x.shape[op.attr("start", 0) : op.attr("end")], np.int64)


@lowering("Size", host=True, along=shape_only)
def size(op: XlaOp, x: Array) -> Array:
    """Return the number of elements. Spec: ONNX Size-25."""
    return np.array(x.size, np.int64)


@lowering("Reshape", since=5, types=(ALL, INDICES), contents=(1,), host=True, along=regroup_rule)
def reshape(op: XlaOp, x: Array, shape: Array) -> Array:
    """Reshape x. -1 is computed from the rest; 0 copies the operand's dimension unless `allowzero`. Spec: ONNX Reshape-25."""
    wanted = op.numbers(1) or []
    if not op.attr("allowzero", 0):
        filled = [x.shape[k] if size == 0 and k < x.ndim else size for k, size in enumerate(wanted)]
        if x.size or -1 in filled or 0 in filled:  # otherwise only a literal 0 can describe an empty tensor
            wanted = filled
    return x.reshape([_infer_size(x.shape, wanted) if size == -1 else size for size in wanted] if x.size == 0 else wanted)


def _infer_size(shape: Sequence[int], wanted: Sequence[int]) -> int:
    """Return the size for -1 of an empty tensor. A dimension of 0 that is copied is left out: it says nothing about the others."""
    stay = [k for k, (size, there) in enumerate(zip(wanted, shape, strict=False)) if size == there == 0]
    whole = prod(size for k, size in enumerate(shape) if k not in stay)
    rest = prod(size for k, size in enumerate(wanted) if k not in stay and size != -1)
    return whole // rest if rest and whole % rest == 0 else 0


@lowering("Flatten", since=1, along=regroup_rule)
def flatten(op: XlaOp, x: Array) -> Array:
    """Reshape to (product of the dimensions before `axis`, product of the rest). Spec: ONNX Flatten-25."""
    axis = op.attr("axis", 1)
    front = x.shape[: axis if axis >= 0 else x.ndim + axis]
    rows = int(np.prod(front))
    return x.reshape(rows, int(np.prod(x.shape[len(front) :])))


@lowering("Squeeze", since=1, types=(ALL, INDICES), contents=(1,), host=True, along=regroup_rule)
def squeeze(op: XlaOp, x: Array, axes: Array = None) -> Array:
    """Remove the dimensions `axes` of size 1, or all of size 1. Spec: ONNX Squeeze-25."""
    given = op.attr("axes") if axes is None else op.numbers(1)
    return op.xp.squeeze(x, None if given is None else tuple(given))


@lowering("Unsqueeze", since=1, types=(ALL, INDICES), contents=(1,), host=True, along=regroup_rule)
def unsqueeze(op: XlaOp, x: Array, axes: Array = None) -> Array:
    """Add dimensions of size 1 at `axes` of the result. Spec: ONNX Unsqueeze-25."""
    return op.xp.expand_dims(x, tuple((op.attr("axes") if axes is None else op.numbers(1)) or ()))


@lowering("Transpose", since=1, host=True, along=move_rule)
def transpose(op: XlaOp, x: Array) -> Array:
    """Reorder the dimensions by `perm`; by default, reverse them. Spec: ONNX Transpose-25."""
    return op.xp.transpose(x, op.attr("perm") or None)


@lowering("Expand", since=8, types=(ALL, INDICES), contents=(1,), host=True, along=expand_rule)
def expand(op: XlaOp, x: Array, shape: Array) -> Array:
    """Broadcast x to a shape. Spec: ONNX Expand-13."""
    return op.xp.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(op.numbers(1) or ())))


def _no_strings(node: Node) -> str | None:
    names = [name for name in ("value_string", "value_strings", "sparse_value") if name in node.attributes]
    return f"{names[0]} is not supported" if names else None


@lowering("Constant", since=1, host=True, check=_no_strings, along=fill_rule)
def constant(op: XlaOp) -> Array:
    """Return the attribute's value. Spec: ONNX Constant-25."""
    names = ("value", "value_int", "value_ints", "value_float", "value_floats")
    return np.asarray(next(found for name in names if (found := op.attr(name)) is not None), op.dtype())


@lowering("ConstantOfShape", since=9, types=INDICES, contents=(0,), host=True, along=fill_rule)
def constant_of_shape(op: XlaOp, shape: Array) -> Array:
    """Return a tensor filled with `value`, by default 0. Spec: ONNX ConstantOfShape-25."""
    value = op.attr("value")
    return op.xp.full(op.numbers(0) or (), 0 if value is None else value.reshape(()), op.dtype())


@lowering("Range", since=11, types=NUMBERS, contents=(0, 1, 2), host=True, along=range_rule)
def arange(op: XlaOp, start: Array, limit: Array, delta: Array) -> Array:
    """Return start, start + delta, ... below limit. Spec: ONNX Range-11."""
    first, last, step = (op.contents(k).reshape(()) for k in range(3))
    count = max(int(np.ceil((last.astype(np.float64) - first) / step)), 0)
    return op.xp.arange(count).astype(op.dtype()) * step + first


@lowering("EyeLike", since=9, along=None)
def eye_like(op: XlaOp, x: Array) -> Array:
    """Return a matrix of the operand's shape with ones on the diagonal `k`. Spec: ONNX EyeLike-22."""
    return jnp.eye(*x.shape, k=op.attr("k", 0), dtype=op.dtype())


@lowering("Tile", since=6, types=(ALL, INDICES), contents=(1,), host=True, along=move_rule)
def tile(op: XlaOp, x: Array, repeats: Array) -> Array:
    """Repeat x along each dimension. Spec: ONNX Tile-13."""
    return op.xp.tile(x, tuple(op.numbers(1) or ()))


@lowering("DepthToSpace", since=1, along=only_first())
def depth_to_space(op: XlaOp, x: Array) -> Array:
    """Rearrange (N, C, H, W) to (N, C / b², H b, W b). Spec: ONNX DepthToSpace-13."""
    (n, c, h, w), b = x.shape, op.attr("blocksize")
    if op.attr("mode", "DCR") == "DCR":
        blocks = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // b**2, h * b, w * b)


@lowering("SpaceToDepth", since=1, along=only_first())
def space_to_depth(op: XlaOp, x: Array) -> Array:
    """Rearrange (N, C, H, W) to (N, C b², H / b, W / b). Spec: ONNX SpaceToDepth-13."""
    (n, c, h, w), b = x.shape, op.attr("blocksize")
    order = (0, 3, 5, 1, 2, 4) if op.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return x.reshape(n, c, h // b, b, w // b, b).transpose(order).reshape(n, c * b * b, h // b, w // b)
