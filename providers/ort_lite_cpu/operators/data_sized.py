"""NonZero, Compress, Unique: as many results as the data says.

A kernel finds positions into as much memory as may be needed; how many there are is then read between two segments.
"""

from ort_lite.dtypes import COMPLEX, INTEGERS
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, native, span
from ort_lite.shapes import less, same
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import pairs
from ort_lite_cpu.operators.gather import emit_gather, shape_around, sizes_table
from ort_lite_cpu.registry import MOVABLE, NATIVE, REAL, operator
from ort_lite_cpu.types import HALVES, PARTS

POSITION, DISTINCT = 1.2, 100.0
"""The nanoseconds in which an element is looked at, and in which a row is sorted among some thousands of others."""


@native
@extents(x="2 * n if kind == 'pair' else n", found="n", total="1")
def positions(x: Ptr, found: Ptr, total: Ptr, n: int, kind: Static, part: int, parts: int) -> int:
    """found (n,) = the positions at which x is not 0, in order; total[0] = their number. One part.

    kind: "number", "half" for 16-bit floats as bits, "pair" for two numbers of which one is enough.
    """
    k = 0
    for i in range(n):
        found[k] = i
        if kind == "half":
            k += 1 if (x[i] & 0x7FFF) != 0 else 0
        elif kind == "pair":
            k += 1 if x[2 * i] != 0 or x[2 * i + 1] != 0 else 0
        else:
            k += 1 if x[i] != 0 else 0
    total[0] = k
    return OK


@native
@extents(found="count", table="rank", y="rank * count")
def unravel(found: Ptr, table: Ptr, y: Ptr, rank: int, count: int, part: int, parts: int) -> int:
    """y (rank, count) = the flat positions along each axis of a tensor whose dims are in the table.

    Positions ascend, so most lie in the row of the one before, and only those of a new row are divided. No dimension is 0 where there
    is a position at all: `positions` found it among as many elements.
    """
    last, start, end = (rank - 1) * count, 0, 0
    for k in span(count, part, parts):
        at = found[k]
        if at >= end:
            width = table[rank - 1]
            rest = at // width
            start, end = rest * width, (rest + 1) * width
            for axis in range(rank - 2, -1, -1):
                y[axis * count + k] = rest % table[axis]
                rest = rest // table[axis]
        else:
            for axis in range(rank - 1):
                y[axis * count + k] = y[axis * count + k - 1]
        y[last + k] = at - start
    return OK


@operator("NonZero", since=9, types=NATIVE | COMPLEX)
def non_zero(op: NodeLowering) -> None:
    """Find the positions of nonzero elements, one column each, in order; a scalar counts as a vector. Spec: ONNX NonZero-13."""
    x, dims = op.input(0), op.info().shape
    assert dims is not None
    kind = "half" if x.dtype in HALVES else "pair" if x.dtype in COMPLEX else "number"
    found, total = op.temporary("int64", (x.size,)), op.temporary("int64", (1,))
    read = pairs(x) if kind == "pair" else x
    op.emit(positions, [read, found, total], n=x.size, kind=kind, work=linear_work(x.size, POSITION), slices=SERIAL)
    op.read_dim(dims[1], total)
    y = op.output(0)
    rank, count = dims
    op.emit(unravel, [found, sizes_table(op, x.shape or (1,)), y], rank=rank, count=count, work=y.size * 3)


@operator("Compress", since=9, types=MOVABLE | {"complex128"}, moves=True)
def compress(op: NodeLowering) -> None:
    """Select the slices along the axis, or the elements, for which the condition is true. Spec: ONNX Compress-11."""
    x, condition, shape = op.input(0), op.input(1), op.info().shape
    assert shape is not None
    axis = op.attr("axis")
    if axis is not None and not x.shape:
        raise op.reject(f"axis {axis} of an input without axes")
    at = 0 if axis is None else axis % len(x.shape)
    outer, n, inner = (1, x.size, 1) if axis is None else shape_around(x, at)
    op.require(1 - less(n, condition.size), "a condition for {0} of {1} entries", condition.size, n)
    found, total = op.temporary("int64", condition.shape), op.temporary("int64", (1,))
    work = linear_work(condition.size, POSITION)
    op.emit(positions, [condition, found, total], n=condition.size, kind="number", work=work, slices=SERIAL)
    op.read_dim(shape[at], total)
    emit_gather(op, x, found, (outer, n, shape[at], inner))


