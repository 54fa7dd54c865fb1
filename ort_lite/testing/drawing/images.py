"""Operators on images: convolutions, pools, resizing, normalisations."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_lite.testing.drawing.sketch import Sketch, numbers, one, runs

IMAGE = (2, 4, 7, 6)
WINDOWS: tuple[dict[str, Any], ...] = (
    {"kernel_shape": [3, 3]},
    {"kernel_shape": [3, 2], "strides": [2, 1]},
    {"kernel_shape": [3, 2], "strides": [1, 3]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "pads": [0, 2, 1, 0]},
    {"kernel_shape": [3, 3], "dilations": [2, 1]},
    {"kernel_shape": [2, 3], "dilations": [1, 2], "pads": [1, 2, 0, 1]},
    {"kernel_shape": [3, 2], "dilations": [2, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [1, 1]},
    {"kernel_shape": [1, 1], "strides": [2, 3]},
    {"kernel_shape": [5, 1], "strides": [1, 2]},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 1]},
    {"kernel_shape": [3, 3], "auto_pad": "VALID"},
)


def conv() -> Iterator[Sketch]:
    """Each way of the window; groups; with bias and without; batches of 1 and 2; weights that are fed."""
    for how in WINDOWS:
        yield one("Conv", IMAGE, (3, 4, *how["kernel_shape"]), fixed=[1], **how)
    yield one("Conv", IMAGE, (3, 4, 3, 2), (3,), fixed=[1, 2], strides=[2, 1], pads=[1, 0, 2, 1])
    yield one("Conv", (1, 4, 7, 6), (3, 4, 3, 3), (3,), fixed=[1, 2])
    yield one("Conv", (3, 4, 5, 5), (3, 4, 3, 3), (3,), fixed=[1, 2], note="without kernel_shape")
    for group, depth, channels in ((2, 2, 6), (4, 1, 4), (4, 1, 8)):
        yield one("Conv", IMAGE, (channels, depth, 3, 2), (channels,), fixed=[1, 2], group=group)
        yield one("Conv", IMAGE, (channels, depth, 3, 3), fixed=[1], group=group, pads=[1, 0, 1, 2], strides=[1, 2])
    yield one("Conv", IMAGE, (3, 4, 3, 3), note="weights fed")
    yield one("Conv", IMAGE, (3, 4, 3, 3), (3,), fixed=[1], note="bias fed")
    yield one("Conv", IMAGE, (3, 4, 3, 3), (3,), fixed=[0, 2], note="image constant")
    yield one("Conv", (2, 4, 7), (3, 4, 3), (3,), fixed=[1, 2], pads=[1, 0], strides=[2])
    yield one("Conv", (1, 2, 4, 5, 3), (3, 2, 2, 3, 2), (3,), fixed=[1, 2], pads=[0, 1, 0, 1, 0, 1], strides=[1, 2, 1])
    yield one("Conv", (0, 4, 7, 6), (3, 4, 3, 3), (3,), fixed=[1, 2], note="of an empty batch")
    yield one("Conv", (1, 1, 3, 3), (1, 1, 3, 3), fixed=[1], note="one place")
    yield runs(one("Conv", IMAGE, (3, 4, 3, 2), (3,), fixed=[1, 2], strides=[2, 1]), *SIZES)


SIZES = ((1, 4, 5, 6), (3, 4, 5, 6), (3, 4, 8, 6), (3, 4, 5, 9), (1, 4, 5, 6))


def conv_transpose() -> Iterator[Sketch]:
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"strides": [2, 1]},
        {"pads": [1, 0, 0, 1]},
        {"dilations": [2, 1]},
        {"strides": [2, 3], "output_padding": [1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"strides": [2, 2], "output_shape": [7, 4]},
    )
    for how in ways:
        yield one("ConvTranspose", (2, 4, 4, 3), (4, 3, 3, 2), (3,), fixed=[1, 2], **how)
    for group, depth in ((2, 3), (4, 1)):
        yield one("ConvTranspose", (2, 4, 4, 3), (4, depth, 3, 2), fixed=[1], group=group)
    yield one("ConvTranspose", (2, 4, 4), (4, 3, 3), fixed=[1], strides=[2])


def pools() -> Iterator[Sketch]:
    """Values below 0 alone: padding with 0 would win in a maximum."""
    below = numbers(IMAGE) - np.float32(10)
    for how in WINDOWS:
        yield one("MaxPool", below, **how)
        if "dilations" not in how:
            yield one("AveragePool", IMAGE, **how)
            yield one("LpPool", IMAGE, **how)
    for name in ("MaxPool", "AveragePool"):
        yield one(name, below, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1)
        yield one(name, below, kernel_shape=[2, 3], strides=[3, 2], pads=[1, 0, 0, 1], ceil_mode=1)
        yield one(name, (2, 3, 8), kernel_shape=[3], strides=[2])
        yield one(name, (1, 2, 4, 5, 3), kernel_shape=[2, 2, 3], strides=[1, 2, 1])
        yield one(name, (0, 4, 7, 6), kernel_shape=[3, 3], note="of an empty batch")
        yield runs(one(name, IMAGE, kernel_shape=[3, 2], strides=[2, 1]), *SIZES)
    yield one("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 0, 2, 1], count_include_pad=1)
    yield one("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 0, 2, 1], count_include_pad=0)
    yield one("AveragePool", IMAGE, kernel_shape=[3, 3], dilations=[2, 1], opset=19)
    yield one("MaxPool", below, kernel_shape=[3, 2], strides=[2, 1], outputs=2, note="with indices")
    yield one("MaxPool", below, kernel_shape=[3, 2], outputs=2, storage_order=1)
    yield one("LpPool", IMAGE, kernel_shape=[3, 2], p=1)


def global_pools() -> Iterator[Sketch]:
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        for shape in (IMAGE, (1, 3, 5, 4), (2, 3, 5), (2, 3, 2, 3, 4), (0, 3, 5, 4), (2, 3, 1, 1)):
            yield one(name, shape)
        yield runs(one(name, IMAGE), *SIZES)


def normalisations() -> Iterator[Sketch]:
    """Of small numbers, which another epsilon changes."""
    small = numbers(IMAGE) / np.float32(100)
    spread = np.abs(numbers((4,), "spread")) / np.float32(1000)
    epsilons: tuple[dict[str, Any], ...] = ({}, {"epsilon": 1e-5}, {"epsilon": 0.1})
    for how in epsilons:
        yield one("BatchNormalization", small, (4,), (4,), (4,), spread, fixed=[1, 2, 3, 4], **how)
        yield one("InstanceNormalization", small, (4,), (4,), fixed=[1, 2], **how)
        yield one("LayerNormalization", small, (6,), (6,), fixed=[1, 2], opset=17, **how)
    for axis in (-2, 1, 3):
        yield one("LayerNormalization", small, IMAGE[axis:], IMAGE[axis:], fixed=[1, 2], axis=axis, opset=17)
    yield one("LayerNormalization", small, (6,), fixed=[1], opset=17, note="without bias")
    yield one("BatchNormalization", (3, 4), (4,), (4,), (4,), spread, fixed=[1, 2, 3, 4])
    for size in (1, 3):
        yield one("LRN", IMAGE, size=size, alpha=0.5, beta=0.5, bias=2.0)
    yield one("GroupNormalization", small, (4,), (4,), fixed=[1, 2], num_groups=2, epsilon=0.01, opset=21)
    for axis in (0, -1):
        yield one("LpNormalization", IMAGE, axis=axis, p=1)
        yield one("LpNormalization", IMAGE, axis=axis, p=2)


def resizes() -> Iterator[Sketch]:
    none, up, down = None, np.array([1, 1, 2, 1.5], np.float32), np.array([1, 1, 0.6, 0.5], np.float32)
    sizes = np.array([1, 2, 7, 3], np.int64)
    for mode in ("nearest", "linear", "cubic"):
        for scales in (up, down):
            for way in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
                yield one(
                    "Resize",
                    (1, 2, 4, 6),
                    none,
                    scales,
                    fixed=[2],
                    mode=mode,
                    coordinate_transformation_mode=way,
                    note=f"by {scales[2:].tolist()}",
                )
        yield one("Resize", (1, 2, 4, 6), none, none, sizes, fixed=[3], mode=mode)
    for nearest in ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor"):
        yield one("Resize", (1, 2, 4, 6), none, up, fixed=[2], mode="nearest", nearest_mode=nearest)
    yield one("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD")
    yield one("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="DCR")
    yield one("SpaceToDepth", (2, 3, 4, 6), blocksize=2)
