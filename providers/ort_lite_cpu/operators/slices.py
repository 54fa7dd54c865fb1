"""Parts of tensors: Slice, Split, Concat, Pad. All are copies with strides."""

from collections.abc import Sequence

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, native
from ort_lite.shapes import equal, less, maximum, minimum, product, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import ROW, linear_work, work_of_copy
from ort_lite_cpu.lowering.lowered import Requirement
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor, bits, same_shape
from ort_lite_cpu.operators.columns import Columns, merge
from ort_lite_cpu.operators.fill import emit_fill
from ort_lite_cpu.operators.joined import is_part
from ort_lite_cpu.registry import MOVABLE, operator


@operator("Slice", types=MOVABLE, moves=True)
def slice_(op: NodeLowering) -> None:
    """Copy a slice. starts, ends, axes and steps are attributes before opset 10, inputs since. Spec: ONNX Slice-13.

    The output's shape is inferred; starts are clamped here.
    """
    x, y = op.input(0), op.output(0)
    rank = len(x.shape)
    if op.version < 10:
        starts: tuple[Dim, ...] = tuple(op.attr("starts"))
        axes: list[int] = list(op.attr("axes", range(len(starts))))
        steps: tuple[Dim, ...] = (1,) * len(starts)
    else:
        axes = op.numbers(3) if op.has(3) else []
        starts = op.contents(1)
        axes = axes if op.has(3) else list(range(len(starts)))
        steps = op.contents(4) if op.has(4) else (1,) * len(starts)
    own = contiguous(x.shape)
    strides = list(own)
    at: Dim = 0
    for start, axis, step in zip(starts, axes, steps, strict=True):
        k = axis % rank
        op.require(1 - equal(step, 0), f"the step along axis {axis} is 0")
        at = at + _first(start, step, x.shape[k]) * own[k]
        strides[k] = own[k] * step
    emit_strided_copy(op, x, y, y.shape, strides, contiguous(y.shape), at)


def _first(start: Dim, step: Dim, length: Dim) -> Dim:
    """Return the first index of a slice: negative ones count from the end, then clamped to [0, length] or, backwards, length - 1."""
    begin = select(less(start, 0), start + length, start)
    last = length if isinstance(step, int) and step > 0 else select(less(step, 0), length - 1, length)
    return maximum(minimum(begin, last), 0)


@operator("Split", types=MOVABLE, moves=True)
def split(op: NodeLowering) -> None:
    """Split the input: each output is a run of it along `axis`. Spec: ONNX Split-18."""
    x = op.input(0)
    axis = op.attr("axis", 0) % len(x.shape)
    lengths: list[Dim] = []
    for k in range(len(op.node.outputs)):
        shape = op.info(k).shape
        assert shape is not None
        lengths.append(shape[axis])
    total = sum(lengths, 0)
    op.require(equal(total, x.shape[axis]), "its parts make up {0}, the axis has {1}", total, x.shape[axis])
    fits = all(not isinstance(length, int) or length >= 0 for length in lengths)
    if not fits:  # an error of the run: branches that are never taken have such nodes
        parts = ", ".join(f"{{{k}}}" for k in range(1, len(lengths) + 1))
        numbers = (x.shape[axis], *lengths)
        op.builder.result.items.append(Requirement(op.node, 0, f"{{0}} elements cannot be cut into parts of {parts}", numbers))
    at: Dim = 0
    for k, length in enumerate(lengths):
        if op.wants(k):
            y = op.output(k)
            strides = contiguous(x.shape)
            if fits:
                emit_strided_copy(op, x, y, y.shape, strides, contiguous(y.shape), at * strides[axis])
        at = at + length


@operator("Concat", types=MOVABLE, moves=True)
def concat(op: NodeLowering) -> None:
    """Copy each input that is not there yet to its place; keep a storage order that the first input has."""
    raws, whole = [op.raw(k) for k in range(len(op.node.inputs))], op.values.joined.get(op.node)
    if whole is not None and same_shape(whole.shape, op.info().shape or ()):
        y, perm = whole, whole.perm
        op.set(0, y)
    else:
        perm = next((raw.perm for raw in raws if raw.perm is not None and raw.pending is None), None)
        y = op.output(0, perm)
    axis = op.attr("axis", 1) % len(y.shape)
    takes_columns = axis == 1 and len(y.shape) == 2 and perm is None
    written = [is_part(raw, y) or (takes_columns and isinstance(raw.later, Columns)) for raw in raws]
    inputs = [raw if written[k] else op.input(k, perm) for k, raw in enumerate(raws)]
    emit_concat(op, merge(inputs), y, axis)


def emit_concat(op: NodeLowering, inputs: Sequence[Tensor], y: Tensor, axis: int) -> None:
    """y = the inputs, all in y's storage order, behind each other along the logical axis; parts of y are there already."""
    order = y.perm or tuple(range(len(y.shape)))
    axis = order.index(axis)
    strides = contiguous(y.storage_shape)
    at: Dim = 0
    for x in inputs:
        others = [k for k in range(len(order)) if k != axis]
        op.agree([x.storage_shape[k] for k in others], [y.storage_shape[k] for k in others], "dimensions of its inputs differ")
        if isinstance(x.later, Columns):
            x.later.write(op, y, at)
        elif not is_part(x, y):
            emit_strided_copy(op, x, y, x.storage_shape, contiguous(x.storage_shape), strides, 0, at * strides[axis])
        at = at + x.storage_shape[axis]


