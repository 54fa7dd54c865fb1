"""NonMaxSuppression: a native kernel into as much memory as may be needed; the number of boxes is then read between segments."""

from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, imin, like, native, null, span
from ort_lite.shapes import maximum, minimum
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.selection import sift
from ort_lite_cpu.registry import operator

FLOAT = frozenset({"float32"})


@native
@extents(
    boxes="4 * batches * n",
    scores="batches * classes * n",
    overlap="1",
    least="1",
    heap="batches * classes * n",
    picked="batches * classes * most",
    counts="batches * classes",
)
def suppress(
    boxes: Ptr,
    scores: Ptr,
    overlap: Ptr,
    least: Ptr,
    heap: Ptr,
    picked: Ptr,
    counts: Ptr,
    batches: int,
    classes: int,
    n: int,
    most: int,
    centred: Static,
    part: int,
    parts: int,
) -> int:
    """picked (batches * classes, most) = the boxes kept of each class, best first; counts = their numbers.

    boxes (batches, n, 4), scores (batches, classes, n). A box is dropped that overlaps a kept one by more than overlap[0], or whose
    score is not above least[0]; of equal scores the first box comes first. heap: (batches * classes, n) of scratch.
    """
    for job in span(batches * classes, part, parts):
        base, first, kept = job * n, job * most, 0
        left = 0
        for i in range(n):
            if null(least) or scores[base + i] > least[0]:
                heap[base + left] = i
                left += 1
        for i in range(left // 2):
            sift(scores, heap, left // 2 - 1 - i, left, base, base, 1, True)
        while left > 0 and kept < most:
            best = heap[base]
            left -= 1
            heap[base] = heap[base + left]
            if left > 0:
                sift(scores, heap, 0, left, base, base, 1, True)
            mine = (job // classes * n + best) * 4
            alone = True
            for k in range(kept):
                other = (job // classes * n + picked[first + k]) * 4
                if overlaps(boxes, mine, other, overlap, centred):
                    alone = False
                    break
            if alone:
                picked[first + kept] = best
                kept += 1
        counts[job] = kept
    return OK


def overlaps(boxes: Ptr, a: int, b: int, overlap: Ptr, centred: Static) -> bool:
    """Return True if the intersection of two boxes is more than overlap[0] (0 by default) of their union."""
    limit = like(boxes, 0) if null(overlap) else overlap[0]
    tall = common(boxes, a, b, 0, centred)
    wide = common(boxes, a, b, 1, centred)
    if tall <= like(boxes, 0) or wide <= like(boxes, 0):
        return False
    first = extent(boxes, a, 0, centred) * extent(boxes, a, 1, centred)
    second = extent(boxes, b, 0, centred) * extent(boxes, b, 1, centred)
    if first <= like(boxes, 0) or second <= like(boxes, 0):
        return False
    return bool(tall * wide / (first + second - tall * wide) > limit)


def low(boxes: Ptr, at: int, axis: int, centred: Static) -> Any:
    """Return the smaller coordinate of the box along an axis: corners come in any order, or as centre and size, which are x and y."""
    if centred:
        return boxes[at + 1 - axis] - boxes[at + 3 - axis] / like(boxes, 2)
    return min(boxes[at + axis], boxes[at + axis + 2])


def high(boxes: Ptr, at: int, axis: int, centred: Static) -> Any:
    """Return the upper bound of a box along an axis."""
    if centred:
        return boxes[at + 1 - axis] + boxes[at + 3 - axis] / like(boxes, 2)
    return max(boxes[at + axis], boxes[at + axis + 2])


def extent(boxes: Ptr, at: int, axis: int, centred: Static) -> Any:
    """Return the length of a box along an axis."""
    return high(boxes, at, axis, centred) - low(boxes, at, axis, centred)


def common(boxes: Ptr, a: int, b: int, axis: int, centred: Static) -> Any:
    """Return the length of two boxes' overlap along an axis; negative if they are disjoint."""
    return min(high(boxes, a, axis, centred), high(boxes, b, axis, centred)) - max(
        low(boxes, a, axis, centred), low(boxes, b, axis, centred)
    )


@native
@extents(picked="batches * classes * most", counts="batches * classes", y="3 * batches * classes * most", total="1")
def join(picked: Ptr, counts: Ptr, y: Ptr, total: Ptr, batches: int, classes: int, most: int, part: int, parts: int) -> int:
    """y (total[0], 3) = batch, class and box of all boxes that were picked."""
    at = 0
    for job in range(batches * classes):
        for k in range(imin(counts[job], most)):
            y[at * 3] = job // classes
            y[at * 3 + 1] = job % classes
            y[at * 3 + 2] = picked[job * most + k]
            at += 1
    total[0] = at
    return OK


@operator("NonMaxSuppression", since=10, types=FLOAT)
def non_max_suppression(op: NodeLowering) -> None:
    """Emit NonMaxSuppression with at most max_output_boxes_per_class boxes (default 0) per class. Spec: ONNX NonMaxSuppression-11."""
    boxes, scores = op.input(0), op.input(1)
    batches, classes, n = scores.shape
    most: Dim = minimum(maximum(op.scalar(2), 0), n) if op.has(2) else 0
    pairs = batches * classes
    heap, picked = op.temporary("int64", (pairs, n)), op.temporary("int64", (pairs, most))
    counts, found = op.temporary("int64", (pairs,)), op.temporary("int64", (pairs * most, 3))
    total = op.temporary("int64", (1,))
    centred = bool(op.attr("center_point_box", 0))
    operands = [boxes, scores, op.optional(3), op.optional(4), heap, picked, counts]
    sizes: dict[str, Any] = {"batches": batches, "classes": classes, "most": most}
    op.emit(suppress, operands, **sizes, n=n, centred=centred, work=scores.size * 30)
    op.emit(join, [picked, counts, found, total], **sizes, work=1, serial=True)
    shape = op.info().shape
    assert shape is not None
    op.read_dim(shape[0], total)
    y = op.output(0)
    op.emit(primitives.copy, [found, y], count=y.size)