def compare_rows(x: Ptr, i: int, j: int, inner: int) -> int:
    """Return -1, 0 or 1 for row i of x (_, inner) less than, equal to or greater than row j. NaN equals NaN, and is the greatest."""
    for k in range(inner):
        a, b = x[i * inner + k], x[j * inner + k]
        if a != b and (a == a or b == b):
            return -1 if a < b or b != b else 1
    return 0


def merge_sort(x: Ptr, order: Ptr, scratch: Ptr, n: int, inner: int) -> int:
    """order (n,) = the numbers of the rows of x (n, inner), least first; equal rows keep their order."""
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or compare_rows(x, order[i], order[j], inner) <= 0):
                    scratch[k] = order[i]
                    i += 1
                else:
                    scratch[k] = order[j]
                    j += 1
        for k in range(n):
            order[k] = scratch[k]
        width *= 2
    return 0


@native
@extents(x="n * inner", order="n", number="n", first="n", inverse="n", counts="n", total="1")
def distinct(
    x: Ptr,
    order: Ptr,
    number: Ptr,
    first: Ptr,
    inverse: Ptr,
    counts: Ptr,
    total: Ptr,
    n: int,
    inner: int,
    in_order: int,
    part: int,
    parts: int,
) -> int:
    """Find the distinct rows of x (n, inner): `first` occurrence and `counts`, (n,) of which total[0] are in use; inverse (n,).

    in_order: as they first occur, else the least first. order, number: (n,) of scratch. One part.
    """
    merge_sort(x, order, number, n, inner)
    group = -1
    for i in range(n):
        if i == 0 or compare_rows(x, order[i - 1], order[i], inner) != 0:
            group += 1
            first[group] = order[i]
            counts[group] = 0
        counts[group] += 1
        inverse[order[i]] = group
    total[0] = group + 1
    if in_order != 0:
        for g in range(group + 1):
            order[g] = counts[g]
            number[g] = -1
        made = 0
        for i in range(n):
            g = inverse[i]
            if number[g] < 0:
                number[g] = made
                first[made] = i
                counts[made] = order[g]
                made += 1
            inverse[i] = number[g]
    return OK


@operator("Unique", since=11, types=REAL | INTEGERS | COMPLEX | {"bool"})
@operator("Unique", domain="com.microsoft", types=REAL | INTEGERS | COMPLEX | {"bool"})
def unique(op: NodeLowering) -> None:
    """Emit Unique by merge sort, in O(n log n) comparisons of elements or slices; NaN occurs once. Spec: ONNX Unique-11.

    com.microsoft's keeps the order, and does not tell first occurrences.
    """
    x, shape = op.input(0), op.info().shape
    assert shape is not None
    axis = op.attr("axis")
    at = 0 if axis is None else axis % len(x.shape)
    outer, n, inner = (1, x.size, 1) if axis is None else shape_around(x, at)
    plain, share = (pairs(x), 2) if x.dtype in PARTS else (x, 1)
    rows = plain
    if not same(outer, 1):
        rows = op.temporary(plain.dtype, (n, outer, inner * share))
        emit_permute(op, plain, rows, (outer, n, inner * share), (1, 0, 2))
    first, inverse, counts = (op.temporary("int64", (n,)) for _ in range(3))
    order, number, total = op.temporary("int64", (n,)), op.temporary("int64", (n,)), op.temporary("int64", (1,))
    operands = [rows, order, number, first, inverse, counts, total]
    older = op.node.domain != ""
    in_order = int(older or not op.attr("sorted", 1))
    work = linear_work(n, DISTINCT)
    op.emit(distinct, operands, n=n, inner=outer * inner * share, in_order=in_order, work=work, slices=SERIAL)
    op.read_dim(shape[at], total)
    emit_gather(op, x, first, (outer, n, shape[at], inner))
    for k, source in enumerate([inverse, counts] if older else [first, inverse, counts], 1):
        if op.wants(k):
            y = op.output(k)
            op.emit(primitives.copy, [source, y], count=y.size)
