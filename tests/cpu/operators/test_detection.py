"""NonMaxSuppression."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from tests.cpu.check import check_op, ints, ramp, run_op


def boxes_of(count: int, batches: int = 1, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 4, (batches, count, 2))
    return np.concatenate([corners, corners + random.uniform(0.5, 3, (batches, count, 2))], -1).astype(np.float32)


def scores_of(count: int, batches: int = 1, classes: int = 1, seed: int = 0) -> Array:
    return (
        np.random.default_rng(seed).permutation(batches * classes * count).reshape(batches, classes, count).astype(np.float32)
    )


def number(value: Any) -> Array:
    return np.array([value], np.float32)


@pytest.mark.parametrize("most", [0, 3, 100])
@pytest.mark.parametrize(("batches", "classes"), [(1, 1), (2, 3)])
def test_matches_the_reference(batches: int, classes: int, most: int) -> None:
    boxes, scores = boxes_of(12, batches), scores_of(12, batches, classes)
    check_op("NonMaxSuppression", boxes, scores, ints(most), number(0.3), number(2.0), constants=[2])


def test_an_overlap_of_just_the_threshold_is_kept() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]], np.float32)
    third = number(np.float32(0.5) / np.float32(1.5))
    wanted = np.array([[0, 0, i] for i in scores_of(2)[0, 0].argsort()[::-1]])
    check_op("NonMaxSuppression", boxes, scores_of(2), ints(9), third, expected=wanted)


def test_of_equal_scores_the_first_box_wins() -> None:
    boxes, scores = np.repeat(boxes_of(1), 4, 1), np.ones((1, 1, 4), np.float32)
    check_op("NonMaxSuppression", boxes, scores, ints(4), number(0.5), expected=np.array([[0, 0, 0]]))


@settings(max_examples=15)
@given(st.integers(1, 40), st.floats(0, 1, width=32), st.integers(0, 1000))
def test_kept_boxes_do_not_overlap_and_dropped_ones_do(count: int, limit: float, seed: int) -> None:
    boxes, scores = boxes_of(count, seed=seed), scores_of(count, seed=seed)
    [got] = run_op("NonMaxSuppression", [boxes, scores, ints(count), number(limit)])
    kept = got[:, 2].tolist()
    assert kept == sorted(kept, key=lambda i: -scores[0, 0, i])
    for i in range(count):
        better = [j for j in kept if scores[0, 0, j] > scores[0, 0, i]]
        assert (i not in kept) == any(overlap(boxes[0, i], boxes[0, j]) > np.float32(limit) for j in better)


def overlap(a: Array, b: Array) -> np.float32:
    top, left, bottom, right = max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])
    both = max(bottom - top, np.float32(0)) * max(right - left, np.float32(0))
    return np.float32(both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both))


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ((1, 5, 4), (1, 1, 4), "scores, .* is 4, but S is 5"),
        ((1, 5, 3), (1, 2, 5), "boxes, .* is 3[,;] it should be 4"),
        ((1, 5, 4, 1), (1, 2, 5), "boxes, .*has rank 4"),
        ((1, 5, 4), (2, 5), "scores, .*has rank 2"),
    ],
    ids=str,
)
def test_boxes_of_another_form_are_refused(boxes: tuple[int, ...], scores: tuple[int, ...], message: str) -> None:
    for fixed in (True, False):
        with pytest.raises(OrtLiteError, match=f"NonMaxSuppression 'node' .*{message}"):
            run_op("NonMaxSuppression", [ramp(boxes), ramp(scores), ints(3)], fixed=fixed)


@pytest.mark.parametrize("most", [-1, -(2**63), 2**63 - 1])
def test_any_number_of_boxes_may_be_asked_for(most: int) -> None:
    inputs = [boxes_of(5), scores_of(5), ints(most), np.ones(1, np.float32)]
    [got] = run_op("NonMaxSuppression", inputs)
    assert len(got) == (5 if most > 0 else 0)


@pytest.mark.parametrize("index", [3, 4])
def test_a_threshold_without_a_number_is_refused(index: int) -> None:
    inputs = [boxes_of(5), scores_of(5), ints(3), np.ones(1, np.float32), np.zeros(1, np.float32)]
    inputs[index] = np.zeros(0, np.float32)
    message = r"iou_threshold, .*has 0 elements|score_threshold, .*has 0 elements"
    with pytest.raises(InvalidArgument, match=message):
        run_op("NonMaxSuppression", inputs)


def suppressed(boxes: Array, scores: Array, limit: float, least: float, centred: bool) -> Array:
    """NonMaxSuppression with all boxes compared, in float32."""
    if centred:
        half = boxes[..., 2:] / np.float32(2)
        low, high = (boxes[..., :2] - half)[..., ::-1], (boxes[..., :2] + half)[..., ::-1]
    else:
        low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    area = (high - low).prod(-1)
    found = []
    for batch, each in np.ndindex(scores.shape[:2]):
        kept: list[int] = []
        for box in np.argsort(-scores[batch, each], kind="stable"):
            if not scores[batch, each, box] > least:
                continue
            ends, begins = np.minimum(high[batch, kept], high[batch, box]), np.maximum(low[batch, kept], low[batch, box])
            sides, other = ends - begins, area[batch, kept]
            common = sides.prod(-1)
            crossed = (sides > 0).all(-1) & (other > 0) & (area[batch, box] > 0)
            with np.errstate(all="ignore"):
                if not (crossed & (common / (area[batch, box] + other - common) > np.float32(limit))).any():
                    kept.append(int(box))
        found += [(batch, each, box) for box in kept]
    return np.array(found, np.int64).reshape(-1, 3)


def crowd(kind: str, count: int) -> Array:
    """Boxes (2, count, 4): small ones apart, of all sizes, with corners in any order, empty ones, infinite ones, or all alike."""
    random = np.random.default_rng(7)
    at = random.uniform(-50, 50, (2, count, 2)) + random.integers(0, 5, (2, count, 1)) * 101
    sizes = random.exponential(30 if kind == "large" else 3, (2, count, 2))
    if kind == "empty":
        sizes[:, ::3] = 0
    if kind == "alike":
        at[:], sizes[:] = 1, 2
    boxes = np.concatenate([at, at + sizes], -1).astype(np.float32)
    if kind == "flipped":
        boxes[:, ::2] = boxes[:, ::2, [2, 3, 0, 1]]
    if kind == "infinite":
        boxes[0, 5, 2], boxes[0, 9, 0], boxes[1, 3] = np.inf, -np.inf, [-np.inf, -np.inf, np.inf, np.inf]
    return boxes


@pytest.mark.parametrize("kind", ["small", "large", "flipped", "empty", "infinite", "alike"])
@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_boxes_are_compared_in_bins(kind: str, centred: int, threads: int) -> None:
    boxes, scores = crowd(kind, 1500), scores_of(1500, 2, 2, seed=3) % 997
    with np.errstate(all="ignore"):
        wanted = suppressed(boxes, scores, 0.4, 50, bool(centred))
    inputs = [boxes, scores, ints(1500), number(0.4), number(50)]
    check_op("NonMaxSuppression", *inputs, center_point_box=centred, expected=wanted, threads=threads)
