"""Operators that only give memory another shape, and those that copy all of it in another order."""

from ort_lite_cpu.strided import contiguous, emit_permute, emit_strided
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import ANY, MOVABLE, operator
from ort_lite_cpu.tensor import Tensor


@operator("Reshape", "Flatten", "Squeeze", "Unsqueeze", types=MOVABLE)
def reshape(op: Op) -> None:
    """No work at run time: the output is the input's memory."""
    op.alias(op.input(0))


@operator("Identity", "Dropout", types=ANY)
def identity(op: Op) -> None:
    """Identity, and Dropout outside training: its mask, where asked for, is all True."""
    op.pass_on(op.raw(0))
    if op.wants(1):
        from ort_lite_cpu.operators.fill import emit_fill

        emit_fill(op, op.output(1), True)


@operator("Transpose", types=MOVABLE)
def transpose(op: Op) -> None:
    """A change of the storage order alone: a reader that wants the logical order has it made."""
    x = op.lowering.computed(op.raw(0))
    rank = len(x.shape)
    perm = list(op.attr("perm", range(rank)[::-1]))
    own = x.perm or tuple(range(rank))
    shape = tuple(x.shape[axis] for axis in perm)
    order = tuple(perm.index(axis) for axis in own)
    made = Tensor(x.dtype, shape, x.buffer, None if order == tuple(range(rank)) else order)
    if rank == 4 and order in ((0, 2, 3, 1), (0, 1, 2, 3)):
        op.set(0, made)
        return
    y = op.output(0)
    stored = x.stored_shape
    emit_permute(op.lowering, op.node, x, y, stored, [own.index(axis) for axis in perm])


@operator("DepthToSpace", "SpaceToDepth", types=MOVABLE)
def depth_to_space(op: Op) -> None:
    """(N, C, H, W): blocks of size b x b move between channels and space. A copy with six axes."""
    x, y = op.input(0), op.output(0)
    n, c, h, w = x.shape
    b = op.attr("blocksize")
    if op.node.op_type == "SpaceToDepth":
        shape, order = (n, c, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4)
    elif op.attr("mode", "DCR") == "DCR":
        shape, order = (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    else:
        shape, order = (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)
    emit_permute(op.lowering, op.node, x, y, shape, order)


@operator("Expand", since=8, types=MOVABLE)
def expand(op: Op) -> None:
    """NumPy broadcasting to a shape: axes that the input lacks, or has with length 1, are walked with stride 0."""
    from ort_lite.shapes import equal, same, select

    x, y = op.input(0), op.output(0)
    lead = len(y.shape) - len(x.shape)
    strides = [*([0] * lead), *contiguous(x.shape)]
    for axis, dim in enumerate(x.shape):
        if not same(dim, y.shape[axis + lead]):
            strides[axis + lead] = select(equal(dim, 1), 0, strides[axis + lead])
            fits = select(equal(dim, 1), 1, equal(dim, y.shape[axis + lead]))
            op.require(fits, f"dimension {dim} of the input cannot be expanded to {y.shape[axis + lead]}")
    emit_strided(op.lowering, op.node, x, y, y.shape, strides, contiguous(y.shape))


@operator("Tile", since=6, types=MOVABLE)
def tile(op: Op) -> None:
    """Repeats along every axis; each axis of the output is an axis of repeats and one of the input."""
    x, y = op.input(0), op.output(0)
    repeats = op.contents(1)
    own, out = contiguous(x.shape), contiguous(y.shape)
    dims = tuple(d for pair in zip(repeats, x.shape, strict=True) for d in pair)
    x_strides = [s for stride in own for s in (0, stride)]
    y_strides = [s for stride, dim in zip(out, x.shape, strict=True) for s in (stride * dim, stride)]
    emit_strided(op.lowering, op.node, x, y, dims, x_strides, y_strides)