@native
@extents(x="outer * n * inner", y="outer * total * inner")
def pad_axis(
    x: Ptr,
    y: Ptr,
    outer: int,
    n: int,
    inner: int,
    before: int,
    total: int,
    first: int,
    left: int,
    mode: Static,
    part: int,
    parts: int,
) -> int:
    """y (outer, total, inner) = x (outer, n, inner) continued along the middle axis: edge, reflect or wrap.

    Negative pads leave `left` elements from `first` on; wrap repeats those. Neither n nor left is 0 where there is anything to
    write: `_pad_axes` asks for it.
    """
    begin, end = (first, first + left) if mode == "wrap" else (0, n)
    row, last = outer * total * part // parts, outer * total * (part + 1) // parts  # as `span`
    block, at = row // max(total, 1), row % max(total, 1)
    while row < last:
        i, count = at - before, 1
        if i >= begin and i < end:
            count = min(end - i, total - at, last - row)
        else:
            i = mirrored(i, n, begin, left, mode)
        source = (block * n + i) * inner
        for j in range(count * inner):
            y[row * inner + j] = x[source + j]
        row, at = row + count, at + count
        if at == total:
            block, at = block + 1, 0
    return OK


@native
def mirrored(i: int, n: int, first: int, left: int, mode: Static) -> int:
    """Return the element that continues an axis of n at i, outside of it."""
    if mode == "edge":
        return min(max(i, 0), n - 1)
    if mode == "wrap":
        return first + (i - first) % left
    if n == 1:
        return 0
    if i < 1 - n or i >= 2 * n - 1:
        i = i % (2 * n - 2)
    return -i if i < 0 else 2 * n - 2 - i if i >= n else i


@operator("Pad", types=MOVABLE, moves=True)
@operator("Pad", domain="com.microsoft", types=MOVABLE)
def pad(op: NodeLowering) -> None:
    """Pad by constant, reflect, edge or wrap; negative pads cut. `pads` is an attribute before opset 11, an input since."""
    x = op.input(0)
    rank = len(x.shape)
    given = op.attr("pads", op.attr("paddings"))
    pads: tuple[Dim, ...] = op.contents(1) if given is None else tuple(given)
    axes = [axis % rank for axis in op.numbers(3)] if op.has(3) else list(range(rank))
    count = len(axes)
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[k + count]
    for axis in axes:
        left = x.shape[axis] + before[axis] + after[axis]
        op.require(1 - less(left, 0), f"axis {axis} would have {{0}} elements", left)
        if op.attr("mode") == "reflect":
            _check_mirror(op, axis, x.shape[axis], before[axis], after[axis])
    mode = op.attr("mode", "constant")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise op.reject(f"mode {mode!r}; it should be constant, edge, reflect or wrap")
    if mode == "constant":
        _pad_constant(op, x, before, after)
    else:
        _pad_axes(op, x, before, after, mode)


def _check_mirror(op: NodeLowering, axis: int, dim: Dim, before: Dim, after: Dim) -> None:
    """Make the run fail if an axis is padded by more than its mirror has: the rest would be mirrored twice."""
    most = maximum(before, after)
    left = dim + minimum(before, 0) + minimum(after, 0)
    fits = select(less(0, most), less(most, left), 1)
    op.require(fits, f"mode 'reflect' cannot pad axis {axis} of {{0}} elements by {{1}}", left, most)


def _pad_constant(op: NodeLowering, x: Tensor, before: list[Dim], after: list[Dim]) -> None:
    y = op.output(0)
    value = op.optional(2)
    emit_fill(op, y, op.attr("value", 0) if value is None else value)
    own, out = contiguous(x.shape), contiguous(y.shape)
    cut = [maximum(0, 0 - b) for b in before]
    dims = tuple(maximum(0, n - c - maximum(0, 0 - a)) for n, c, a in zip(x.shape, cut, after, strict=True))
    x_at = sum((c * s for c, s in zip(cut, own, strict=True)), 0)
    y_at = sum((maximum(0, b) * s for b, s in zip(before, out, strict=True)), 0)
    emit_strided_copy(op, x, y, dims, own, out, x_at, y_at)


def _pad_axes(op: NodeLowering, x: Tensor, before: list[Dim], after: list[Dim], mode: str) -> None:
    """Pad one axis after the other, the last one into the output."""
    moving = [k for k in range(len(x.shape)) if not (before[k] == 0 and after[k] == 0)]
    if not moving:
        op.alias(x)
        return
    shape = list(x.shape)
    for k in moving:
        n = shape[k]
        shape[k] = n + before[k] + after[k]
        left = n + minimum(before[k], 0) + minimum(after[k], 0)
        rest = maximum(left, 0) if mode == "wrap" else n
        op.require(rest + equal(shape[k], 0), f"axis {k} has no elements to continue")
        y = op.output(0) if k == moving[-1] else op.temporary(x.dtype, tuple(shape))
        op.emit(
            pad_axis,
            [bits(x), bits(y)],
            outer=product(shape[:k]),
            n=n,
            inner=product(shape[k + 1 :]),
            before=before[k],
            total=shape[k],
            first=maximum(0, 0 - before[k]),
            left=left,
            mode=mode,
            work=linear_work(product(shape[:k]) * (1 + maximum(shape[k] - n, 0)), ROW) + work_of_copy(y.dtype, y.size),
        )
        x = y
