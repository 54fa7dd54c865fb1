"""NonMaxSuppression of boxes and scores of every kind, against a float32 oracle in NumPy and against onnxruntime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite_cpu.kernels.boxes import LANES, SHARE, STRIPS
from tests.cpu.check import check_op, ints, run_op
from tests.cpu.ort import ort_op

NAN, INF = np.float32(np.nan), np.float32(np.inf)
SCORES = np.array([-INF, -2, -1e-39, -0.0, 0.0, 1e-39, 0.5, 1, 7, INF], np.float32)


def number(value: float) -> Array:
    return np.array([value], np.float32)


def corners_of(boxes: Array, centred: int) -> list[Array]:
    """The lower and upper bounds along both axes, and the area."""
    if centred:
        half = boxes[:, 2:] / np.float32(2)
        low, high = boxes[:, :2] - half, boxes[:, :2] + half
    else:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return [*low.T, *high.T, (high - low).prod(1)]


def overlapping(corners: list[Array], i: int, limit: np.float32) -> Array:
    """Return for each box whether its intersection with box i is more than `limit` of their union."""
    a, b, c, d, area = corners
    tall, wide = np.minimum(c, c[i]) - np.maximum(a, a[i]), np.minimum(d, d[i]) - np.maximum(b, b[i])
    both = tall * wide
    meets = (tall > 0) & (wide > 0) & (both > 0) & (area > 0) & (area[i] > 0)
    return np.asarray(meets & (both / (area + area[i] - both) > limit))


def suppress(
    boxes: Array, scores: Array, most: Array, limit: Array | None, least: Array | None = None, *, centred: int = 0
) -> Array:
    """Take the best box that is left, a NaN before all numbers, and drop those that overlap it."""
    result = []
    with np.errstate(all="ignore"):
        for batch, kind in np.ndindex(scores.shape[:2]):
            corners, score = corners_of(boxes[batch], centred), scores[batch, kind]
            left = np.ones(score.size, np.bool_) if least is None else score > least[0]
            kept = 0
            for i in np.lexsort((np.arange(score.size), -score, ~np.isnan(score))):
                if left[i] and kept < most[0]:
                    kept += 1
                    result.append((batch, kind, i))
                    left &= ~overlapping(corners, int(i), np.float32(0) if limit is None else limit[0])
    return np.array(result, np.int64).reshape(-1, 3)


def theirs(inputs: list[Any], centred: int = 0) -> Array:
    result: Array = ort_op("NonMaxSuppression", inputs, {"center_point_box": centred}, opset=11, outputs=("int64",))[0]
    return result


def corners(random: Any, count: int, *batches: int) -> Array:
    low = random.uniform(0, 4, (*batches, count, 2))
    return np.concatenate([low, low + random.uniform(0.5, 3, low.shape)], -1).astype(np.float32)


def flipped(random: Any, count: int, *batches: int) -> Array:
    boxes = corners(random, count, *batches)
    return np.where(random.random((*batches, count, 1)) < 0.5, boxes[..., [2, 1, 0, 3]], boxes[..., [2, 3, 0, 1]])


def on_a_grid(random: Any, count: int, *batches: int) -> Array:
    """Boxes with many equal edges, overlaps of just a half or a third, and areas of 0."""
    low = random.integers(0, 4, (*batches, count, 2))
    return np.concatenate([low, low + random.integers(0, 4, low.shape)], -1).astype(np.float32)


def unusual(random: Any, count: int, *batches: int) -> Array:
    boxes, others = corners(random, count, *batches), np.array([NAN, INF, -INF, 0, 3e38, 1e-39])
    return np.where(random.random(boxes.shape) < 0.08, random.choice(others, boxes.shape), boxes)


BOXES: list[Callable[..., Array]] = [corners, flipped, on_a_grid, unusual]


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("limit", [0.0, 0.5, 1.0, None])
@pytest.mark.parametrize("kind", BOXES, ids=lambda kind: kind.__name__)
def test_boxes_of_every_kind(kind: Callable[..., Array], limit: float | None, centred: int) -> None:
    random = np.random.default_rng(2)
    boxes = kind(random, 70, 2).astype(np.float32)
    scores = random.integers(0, 12, (2, 3, 70)).astype(np.float32)  # with ties
    inputs: list[Any] = [boxes, scores, ints(40), None if limit is None else number(limit), number(1)]
    wanted = suppress(*inputs, centred=centred)
    np.testing.assert_array_equal(theirs(inputs, centred), wanted)
    check_op("NonMaxSuppression", *inputs, expected=wanted, constants=[2], center_point_box=centred)


@pytest.mark.parametrize("least", [None, -np.inf, -1.0, 0.0, 0.5, np.inf, np.nan])
def test_scores_of_every_kind(least: float | None) -> None:
    random = np.random.default_rng(3)
    scores = random.choice(SCORES, (1, 2, 5 * LANES + 3))
    inputs: list[Any] = [
        corners(random, scores.shape[2], 1),
        scores,
        ints(99),
        number(0.3),
        None if least is None else number(least),
    ]
    np.testing.assert_array_equal(theirs(inputs), suppress(*inputs))
    check_op("NonMaxSuppression", *inputs, expected=suppress(*inputs))
    scores[random.random(scores.shape) < 0.2] = NAN
    check_op("NonMaxSuppression", *inputs, expected=suppress(*inputs))


def spread(random: Any, count: int, places: int) -> Array:
    """Boxes as of a detector that moves those of each class to a place of their own."""
    places = random.integers(0, places, (1, count, 1)).astype(np.float32)
    return corners(random, count, 1) + places * np.float32(8)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("places", [1, 7, 90])
def test_many_boxes(places: int, centred: int) -> None:
    random = np.random.default_rng(places)
    boxes, scores = spread(random, 20 * SHARE, places), random.integers(0, 900, (1, 2, 20 * SHARE)).astype(np.float32)
    if centred:
        boxes[..., :2], boxes[..., 2:] = (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
    inputs: list[Any] = [boxes, scores, ints(2**62), number(0.4)]
    wanted = suppress(*inputs, centred=centred)
    np.testing.assert_array_equal(theirs(inputs, centred), wanted)
    for threads in (1, 3):
        [got] = run_op("NonMaxSuppression", inputs, {"center_point_box": centred}, threads=threads)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e9])
@pytest.mark.parametrize("shape", ["spread", "points", "one place", "upside down"])
def test_many_boxes_with_an_outlier(shape: str, value: float) -> None:
    random = np.random.default_rng(5)
    boxes, scores = spread(random, 4 * SHARE, 50), random.permutation(4 * SHARE).astype(np.float32)[None, None]
    if shape == "points":
        boxes[..., 2:] = boxes[..., :2]
    elif shape == "one place":
        boxes[:] = boxes[:, :1]
    boxes[0, 77, 2] = value
    boxes[0, 99] = [value, 0, 5, 5]
    inputs: list[Any] = [boxes, scores, ints(2**62), number(0.4)]
    centred = int(shape == "upside down")
    if centred:
        boxes[..., 2:] *= -1
    wanted = suppress(*inputs, centred=centred)
    np.testing.assert_array_equal(theirs(inputs, centred), wanted)
    np.testing.assert_array_equal(run_op("NonMaxSuppression", inputs, {"center_point_box": centred})[0], wanted)


def test_more_boxes_than_strips_have_room_for() -> None:
    count = (STRIPS + 2) * SHARE
    places = np.arange(count, dtype=np.float32)[::-1, None] * np.float32(2)
    boxes = np.concatenate([places, places, places + 1, places + 1], 1)[None]
    [got] = run_op("NonMaxSuppression", [boxes, np.ones((1, 1, count), np.float32), ints(count), number(0.5)])
    np.testing.assert_array_equal(got[:, 2], np.arange(count))


@pytest.mark.parametrize(("batches", "classes", "count"), [(0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0)])
def test_without_boxes_none_is_kept(batches: int, classes: int, count: int) -> None:
    inputs: list[Any] = [np.ones((batches, count, 4), np.float32), np.ones((batches, classes, count), np.float32)]
    check_op("NonMaxSuppression", *inputs, ints(5), number(0.5), expected=np.zeros((0, 3), np.int64), constants=[2])
    check_op("NonMaxSuppression", *inputs, expected=np.zeros((0, 3), np.int64))
