"""Operators along axes: reductions, Softmax, and those that only move elements."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_lite.testing.drawing.sketch import Sketch, ints, numbers, one, runs

BOX = (2, 3, 4)
REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)


def along_an_axis() -> Iterator[Sketch]:
    for name in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (-1, 0, 1, -2, 2):
            yield one(name, BOX, axis=axis)
        yield one(name, BOX, note="default axis")
        yield one(name, (0, 4), axis=1)
        yield one(name, BOX, axis=1, opset=11)
        yield runs(one(name, (3, 4), axis=-1), (1, 4), (3, 4), (2, 4), (1, 4))
    for name in ("ArgMax", "ArgMin"):
        for axis, keep in ((0, 1), (-1, 0), (1, 0), (-2, 1)):
            yield one(name, BOX, axis=axis, keepdims=keep)
        yield one(name, np.zeros((2, 3), np.float32), axis=1, select_last_index=1)
    directions: tuple[dict[str, Any], ...] = ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1})
    for how in directions:
        for axis in (0, -1):
            yield one("CumSum", BOX, np.array(axis), fixed=[1], **how, note=f"axis {axis}")


def reductions() -> Iterator[Sketch]:
    for name in REDUCTIONS:
        x = np.abs(numbers(BOX)) + np.float32(0.25)
        opset = 18
        for axes in (ints(0), ints(-1), ints(1, 2), ints(-3, 1)):
            for keep in (1, 0):
                yield one(name, x, axes, fixed=[1], keepdims=keep, opset=opset)
        yield one(name, x, opset=opset, note="all axes")
        yield one(name, x, keepdims=0, opset=opset, note="all axes")
        yield one(name, x, ints(), fixed=[1], opset=opset, noop_with_empty_axes=1)
        yield one(name, x, ints(), fixed=[1], opset=opset, noop_with_empty_axes=0)
        yield one(name, x, axes=[-1], keepdims=0, opset=11)
        yield runs(one(name, (3, 4), ints(1), fixed=[1], opset=opset), (1, 4), (3, 4), (2, 4), (1, 4))


def moves() -> Iterator[Sketch]:
    for perm in ([0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]):
        yield one("Transpose", BOX, perm=perm)
    yield one("Transpose", BOX, note="reversed")
    yield one("Transpose", (0, 3), perm=[1, 0])
    for axis in (0, 1, 2, 3, -1, -2, -3):
        yield one("Flatten", BOX, axis=axis)
    yield one("Flatten", BOX, note="default axis")
    yield one("Flatten", (0, 3, 4))
    for axis, other in ((0, (1, 3, 4)), (1, (2, 2, 4)), (-1, (2, 3, 1)), (-3, (3, 3, 4)), (1, (2, 0, 4))):
        yield one("Concat", BOX, other, axis=axis)
        yield one("Concat", BOX, other, fixed=[1], axis=axis)
    yield one("Concat", BOX, BOX, BOX, axis=-2)
    yield from reshapes()
    yield from slices()
    yield from gathers()
    yield runs(one("Flatten", BOX), (1, 3, 4), (3, 3, 4), (3, 2, 5), (1, 3, 4))
    yield runs(one("Transpose", BOX, perm=[2, 0, 1]), (1, 3, 4), (3, 3, 4), (3, 2, 5), (1, 3, 4))


def reshapes() -> Iterator[Sketch]:
    for shape in (
        ints(6, 4),
        ints(-1, 4),
        ints(2, -1),
        ints(0, -1),
        ints(0, 0, 2, 2),
        ints(-1),
        ints(4, 3, 2),
        ints(1, 0, 2, -1),
    ):
        yield one("Reshape", BOX, shape, fixed=[1])
    yield one("Reshape", BOX, ints(6, -1), note="shape fed")
    yield one("Reshape", (0, 3), ints(3, 0), fixed=[1], allowzero=1)
    yield one("Reshape", (0, 3), ints(0, 1, 3), fixed=[1])
    yield one("Reshape", (1, 1), ints(), fixed=[1], note="to 0-d")
    yield one("Reshape", (), ints(1, 1), fixed=[1])
    yield runs(one("Reshape", BOX, ints(0, -1), fixed=[1]), (1, 3, 4), (3, 3, 4), (3, 2, 5), (1, 3, 4))
    for axes in (ints(0), ints(-1), ints(1, 3)):
        yield one("Unsqueeze", BOX, axes, fixed=[1])
    yield one("Squeeze", (1, 3, 1), note="all")
    yield one("Squeeze", (1, 3, 1), ints(-1), fixed=[1])
    for shape in (ints(2, 3, 4), ints(2, 1, 1, 1), ints(3, 1)):
        yield one("Expand", (3, 1), shape, fixed=[1])
    yield one("Tile", (2, 3), ints(2, 1), fixed=[1])
    yield one("Tile", (2, 3), ints(0, 2), fixed=[1])


def slices() -> Iterator[Sketch]:
    ways: tuple[tuple[Any, ...], ...] = (
        (ints(1), ints(3)),
        (ints(1), ints(3), ints(-1)),
        (ints(0, 1), ints(2, 4), ints(1, 2), ints(1, 2)),
        (ints(-1), ints(-100), ints(2), ints(-1)),
        (ints(0), ints(100), ints(1)),
        (ints(2), ints(2), ints(0)),
        (ints(-2), ints(-1), ints(1)),
    )
    for way in ways:
        yield one("Slice", BOX, *way, fixed=range(1, 1 + len(way)))
    yield one("Slice", BOX, *ways[2], note="limits fed")
    yield one("Split", (4, 6), axis=1, outputs=2, num_outputs=2)
    yield one("Split", (4, 6), ints(1, 3), fixed=[1], axis=0, outputs=2)
    yield one("Split", (4, 6), ints(4, 2), fixed=[1], axis=-1, outputs=2)
    yield one("Split", (4, 7), axis=-1, outputs=2, num_outputs=2)
    pads = ints(0, 1, 2, 1, 0, 3)
    for mode in ("constant", "reflect", "edge"):
        yield one("Pad", (3, 4, 5), pads, fixed=[1], mode=mode)
    yield one("Pad", BOX, ints(0, -1, 1, 0, 0, -2), np.array(2.5, np.float32), fixed=[1, 2], note="cuts")


def gathers() -> Iterator[Sketch]:
    for axis in (0, 1, -1):
        yield one("Gather", BOX, ints(1, 0, -1), fixed=[1], axis=axis)
        yield one("Gather", BOX, np.array([[1, 0], [-2, 1]]), axis=axis)
    yield one("Gather", BOX, np.array(1), axis=1)
    yield one("GatherElements", (3, 3), np.array([[0, 2, 1], [-1, 0, 0]]), axis=0)
    yield one("GatherND", (2, 3), np.array([[0, 1], [1, -1]]))
    yield one("ScatterElements", (3, 3), np.array([[0, 2, 1]]), (1, 3), axis=0)
    yield one("ScatterND", (4, 3), np.array([[1], [3]]), (2, 3))
    for k, largest, axis in ((2, 1, -1), (1, 0, 0), (3, 1, 1)):
        yield one(
            "TopK",
            np.arange(24, dtype=np.float32).reshape(BOX)[::-1].copy(),
            ints(k),
            fixed=[1],
            largest=largest,
            axis=axis,
            outputs=2,
        )
    for upper in (0, 1):
        yield one("Trilu", (2, 4, 4), upper=upper)
        yield one("Trilu", (4, 4), np.array(1), fixed=[1], upper=upper)
    yield one("Einsum", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bik")
    yield one("OneHot", ints(0, 2, -1), np.array(3), np.array([0.5, 2], np.float32), fixed=[1, 2], axis=0)


def older() -> Iterator[Sketch]:
    """Forms that an operator had before: what is an input now was an attribute, broadcasting was asked for."""
    yield one("Add", (2, 3, 4), (3,), opset=6, broadcast=1, axis=1)
    yield one("Mul", (2, 3, 4), (3,), opset=6, broadcast=1, axis=1)
    yield one("Add", (2, 3, 4), (3, 4), opset=6, broadcast=1)
    yield one("Gemm", (3, 5), (5, 4), (4,), opset=6, broadcast=1)
    yield one("Reshape", (2, 3, 4), opset=1, shape=[6, -1])
    yield one("Clip", (3, 4), opset=6, min=-1.0, max=1.0)
    yield one("Squeeze", (1, 3, 1), opset=11, axes=[0])
    yield one("Unsqueeze", (3, 4), opset=11, axes=[0, 3])
    yield one("Slice", BOX, opset=9, starts=[1], ends=[3], axes=[2])
    yield one("Split", (4, 6), opset=11, axis=1, split=[2, 4], outputs=2)
    yield one("Pad", (3, 4), opset=10, pads=[0, 1, 1, 0], value=1.5)
    yield one("Flatten", BOX, axis=2, opset=1)
    yield one(
        "BatchNormalization", (2, 4, 3), (4,), (4,), (4,), np.abs(numbers((4,))), fixed=[1, 2, 3, 4], opset=9, epsilon=0.5
    )
