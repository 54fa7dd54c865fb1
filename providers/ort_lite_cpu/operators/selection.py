"""TopK, OneHot, Trilu."""

from typing import Any

from ort_lite.dtypes import INTEGERS, itemsize
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, cast, imin, like, native, read_once, shift, shl, span
from ort_lite.shapes import less, product
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.heaps import LANES, MOST, beyond, entry_of, heapify, index_of, lowest_bit, settle
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits
from ort_lite_cpu.registry import MOVABLE, REAL, operator


def comes_before(x: Ptr, i: int, j: int, base: int, inner: int, largest: Static) -> bool:
    """Return True if element i is selected before element j; ties go to the first. NaN is larger than any number (decision 0076)."""
    a, b = x[base + i * inner], x[base + j * inner]
    if a > b:
        return bool(largest)
    if a < b:
        return not largest
    if (a != a) == (b != b):
        return i < j
    return bool(a != a) if largest else bool(b != b)


def sift(x: Ptr, heap: Ptr, at: int, n: int, first: int, base: int, inner: int, largest: Static) -> int:
    """Move the entry at `at` of a heap of n entries down to its place."""
    item = heap[first + at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and comes_before(x, heap[first + child + 1], heap[first + child], base, inner, largest):
            child += 1
        if not comes_before(x, heap[first + child], item, base, inner, largest):
            break
        heap[first + at] = heap[first + child]
        at = child
    heap[first + at] = item
    return at


@native
@extents(x="outer * n * inner", values="outer * k * inner", indices="outer * k * inner", heap="outer * n * inner")
def top_k(
    x: Ptr, values: Ptr, indices: Ptr, heap: Ptr, outer: int, n: int, inner: int, k: int, largest: Static, part: int, parts: int
) -> int:
    """values, indices (outer, k, inner) = the k largest (smallest) of x[o, :, i], in order.

    heap: (outer * inner, n) of scratch. k is at most n, see `lower_top_k`.
    """
    for row in span(outer * inner, part, parts):
        base = (row // inner) * n * inner + row % inner
        out = (row // inner) * k * inner + row % inner
        first = row * n
        for i in range(n):
            heap[first + i] = i
        for i in range(n // 2):
            sift(x, heap, n // 2 - 1 - i, n, first, base, inner, largest)
        left = n
        for i in range(k):
            best = heap[first]
            values[out + i * inner] = x[base + best * inner]
            indices[out + i * inner] = best
            left -= 1
            heap[first] = heap[first + left]
            if left > 0:
                sift(x, heap, 0, left, first, base, inner, largest)
    return OK


@native
@extents(x="outer * n * inner", values="outer * k * inner", indices="outer * k * inner", heap="parts * n")
def top_k_packed(
    x: Ptr,
    values: Ptr,
    indices: Ptr,
    heap: Ptr,
    outer: int,
    n: int,
    inner: int,
    k: int,
    kind: Static,
    largest: Static,
    part: int,
    parts: int,
) -> int:
    """values, indices (outer, k, inner) = the k largest (smallest) of x[o, :, i], in order, of numbers of at most 32 bits.

    heap: (parts, n) of scratch, all entries or the k best so far. kind: see `heaps.entry_of`.
    """
    for row in span(outer * inner if k > 0 else 0, part, parts):
        source = shift(x, (row // inner) * n * inner + row % inner)
        out, first = (row // inner) * k * inner + row % inner, part * n
        few = k * FEW <= n and keep_best(source, heap, first, n, inner, k, kind, largest)
        if not few:
            for i in range(n):
                heap[first + i] = entry_of(source[i * inner], i, kind, largest)
            heapify(heap, first, n)
        for i in range(k):
            left = k - 1 - i if few else n - 1 - i
            best = index_of(-heap[first] if few else heap[first])
            settle(heap, first, 0, left, heap[first + left])
            at = out + (left if few else i) * inner
            values[at], indices[at] = source[best * inner], best
    return OK


def keep_best(x: Ptr, heap: Ptr, first: int, n: int, inner: int, k: int, kind: Static, largest: Static) -> bool:
    """Make a heap of the k best entries, negated, so that the worst comes first. Return False if another way is faster.

    That is a heap of all entries, if those of this one change often, as in rising rows. Of float32 in a row, vectors without an
    element that is beyond the worst are skipped.
    """
    for i in range(k):
        heap[first + i] = -entry_of(x[i * inner], i, kind, largest)
    heapify(heap, first, k)
    at, changes, depth = k, 0, 1
    while k >> depth > 0:
        depth += 1
    while at < n and changes * depth <= n:
        start, hits = at, 1
        if kind == "float" and inner == 1:
            start = imin(at, n - LANES)  # the last vector has elements of the one before
            hits = beyond(shift(x, start), x[index_of(-heap[first])], ">?" if largest else "<?") & -shl(1, at - start)
        while hits != 0:
            i = start + lowest_bit(hits)
            entry = -entry_of(x[i * inner], i, kind, largest)
            if entry < heap[first]:
                settle(heap, first, 0, k, entry)
                changes += 1
            hits = hits & (hits - 1)
        at = start + (LANES if kind == "float" and inner == 1 else 1)
    return at >= n


ELEMENT, LEVEL = 10.0, 6.0
"""The nanoseconds in which TopK compares an element with its heap, and in which one of the results passes a level of it."""
PACKED_ELEMENT, PACKED_LEVEL = 1.5, 4.0
"""The same nanoseconds for packed entries."""
OPEN_DEPTH = 8
"""The levels of a heap if k is open."""
FEW = 32
"""The elements for each of the k best from which a heap has only these. It is more than LANES: there is a whole vector."""


@operator("TopK", types=REAL | INTEGERS)
def lower_top_k(op: NodeLowering) -> None:
    """Emit TopK, always sorted, which `sorted=0` allows. O(n + k log n) a row. Spec: ONNX TopK-24."""
    x = op.input(0)
    axis = op.attr("axis", -1) % len(x.shape)
    n, inner, outer = x.shape[axis], product(x.shape[axis + 1 :]), product(x.shape[:axis])
    shape = op.info(0).shape or op.info(1).shape
    assert shape is not None
    if op.version < 10:  # k is an attribute
        op.require(1 - less(n, shape[axis]), "k is {0}, the axis has {1}", shape[axis], n)
    values = op.output(0) if op.wants(0) else op.temporary(x.dtype, shape)
    indices = op.output(1) if op.wants(1) else op.temporary("int64", shape)
    k = shape[axis]
    depth = k.bit_length() if isinstance(k, int) else OPEN_DEPTH
    sizes: dict[str, Any] = {"outer": outer, "n": n, "inner": inner, "k": k, "largest": bool(op.attr("largest", 1))}
    if itemsize(x.dtype) > 4:  # no room for an index in an entry
        work = linear_work(x.size, ELEMENT) + linear_work(outer * inner * k * depth, LEVEL)
        op.emit(top_k, [x, values, indices, op.temporary("int64", x.shape)], **sizes, work=work)
        return
    op.require(1 - less(MOST, n), "the axis has {0} elements, expected at most {1}", n, MOST)
    kind = "float" if x.dtype == "float32" else "unsigned" if x.dtype.startswith("u") else "signed"
    work = linear_work(x.size, PACKED_ELEMENT) + linear_work(outer * inner * k * depth, PACKED_LEVEL)
    heap = op.temporary("int64", (op.most_parts, n))
    op.emit(top_k_packed, [x, values, indices, heap], **sizes, kind=kind, work=work)


@native
@extents(index="outer * inner", values="2", y="outer * n * inner")
def one_hot(index: Ptr, values: Ptr, y: Ptr, outer: int, n: int, inner: int, part: int, parts: int) -> int:
    """y[o, d, i] = values[1] where index[o, i] is d (or d - n), else values[0]."""
    first, last = outer * n * part // parts, outer * n * (part + 1) // parts  # as `span`
    for i in range(first * inner, last * inner):
        y[i] = values[0]
    for o in range(first // max(n, 1), (last + n - 1) // max(n, 1)):
        for i in range(inner):
            k = cast(read_once(index, o * inner + i), "i64")
            k = k + n if k < 0 else k
            row = o * n + k
            if k >= 0 and k < n and row >= first and row < last:
                y[row * inner + i] = values[1]
    return OK


@operator("OneHot", since=9, types=REAL | INTEGERS, moves=True)
def lower_one_hot(op: NodeLowering) -> None:
    """Emit OneHot. Indices of any type are truncated; those out of range give rows of the first value. Spec: ONNX OneHot-11."""
    index, values = op.input(0), op.input(2)
    if values.dtype not in MOVABLE:
        raise op.reject(f"values of type {values.dtype}")
    y = op.output(0)
    axis = op.attr("axis", -1) % len(y.shape)
    outer, inner = product(y.shape[:axis]), product(y.shape[axis + 1 :])
    op.require(less(0, y.shape[axis]), "depth is {0}, expected 1 or more", y.shape[axis])
    op.emit(one_hot, [index, bits(values), bits(y)], outer=outer, n=y.shape[axis], inner=inner)


@native
@extents(x="matrices * rows * columns", y="matrices * rows * columns")
def triangle(x: Ptr, y: Ptr, matrices: int, rows: int, columns: int, k: int, upper: int, part: int, parts: int) -> int:
    """y = the upper or lower triangle of each matrix of x, from diagonal k on; zeros elsewhere."""
    for row in span(matrices * rows, part, parts):
        r = row % rows
        for c in range(columns):
            inside = c - r >= k if upper != 0 else c - r <= k
            y[row * columns + c] = x[row * columns + c] if inside else like(y, 0)
    return OK


@operator("Trilu", since=14, types=MOVABLE, moves=True)
@operator("Trilu", domain="com.microsoft", types=MOVABLE)
def trilu(op: NodeLowering) -> None:
    """Emit Trilu."""
    x, y = op.input(0), op.output(0)
    found = op.contents(1) if op.has(1) else (0,)
    if len(found) != 1:
        raise op.reject(f"k has {len(found)} elements, expected 1")
    [k] = found
    *outer, rows, columns = x.shape
    upper = op.attr("upper", 1)
    op.emit(triangle, [bits(x), bits(y)], matrices=product(outer), rows=rows, columns=columns, k=k, upper=upper)
