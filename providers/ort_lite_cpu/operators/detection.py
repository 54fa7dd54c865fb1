"""NonMaxSuppression: a native kernel into as much memory as may be needed; the number of boxes is then read between segments."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, STRICT, Ptr, StaticInt, like, native, null, shift, span
from ort_lite.shapes import ceildiv, less, maximum, minimum
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels import heaps
from ort_lite_cpu.kernels.boxes import BLOCK, LANES, SHARE, STRIP_ROWS, STRIPS, divide, keep
from ort_lite_cpu.kernels.heaps import beyond, entry_of, heapify, index_of, lowest_bit, settle
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import operator

FLOAT = frozenset({"float32"})
ENTRY, POP, PAIR = 2.0, 60.0, 0.1
"""The nanoseconds in which a score enters the heap, in which one leaves it, and in which two boxes are compared."""
COMPARED = 2048
"""The most kept boxes that a box is compared with, as strips usually leave them."""


class BoxSizes(NamedTuple):
    """The sizes of boxes (batches, n, 4), scores (batches, classes, n), and of the results, at most `most` a class."""

    batches: int
    classes: int
    n: int
    most: int
    centred: StaticInt


@native(fastmath=STRICT)
@extents(
    boxes="4 * g.batches * g.n",
    scores="g.batches * g.classes * g.n",
    overlap="1",
    least="1",
    heap="parts * g.n",
    strips="parts * STRIP_ROWS * STRIPS",
    kept="parts * BLOCK * (ceildiv(g.n, LANES) + ceildiv(g.n, SHARE))",
    picked="g.batches * g.classes * (1 + g.most)",
)
def suppress(
    boxes: Ptr,
    scores: Ptr,
    overlap: Ptr,
    least: Ptr,
    heap: Ptr,
    strips: Ptr,
    kept: Ptr,
    picked: Ptr,
    g: BoxSizes,
    part: int,
    parts: int,
) -> int:
    """picked (batches * classes, 1 + most) = the number of boxes kept of each class, and these, best first.

    A box is dropped that overlaps a kept one by more than overlap[0] (0 by default), or whose score is not above least[0]; of equal
    scores the first box comes first. heap: (parts, n) of scratch; strips and kept: what `boxes.keep` needs, for each part.
    """
    first, table = part * g.n, shift(strips, part * STRIP_ROWS * STRIPS)
    corners = shift(kept, part * BLOCK * ((g.n + LANES - 1) // LANES + (g.n + SHARE - 1) // SHARE))
    limit = like(boxes, 0) if null(overlap) else overlap[0]
    for job in span(g.batches * g.classes, part, parts):
        mine = shift(boxes, job // g.classes * g.n * 4)
        left, count = enter(shift(scores, job * g.n), least, heap, first, g.n), 0
        start, scale, reach, number = divide(mine, heap, first, left, g.most, table, g.centred)
        heapify(heap, first, left)
        while left > 0 and count < g.most:
            best = index_of(heap[first])
            left -= 1
            if left > 0:
                settle(heap, first, 0, left, heap[first + left])
            if keep(mine, best, corners, table, start, scale, reach, number, limit, g.centred):
                count += 1
                picked[job * (1 + g.most) + count] = best
        picked[job * (1 + g.most)] = count
    return OK


def enter(scores: Ptr, least: Ptr, heap: Ptr, first: int, n: int) -> int:
    """Write the entries of the scores above least[0] to the heap, in no order. Return how many."""
    left, at = 0, 0
    if not null(least):
        while at + heaps.LANES <= n:
            hits = beyond(shift(scores, at), least[0], ">")
            while hits != 0:
                i = at + lowest_bit(hits)
                heap[first + left] = entry_of(scores[i], i, "float", True)
                hits, left = hits & (hits - 1), left + 1
            at += heaps.LANES
    for i in range(at, n):
        if null(least) or scores[i] > least[0]:
            heap[first + left] = entry_of(scores[i], i, "float", True)
            left += 1
    return left


@native
@extents(picked="jobs * (1 + most)", total="1")
def add_up(picked: Ptr, total: Ptr, jobs: int, most: int, part: int, parts: int) -> int:
    """total[0] = the number of all boxes that were picked."""
    total[0] = 0
    for job in range(jobs):
        total[0] += picked[job * (1 + most)]
    return OK


@native
@extents(picked="jobs * (1 + most)", y="3 * size")
def join(picked: Ptr, y: Ptr, jobs: int, classes: int, most: int, size: int, part: int, parts: int) -> int:
    """y (size, 3) = batch, class and box of all boxes that were picked."""
    at = 0
    for job in range(jobs):
        first = job * (1 + most)
        for k in range(picked[first]):
            y[at * 3], y[at * 3 + 1], y[at * 3 + 2] = job // classes, job % classes, picked[first + 1 + k]
            at += 1
    return OK


@operator("NonMaxSuppression", since=10, types=FLOAT)
def non_max_suppression(op: NodeLowering) -> None:
    """Emit NonMaxSuppression with at most max_output_boxes_per_class boxes (default 0) per class. Spec: ONNX NonMaxSuppression-11."""
    boxes, scores = op.input(0), op.input(1)
    batches, classes, n = scores.shape
    most: Dim = minimum(maximum(op.scalar(2), 0), n) if op.has(2) else 0
    op.require(1 - less(heaps.MOST, n), "{0} boxes, expected at most {1}", n, heaps.MOST)
    pairs, parts = batches * classes, op.most_parts
    heap, strips = op.temporary("int64", (parts, n)), op.temporary("int64", (parts, STRIP_ROWS, STRIPS))
    kept = op.temporary("float32", (parts, ceildiv(n, LANES) + ceildiv(n, SHARE), BLOCK))
    picked, total = op.temporary("int64", (pairs, 1 + most)), op.temporary("int64", (1,))
    sizes: Any = (batches, classes, n, most, int(op.attr("center_point_box", 0)))
    operands = [boxes, scores, op.optional(3), op.optional(4), heap, strips, kept, picked]
    op.emit(suppress, operands, g=BoxSizes(*sizes), work=_work(pairs, n, most))
    op.emit(add_up, [picked, total], jobs=pairs, most=most, work=1, slices=SERIAL)
    shape = op.info().shape
    assert shape is not None
    op.read_dim(shape[0], total)
    y = op.output(0)
    op.emit(join, [picked, y], jobs=pairs, classes=classes, most=most, size=y.shape[0], slices=SERIAL)


def _work(pairs: Dim, n: Dim, most: Dim) -> Dim:
    """Return the work of `pairs` classes of n boxes, of which `most` are kept and compared with those before them."""
    return (
        linear_work(pairs * n, ENTRY)
        + linear_work(pairs * most, POP)
        + linear_work(pairs * most * minimum(most, COMPARED), PAIR / 2)
    )
