"""NonMaxSuppression: a native kernel into as much memory as may be needed; the number of boxes is then read between segments."""

import math
from typing import Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, imin, like, native, null, shift, span
from ort_lite.shapes import maximum, minimum
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.selection import sift
from ort_lite_cpu.registry import operator

FLOAT = frozenset({"float32"})
BINS = 256
"""The most bins of a class."""
CROWD = 64
"""The candidates for each bin; fewer would not fill vectors."""
RUN = 64
"""The kept boxes that are compared before looking at the result."""
_MARGIN = 1.000001
"""The factor by which rounding can make the length of a box too short, at most."""


@native
@extents(boxes="4 * batches * n", corners="5 * batches * n")
def find_corners(boxes: Ptr, corners: Ptr, batches: int, n: int, centred: Static, part: int, parts: int) -> int:
    """corners (batches, 5, n) = lower and upper end along axis 0, the same along axis 1, and area of each box.

    boxes (batches, n, 4) hold corners in any order, or centre and size, which are x and y.
    """
    for row in span(batches * n, part, parts):
        box, own = shift(boxes, 4 * row), shift(corners, row // n * 5 * n + row % n)
        for axis in range(2):
            if centred:
                half = box[3 - axis] / like(boxes, 2)
                low, high = box[1 - axis] - half, box[1 - axis] + half
            else:
                low, high = min(box[axis], box[axis + 2]), max(box[axis], box[axis + 2])
            own[2 * axis * n], own[(2 * axis + 1) * n] = low, high
        own[4 * n] = (own[n] - own[0]) * (own[3 * n] - own[2 * n])
    return OK


@native
@extents(
    corners="5 * batches * n",
    scores="batches * classes * n",
    overlap="1",
    least="1",
    order="parts * (n + 2 * BINS + 1)",
    picked="batches * classes * most",
    counts="batches * classes",
    kept="parts * 5 * n",
)
def suppress(
    corners: Ptr,
    scores: Ptr,
    overlap: Ptr,
    least: Ptr,
    order: Ptr,
    picked: Ptr,
    counts: Ptr,
    kept: Ptr,
    batches: int,
    classes: int,
    n: int,
    most: int,
    part: int,
    parts: int,
) -> int:
    """picked (batches * classes, most) = the boxes kept of each class, best first; counts = their numbers.

    corners (batches, 5, n), scores (batches, classes, n). A box is dropped that overlaps a kept one by more than overlap[0], or whose
    score is not above least[0]; of equal scores the first box comes first. Kept boxes lie in bins by their lower end along axis 0:
    only those in which a box begins that may overlap are compared. order and kept: scratch of each part.
    """
    limit = like(corners, 0) if null(overlap) else overlap[0]
    heap, chosen = shift(order, part * (n + 2 * BINS + 1)), shift(kept, part * 5 * n)
    starts, ends = shift(heap, n), shift(heap, n + BINS + 1)
    for job in span(batches * classes, part, parts):
        base, first, found, left = job * n, job * most, 0, 0
        own = shift(corners, job // classes * 5 * n)
        for i in range(n):
            if null(least) or scores[base + i] > least[0]:
                heap[left] = i
                left += 1
        bins, lowest, density, longest = spread(own, heap, left, n)
        begin_bins(own, heap, left, starts, ends, bins, lowest, density)
        for i in range(left // 2):
            sift(scores, heap, left // 2 - 1 - i, left, 0, base, 1, True)
        while left > 0 and found < most:
            best = heap[0]
            left -= 1
            heap[0] = heap[left]
            if left > 0:
                sift(scores, heap, 0, left, 0, base, 1, True)
            low = float(own[best])
            begin, end = bin_of(low - longest, bins, lowest, density), bin_of(float(own[n + best]), bins, lowest, density)
            alone = True
            for bin in range(begin, end + 1):
                if alone and ends[bin] > starts[bin]:
                    alone = not overlaps(own, best, chosen, starts[bin], ends[bin], n, limit)
            if alone:
                at = bin_of(low, bins, lowest, density)
                for k in range(5):
                    chosen[k * n + ends[at]] = own[k * n + best]
                ends[at] += 1
                picked[first + found] = best
                found += 1
        counts[job] = found
    return OK


@native
def spread(corners: Ptr, chosen: Ptr, count: int, n: int) -> tuple[int, float, float, float]:
    """Return the number of bins for boxes chosen[:count], where the first begins, bins for a unit of length, and the longest box.

    All along axis 0. One bin holds everything if the boxes are few, or if a corner is not finite.
    """
    lowest, highest, longest, doubt = math.inf, -math.inf, 0.0, 0.0
    for k in range(count):
        low, high = float(corners[chosen[k]]), float(corners[n + chosen[k]])
        lowest, highest, longest = min(lowest, low), max(highest, low), max(longest, high - low)
        doubt += (low - low) + (high - high)
    bins = min(count // CROWD, BINS)
    if bins < 2 or doubt != 0 or highest <= lowest:
        return 1, 0.0, 0.0, 0.0
    return bins, lowest, bins / (highest - lowest), longest * _MARGIN


@native
def bin_of(place: float, bins: int, lowest: float, density: float) -> int:
    """Return the bin of a place along axis 0. No bin is below that of a lower place."""
    return int(min(max((place - lowest) * density, 0.0), float(bins - 1))) if bins > 1 else 0


@native
def begin_bins(corners: Ptr, chosen: Ptr, count: int, starts: Ptr, ends: Ptr, bins: int, lowest: float, density: float) -> None:
    """starts (bins + 1,) = the places from which on each bin has room for its boxes of chosen[:count]; ends (bins,) = the same."""
    for bin in range(bins + 1):
        starts[bin] = 0
    for k in range(count):
        starts[bin_of(float(corners[chosen[k]]), bins, lowest, density) + 1] += 1
    for bin in range(bins):
        starts[bin + 1] += starts[bin]
        ends[bin] = starts[bin]


@native
def overlaps(corners: Ptr, box: int, kept: Ptr, first: int, last: int, n: int, limit: Any) -> bool:
    """Return True if the intersection of a box with one of kept[first:last] is more than `limit` of their union."""
    low, high, left, right = corners[box], corners[n + box], corners[2 * n + box], corners[3 * n + box]
    area, none = corners[4 * n + box], like(corners, 0)
    if area <= none:
        return False
    for start in range(first, last, RUN):
        hits = 0
        for k in range(start, min(start + RUN, last)):
            tall = min(high, kept[n + k]) - max(low, kept[k])
            wide = min(right, kept[3 * n + k]) - max(left, kept[2 * n + k])
            other, common = kept[4 * n + k], tall * wide
            crossed = (tall > none) & (wide > none) & (other > none) & (common / (area + other - common) > limit)
            hits += 1 if crossed else 0
        if hits:
            return True
    return False


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
    threads = op.options.threads
    corners, kept = op.temporary("float32", (batches, 5, n)), op.temporary("float32", (threads, 5, n))
    order, picked = op.temporary("int64", (threads * (n + 2 * BINS + 1),)), op.temporary("int64", (pairs, most))
    counts, found = op.temporary("int64", (pairs,)), op.temporary("int64", (pairs * most, 3))
    total = op.temporary("int64", (1,))
    centred = bool(op.attr("center_point_box", 0))
    operands = [corners, scores, op.optional(3), op.optional(4), order, picked, counts, kept]
    sizes: dict[str, Any] = {"batches": batches, "classes": classes, "most": most}
    op.emit(find_corners, [boxes, corners], batches=batches, n=n, centred=centred, work=batches * n * 2)
    op.emit(suppress, operands, **sizes, n=n, work=scores.size * 30)
    op.emit(join, [picked, counts, found, total], **sizes, work=1, serial=True)
    shape = op.info().shape
    assert shape is not None
    op.read_dim(shape[0], total)
    y = op.output(0)
    op.emit(primitives.copy, [found, y], count=y.size)
