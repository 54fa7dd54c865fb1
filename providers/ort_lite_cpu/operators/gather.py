"""Reading and writing at indices: Gather, GatherElements, GatherND, ScatterElements, ScatterND."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import COMPLEX, INTEGERS, itemsize
from ort_lite.native.extents import Extent, Reach, extents, walk
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    failure_status,
    fmax,
    fmin,
    from_end,
    imax,
    imin,
    native,
    read_once,
    span,
    wadd,
    wmul,
)
from ort_lite.shapes import floordiv, less, maximum, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import ROW, linear_work, work_of_copy
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.lowered import SERIAL, Kernel
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous
from ort_lite_cpu.lowering.tensor import Tensor, bits, pairs
from ort_lite_cpu.registry import MOVABLE, operator
from ort_lite_cpu.types import HALVES

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure
    from ort_lite_cpu.lowering.lowered import Message

Sizes = dict[str, Any]
"""Scalars of a kernel by the names of its parameters."""
Touched = dict[str, Extent]


def index_along(operand: int) -> Callable[["Failure"], str]:
    """Return the message of a kernel whose indices, input 1 of its node, are that operand; its scalar `axis` limits them."""
    return lambda failure: failure.outside("index", operand, -failure.scalar("axis"), failure.scalar("axis"), 1)


def index_nd(operand: int) -> Callable[["Failure"], str]:
    """Return the message for an index outside limits that are the first `depth` elements of operand 2 (see `index_along`)."""

    def message(failure: "Failure") -> str:
        limit = failure.element(2, failure.at % failure.scalar("depth"))
        return failure.outside("index", operand, -limit, limit, 1)

    return message


@native
@extents(x="outer * axis * inner", index="count", y="outer * count * inner")
def gather(x: Ptr, index: Ptr, y: Ptr, outer: int, axis: int, count: int, inner: int, part: int, parts: int) -> int:
    """y[o, c, :] = x[o, index[c], :] for x (outer, axis, inner), index (count,), y (outer, count, inner), contiguous."""
    position, base = -1, 0
    for row in span(outer * count, part, parts):
        if position < 0:  # the first row; a division for each would take longer than a copy of one element
            position, base = row % count, row // count * axis
        j = from_end(read_once(index, position), axis)
        if j < 0 or j >= axis:
            return failure_status(INDEX_OUT_OF_RANGE, position)
        if inner == 1:
            y[row] = x[base + j]
        else:
            source = (base + j) * inner
            for i in range(inner):
                y[row * inner + i] = x[source + i]
        position += 1
        if position == count:
            position, base = 0, base + axis
    return OK


@operator("Gather", types=MOVABLE, moves=True)
def lower_gather(op: NodeLowering) -> None:
    """Emit Gather, one pass over y. Negative indices count from the end. Spec: ONNX Gather-13."""
    x, index = op.input(0), op.input(1)
    outer, axis, inner = shape_around(x, op.attr("axis", 0) % len(x.shape))
    emit_gather(op, x, index, (outer, axis, index.size, inner), index_along(1))


def shape_around(x: Tensor, axis: int) -> tuple[Dim, Dim, Dim]:
    """Return the shape (outer, axis, inner) of x as a kernel sees it that works along one axis."""
    return product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :])


def emit_gather(op: NodeLowering, x: Tensor, index: Tensor, sizes: tuple[Dim, Dim, Dim, Dim], message: "Message" = "") -> None:
    """Emit output 0 = x at the indices. sizes: outer, those of the axis, indices, inner."""
    y, pieces = op.output(0), 1 if itemsize(x.dtype) <= 8 else 2
    outer, axis, count, inner = sizes
    given: dict[str, Any] = {"outer": outer, "axis": axis, "count": count, "inner": inner * pieces}
    op.emit(gather, [bits(x), index, bits(y)], **given, work=work_of_rows(y, inner), message=message)


def work_of_rows(y: Tensor, inner: Dim) -> Dim:
    """Return the work of finding and copying rows of `inner` elements."""
    return linear_work(floordiv(y.size, maximum(inner, 1)), ROW) + work_of_copy(y.dtype, y.size)


def sizes_table(op: NodeLowering, *columns: Sequence[Dim]) -> Tensor:
    """Return the sizes of any number of axes for a kernel, column after column, as int64."""
    numbers = tuple([number for column in columns for number in column])
    return op.store(Tensor("int64", (len(numbers),), contents=numbers))


@native
@extents(x="given", index="given", table="2 * rank", y="given")
def gather_elements(
    x: Ptr, index: Ptr, table: Ptr, y: Ptr, rows: int, rank: int, axis: int, stride: int, part: int, parts: int
) -> int:
    """y[i] = x[i with its index along the axis replaced], by rows of the last axis.

    table: the dims of index, then the strides of x, 0 along the axis, which has length `axis` and stride `stride`.
    """
    count, step = table[rank - 1], table[2 * rank - 1]
    for row in span(rows, part, parts):
        base = _row_start(table, row, rank)
        for i in range(count):
            at = row * count + i
            j = from_end(read_once(index, at), axis)
            if j < 0 or j >= axis:
                return failure_status(INDEX_OUT_OF_RANGE, at)
            y[at] = x[base + i * step + j * stride]
    return OK


def _row_start(table: Ptr, row: int, rank: int) -> int:
    """Return the offset of row number `row` of a tensor whose dims and strides are in the table."""
    base, rest = 0, row
    for k in range(rank - 2, -1, -1):
        base += (rest % table[k]) * table[rank + k]
        rest = rest // table[k]
    return base


def _along(op: NodeLowering, index: Tensor, x: Tensor) -> tuple[Tensor, Sizes, Extent]:
    """Return (table, sizes, extents of the tensor with the axis) of gather_elements and scatter_elements."""
    axis = op.attr("axis", 0) % len(x.shape)
    for k, (mine, whole) in enumerate(zip(index.shape, x.shape, strict=True)):
        if k != axis:
            op.require(1 - less(whole, mine), f"its indices have {{0}} elements along axis {k}, the input {{1}}", mine, whole)
    strides = contiguous(x.shape)
    steps = [0 if k == axis else stride for k, stride in enumerate(strides)]
    table = sizes_table(op, index.shape, steps)
    loops = [number for pair in zip(index.shape, steps, strict=True) for number in pair]
    touched = walk(0, *loops, x.shape[axis], strides[axis])
    sizes = {"rows": product(index.shape[:-1]), "rank": len(x.shape), "axis": x.shape[axis], "stride": strides[axis]}
    return table, sizes, touched


@operator("GatherElements", types=MOVABLE, moves=True)
def lower_gather_elements(op: NodeLowering) -> None:
    """Emit GatherElements."""
    x, index, y = op.input(0), op.input(1), op.output(0)
    table, sizes, reached = _along(op, index, x)
    touched = {"x": reached, "index": index.size, "y": index.size}
    operands = [bits(x), index, table, bits(y)]
    op.emit(gather_elements, operands, **sizes, work=y.size * 2, message=index_along(1), touched=touched)


@native
@extents(x="batch * whole", index="batch * count * depth", table="2 * depth", y="batch * count * inner")
def gather_nd(
    x: Ptr, index: Ptr, table: Ptr, y: Ptr, batch: int, count: int, depth: int, inner: int, whole: int, part: int, parts: int
) -> int:
    """y[b, c, :] = x[b][index[b, c]] for index (batch, count, depth); whole: elements of a batch of x.

    table: the dims of x that are indexed, then their strides.
    """
    for row in span(batch * count, part, parts):
        source = (row // count) * whole
        for k in range(depth):
            j = from_end(read_once(index, row * depth + k), table[k])
            if j < 0 or j >= table[k]:
                return failure_status(INDEX_OUT_OF_RANGE, row * depth + k)
            source += j * table[depth + k]
        for i in range(inner):
            y[row * inner + i] = x[source + i]
    return OK


@operator("GatherND", types=MOVABLE, moves=True)
@operator("GatherND", domain="com.microsoft", types=MOVABLE, moves=True)
def lower_gather_nd(op: NodeLowering) -> None:
    """Emit GatherND."""
    depth, batches = op.dim(1, -1), op.attr("batch_dims", 0)
    x, index, y = op.input(0), op.input(1), op.output(0)
    op.agree(x.shape[:batches], index.shape[:batches], "batch dimensions differ")
    end = batches + depth
    inner = product(x.shape[end:])
    table = sizes_table(op, x.shape[batches:end], contiguous(x.shape)[batches:end])
    op.emit(
        gather_nd,
        [bits(x), index, table, bits(y)],
        batch=product(x.shape[:batches]),
        count=product(index.shape[batches:-1]),
        depth=depth,
        inner=inner,
        whole=product(x.shape[batches:]),
        work=work_of_rows(y, inner),
        message=index_nd(1),
    )


def _write(y: Ptr, at: int, updates: Ptr, k: int, how: Static) -> None:
    """y[at] = what `_combine` makes of it and updates[k]; of pairs of floats, which are complex numbers, as complex_* say."""
    if how == "complex_add":
        y[2 * at] += updates[2 * k]
        y[2 * at + 1] += updates[2 * k + 1]
    elif how == "complex_mul":
        a, b, c, d = y[2 * at], y[2 * at + 1], updates[2 * k], updates[2 * k + 1]
        y[2 * at] = a * c - b * d
        y[2 * at + 1] = a * d + b * c
    elif how == "complex_max" or how == "complex_min":
        a, b, c, d = y[2 * at], y[2 * at + 1], updates[2 * k], updates[2 * k + 1]
        later = c > a or (c == a and d > b) if how == "complex_max" else c < a or (c == a and d < b)
        if (later or c != c or d != d) and a == a and b == b:
            y[2 * at] = c
            y[2 * at + 1] = d
    else:
        y[at] = _combine(y[at], updates[k], how)


def _combine(old: object, new: object, how: Static) -> object:
    """Combine the old and the new element in their own type."""
    if how == "add":
        return wadd(old, new)
    if how == "mul":
        return wmul(old, new)
    if how == "max":
        return fmax(old, new)
    if how == "min":
        return fmin(old, new)
    if how == "imax":
        return imax(old, new)
    if how == "imin":
        return imin(old, new)
    return new


@native
@extents(index="given", updates="given", table="2 * rank", y="given")
def scatter_elements(
    index: Ptr,
    updates: Ptr,
    table: Ptr,
    y: Ptr,
    rows: int,
    rank: int,
    axis: int,
    stride: int,
    how: Static,
    part: int,
    parts: int,
) -> int:
    """y[i with its index along the axis replaced] = updates[i], in order: the last one of equal indices stays.

    table as of gather_elements.
    """
    count, step = table[rank - 1], table[2 * rank - 1]
    for row in range(rows):
        base = _row_start(table, row, rank)
        for i in range(count):
            at = row * count + i
            j = from_end(read_once(index, at), axis)
            if j < 0 or j >= axis:
                return failure_status(INDEX_OUT_OF_RANGE, at)
            _write(y, base + i * step + j * stride, updates, at, how)
    return OK


@native
@extents(index="count * depth", updates="count * inner * (2 if 'complex' in how else 1)", table="2 * depth", y="given")
def scatter_nd(
    index: Ptr, updates: Ptr, table: Ptr, y: Ptr, count: int, depth: int, inner: int, how: Static, part: int, parts: int
) -> int:
    """y[index[c]] = updates[c, :] for index (count, depth); table as of gather_nd."""
    for row in range(count):
        target = 0
        for k in range(depth):
            j = from_end(read_once(index, row * depth + k), table[k])
            if j < 0 or j >= table[k]:
                return failure_status(INDEX_OUT_OF_RANGE, row * depth + k)
            target += j * table[depth + k]
        for i in range(inner):
            _write(y, target + i, updates, row * inner + i, how)
    return OK


@operator("ScatterElements", "Scatter", types=MOVABLE, moves=True)
def lower_scatter_elements(op: NodeLowering) -> None:
    """Run on one thread: updates are applied in their order."""
    index = op.input(1)
    table, sizes, reached = _along(op, index, op.raw(0))
    touched = {"index": index.size, "updates": index.size, "y": reached}
    _scatter(op, scatter_elements, table, sizes, index_along(0), touched)


@operator("ScatterND", types=MOVABLE, moves=True)
def lower_scatter_nd(op: NodeLowering) -> None:
    """Run on one thread: updates are applied in their order."""
    depth = op.dim(1, -1)
    index, shape = op.input(1), op.raw(0).shape
    op.agree([*index.shape[:-1], *shape[depth:]], op.raw(2).shape, "shapes of indices, input and updates do not fit")
    table = sizes_table(op, shape[:depth], contiguous(shape)[:depth])
    sizes = {"count": product(index.shape[:-1]), "depth": depth, "inner": product(shape[depth:])}
    _scatter(op, scatter_nd, table, sizes, index_nd(0), {"y": product(shape)})


UPDATE = 2.5
"""The nanoseconds in which the place of an update is found."""


def _work_of_updates(updates: Tensor, sizes: Sizes) -> Dim:
    return linear_work(floordiv(updates.size, maximum(sizes.get("inner", 1), 1)), UPDATE) + work_of_copy(
        updates.dtype, updates.size
    )


def _scatter(op: NodeLowering, kernel: Kernel, table: Tensor, sizes: Sizes, message: "Message", touched: Touched) -> None:
    """Copy the input, then write updates into the copy. Writing moves elements of any type, reductions compute in it.

    The greater one of two complex numbers has the greater real part, or the greater imaginary one.
    """
    x, index, updates = op.input(0), op.input(1), op.input(2)
    how, dtype = op.attr("reduction", "none"), x.dtype
    if how != "none":
        if dtype in COMPLEX:
            how = f"complex_{how}"
            touched = {name: extent if name == "index" else _double(extent) for name, extent in touched.items()}
        elif dtype in HALVES:
            x, updates = op.cast(x, "float32"), op.cast(updates, "float32")
        elif dtype == "bool":
            how = "imax" if how in ("add", "max") else "imin"
        elif dtype in INTEGERS and how in ("max", "min"):
            how = f"i{how}"
    y = op.output(0) if x.dtype == dtype else op.temporary(x.dtype, x.shape)
    source, target = bits(x), bits(y)
    op.emit(primitives.copy, [source, target], count=target.size, work=work_of_copy(x.dtype, x.size), inplace=(1, 0))
    if how == "none":
        updates, y = bits(updates), target
    elif dtype in COMPLEX:
        updates, y = pairs(updates), pairs(y)
    work = _work_of_updates(updates, sizes)
    op.emit(kernel, [index, updates, table, y], **sizes, how=how, work=work, slices=SERIAL, message=message, touched=touched)
    if x.dtype != dtype:
        op.set(0, op.cast(y, dtype))


def _double(extent: Extent) -> Extent:
    """Return the extent of pairs."""
    return Reach(extent.low * 2, extent.high * 2, extent.turns) if isinstance(extent, Reach) else extent * 2
