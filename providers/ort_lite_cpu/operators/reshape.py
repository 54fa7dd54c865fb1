"""Operators that only give memory another shape, and those that copy all of it in another order."""

from collections.abc import Sequence

from ort_lite.shapes import equal, less, product, same, select
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.broadcast import broadcast_step, broadcasts, require_broadcast
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_permute, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Expression, Tensor, same_shape, widened_from
from ort_lite_cpu.registry import ANY, MOVABLE, operator


@operator("ExpandDims", domain="com.microsoft", types=MOVABLE | {"complex128"})
@operator("Reshape", "Flatten", "Squeeze", "Unsqueeze", types=MOVABLE | {"complex128"})
def reshape(op: NodeLowering) -> None:
    """Reshape without work at run time: the output is the input's memory. Another storage order stays where it can."""
    _same_size(op)
    x, shape = op.builder.materialize(op.raw(0)), op.info().shape
    assert shape is not None
    orders = _regroup(x, shape) or _keep_order(x, shape)
    if orders is None:
        op.alias(op.input(0))
    else:
        op.set(0, Tensor(x.dtype, shape, op.input(0, orders[0]).buffer, orders[1]))


def _regroup(x: Tensor, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the storage orders before and after a reshape (N, channel axes, space) -> (N, other channel axes, space).

    The tensor is stored with its spatial axes in front of the channels. Returns None for any other reshape.
    """
    old, new = len(x.shape), len(shape)
    if x.perm is None or x.perm[0] != 0 or min(old, new) < 3 or not same(x.shape[0], shape[0]):
        return None
    for space in range(1, min(old, new) - 1):
        together = x.perm[1 : 1 + space] == tuple(range(old - space, old))
        if together and all(same(a, b) for a, b in zip(x.shape[-space:], shape[-space:], strict=True)):
            return (0, *range(old - space, old), *range(1, old - space)), (0, *range(new - space, new), *range(1, new - space))
    return None


def _keep_order(x: Tensor, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the storage orders before and after a reshape that splits axes, or joins axes that are stored side by side."""
    groups = None if x.perm is None else _groups(x.shape, shape)
    if groups is None or x.perm is None:
        return None
    order: list[int] = []
    at = 0
    while at < len(x.perm):
        found = next((pair for pair in groups if pair[0][:1] == x.perm[at : at + 1]), None)
        if found is None or x.perm[at : at + len(found[0])] != found[0]:
            return None
        order += found[1]
        at += len(found[0])
    return x.perm, tuple(order)


def _groups(old: Shape, new: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """Return groups of axes of two shapes, in order, that have equally many elements: one axis and those that it is split into or
    joined from. None if there are no such groups.
    """
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = k = 0
    while i < len(old) and k < len(new):
        splits = ((1, m) for m in range(1, len(new) - k + 1) if same(old[i], product(new[k : k + m])))
        joins = ((m, 1) for m in range(2, len(old) - i + 1) if same(product(old[i : i + m]), new[k]))
        taken, made = next(splits, None) or next(joins, (0, 0))
        if not taken:
            return None
        groups.append((tuple(range(i, i + taken)), tuple(range(k, k + made))))
        i, k = i + taken, k + made
    return groups if i == len(old) and k == len(new) else None


def _same_size(op: NodeLowering) -> None:
    old, new = op.raw(0).shape, op.info().shape
    assert new is not None
    places = [f"{{{k}}}" for k in range(len(old) + len(new))]
    before, after = ", ".join(places[: len(old)]), ", ".join(places[len(old) :])
    below = sum((less(dim, 0) for dim in new), start=0)  # a product would have two to the power of the rank terms
    fits = select(below, 0, equal(product(old), product(new)))
    op.require(fits, f"the shape ({before}) cannot become ({after})", *old, *new)


@operator("Identity", "Dropout", types=ANY)
@operator("SampleOp", domain="com.microsoft", types=ANY)
def identity(op: NodeLowering) -> None:
    """Pass the input on: Identity, SampleOp, and Dropout outside training.

    The mask of Dropout is all True; from opset 7 to 11 all 0, as onnxruntime's.
    """
    if op.has(2) and op.read_array(2).any():
        from ort_lite_cpu.operators.dropout import train_dropout

        train_dropout(op)
        return
    op.pass_on(op.raw(0))
    if op.wants(1):
        from ort_lite_cpu.operators.fill import emit_fill

        emit_fill(op, op.output(1), op.version < 7 or op.version >= 12)


@operator("Transpose", types=MOVABLE, moves=True)
def transpose(op: NodeLowering) -> None:
    """Change the storage order alone: readers that need the logical order convert it. Spec: ONNX Transpose-25."""
    x = op.raw(0)
    narrow = widened_from(x) if op.target.has_bfloat16_products and op.values.remaining.get(op.node.output, 1) == 1 else None
    perm = list(op.attr("perm") or range(len(x.shape))[::-1])  # an empty one is none, as in onnxruntime
    if narrow is None:
        op.set(0, _permute_axes(op.builder.materialize(x), perm))
        return
    turned = _permute_axes(op.builder.materialize(narrow), perm)  # for a product that reads it as it is
    op.set(0, Tensor(x.dtype, turned.shape, pending=Expression("{0}", (turned,), node=op.node)))


def _permute_axes(x: Tensor, perm: Sequence[int]) -> Tensor:
    """Return the same memory with the axes in another order."""
    own = x.perm or tuple(range(len(perm)))
    order = tuple(perm.index(axis) for axis in own)
    return Tensor(x.dtype, tuple(x.shape[axis] for axis in perm), x.buffer, None if order == tuple(range(len(perm))) else order)


@operator("DepthToSpace", "SpaceToDepth", types=MOVABLE, moves=True)
def depth_to_space(op: NodeLowering) -> None:
    """Move blocks of size b x b of (N, C, H, W) between channels and space, by a copy with six axes."""
    _same_size(op)
    x, y = op.input(0), op.output(0)
    n, c, h, w = x.shape
    b = op.attr("blocksize")
    if b < 1:
        raise op.reject(f"blocksize {b}; it should be 1 or more")
    if op.node.op_type == "SpaceToDepth":
        shape = (n, c, h // b, b, w // b, b)
        order = (0, 3, 5, 1, 2, 4) if op.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    elif op.attr("mode", "DCR") == "DCR":
        shape, order = (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    else:
        shape, order = (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)
    emit_permute(op, x, y, shape, order)


@operator("Expand", since=8, types=MOVABLE, moves=True)
def expand(op: NodeLowering) -> None:
    """Broadcast to a shape: axes that the input lacks, or has with length 1, are walked with stride 0. Spec: ONNX Expand-13."""
    x, y = op.input(0), op.output(0)
    for shape in (x.shape, op.contents(1)):
        for dim, wanted in zip(shape, y.shape[len(y.shape) - len(shape) :], strict=True):
            op.require(broadcasts(dim, wanted), "dimension {0} is neither 1 nor {1}, that of the result", dim, wanted)
    emit_strided_copy(op, x, y, y.shape, _broadcast_steps(x.shape, y.shape), contiguous(y.shape))


def _broadcast_steps(shape: Shape, wanted: Shape) -> list[Dim]:
    """Return the steps of a contiguous tensor along `wanted`, to which its shape broadcasts."""
    padded = (*(1,) * (len(wanted) - len(shape)), *shape)
    return [broadcast_step(dim, full, step) for dim, full, step in zip(padded, wanted, contiguous(padded), strict=True)]


def broadcast_to(op: NodeLowering, x: Tensor, shape: Shape, wanted: Shape) -> Tensor:
    """Return x, read as of `shape`, broadcast to `wanted`, or x itself if that changes nothing."""
    padded = (*(1,) * (len(wanted) - len(shape)), *shape)
    if same_shape(padded, wanted):
        return x
    require_broadcast(op, shape, wanted)
    made = op.temporary(x.dtype, wanted)
    emit_strided_copy(op, x, made, wanted, _broadcast_steps(shape, wanted), contiguous(wanted))
    return made


@operator("Tile", types=MOVABLE, moves=True)
def tile(op: NodeLowering) -> None:
    """Repeat along every axis; each axis of the output is an axis of repeats and one of the input. Spec: ONNX Tile-13.

    Before opset 6 the inputs are one count, and the axis that it is for, both of the input's type.
    """
    repeats: list[Dim] = list(op.contents(1)) if op.version >= 6 else [1] * len(op.raw(0).shape)
    if op.version < 6:
        repeats[int(op.read_array(2).reshape(-1)[0])] = int(op.read_array(1).reshape(-1)[0])
    for count in repeats:
        op.require(1 - less(count, 0), "{0} repeats, expected 0 or more", count)
    x, y = op.input(0), op.output(0)
    own, out = contiguous(x.shape), contiguous(y.shape)
    dims = tuple(d for pair in zip(repeats, x.shape, strict=True) for d in pair)
    x_strides = [s for stride in own for s in (0, stride)]
    y_strides = [s for stride, dim in zip(out, x.shape, strict=True) for s in (stride * dim, stride)]
    emit_strided_copy(op, x, y, dims, x_strides, y_strides)
