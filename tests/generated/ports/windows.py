"""Places of the windows of pools and convolutions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array


class Axis(NamedTuple):
    """A spatial axis: the positions of each window of it, those outside of the image too, and where padding ends."""

    positions: Array
    """Windows x elements of the kernel."""
    low: int
    high: int


def axes(
    sizes: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> list[Axis]:
    """Place the windows along each spatial axis; all but `sizes` are attributes."""
    count = len(sizes)
    strides, dilations = strides or (1,) * count, dilations or (1,) * count
    pads = pads or (0,) * (2 * count)
    found = []
    for k, size in enumerate(sizes):
        reach = dilations[k] * (kernel_shape[k] - 1) + 1
        low, high, windows = _padding(size, reach, strides[k], pads[k], pads[k + count], auto_pad, ceil_mode, dilations[k] > 1)
        starts = np.arange(windows) * strides[k] - low
        found.append(Axis(starts[:, None] + np.arange(kernel_shape[k]) * dilations[k], low, high))
    return found


def _padding(
    size: int, reach: int, stride: int, low: int, high: int, auto_pad: str, ceil_mode: int, dilated: bool
) -> tuple[int, int, int]:
    """The padding in front and behind, and the number of windows."""
    if auto_pad.startswith("SAME"):
        if dilated:
            raise NotImplementedError("ONNX does not say what automatic padding of dilated windows is")
        windows = -(-size // stride)
        total = max((windows - 1) * stride + reach - size, 0)
        low = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        return low, total - low, windows
    if auto_pad == "VALID":
        low = high = 0
    free = size + low + high - reach
    windows = (-(-free // stride) if ceil_mode else free // stride) + 1
    if ceil_mode and (windows - 1) * stride >= size + low:
        windows -= 1  # it would begin in the padding behind the image
    return low, high, max(windows, 0)
