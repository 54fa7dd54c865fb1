"""DeformConv in two dimensions, all places of an output at once: the reference takes seconds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port


@port("DeformConv")
def deform_conv(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    group: int = 1,
    offset_group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
) -> Array:
    """Every tap of the kernel is moved by two offsets, down and to the right, and read between the pixels."""
    if x.ndim != 4:
        raise NotImplementedError("DeformConv of other ranks")
    strides, dilations, pads = strides or (1, 1), dilations or (1, 1), pads or (0,) * 4
    batch, channels, taps = x.shape[0], x.shape[1], w.shape[2] * w.shape[3]
    shifts = offset.reshape(batch, offset_group, taps, 2, *offset.shape[2:])
    form = (batch, offset_group, taps, *offset.shape[2:])
    weights = np.ones(form) if mask is None else mask.reshape(form)
    images = x.reshape(batch, offset_group, channels // offset_group, *x.shape[2:])
    rows = np.arange(offset.shape[2])[:, None] * strides[0] - pads[0]
    columns = np.arange(offset.shape[3])[None, :] * strides[1] - pads[1]
    read = np.zeros((batch, channels, taps, *offset.shape[2:]))
    for tap, (down, right) in enumerate(np.ndindex(*w.shape[2:])):
        for k in range(batch):
            at, beside = (
                rows + down * dilations[0] + shifts[k, :, tap, 0],
                columns + right * dilations[1] + shifts[k, :, tap, 1],
            )
            found = [_between(images[k, g], at[g], beside[g]) * weights[k, g, tap] for g in range(offset_group)]
            read[k, :, tap] = np.concatenate(found)
    parts = read.reshape(batch, group, channels // group, taps, *offset.shape[2:])
    kernels = w.reshape(group, w.shape[0] // group, w.shape[1], taps)
    y = np.einsum("ngcthw,goct->ngohw", parts, kernels).reshape(batch, w.shape[0], *offset.shape[2:])
    return np.asarray(y if b is None else y + b.reshape(-1, 1, 1))


def _between(images: Array, rows: Array, columns: Array) -> Array:
    """Images (C, H, W) read at places (h, w); pixels beyond the border count as 0."""
    height, width = images.shape[1:]
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    total: Any = np.zeros((images.shape[0], *rows.shape))
    for row, vertical in ((top, 1 - (rows - top)), (top + 1, rows - top)):
        for column, horizontal in ((left, 1 - (columns - left)), (left + 1, columns - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            pixels = images[:, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
            total = total + np.where(inside, pixels * (vertical * horizontal), 0)
    return np.asarray(total)
