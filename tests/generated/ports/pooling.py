"""Pools, window after window."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port
from tests.generated.ports.windows import Axis, axes


def _last(*place: Any) -> Any:
    """An index of the last axes."""
    return (..., *place)


def _windows(x: Array, placed: Sequence[Axis]) -> Iterator[tuple[tuple[int, ...], list[Array]]]:
    """The place of each window, and its positions inside of the image along each axis."""
    for place in np.ndindex(*(len(axis.positions) for axis in placed)):
        rows = [axis.positions[k] for axis, k in zip(placed, place, strict=True)]
        yield place, [row[(row >= 0) & (row < size)] for row, size in zip(rows, x.shape[2:], strict=True)]


def _part(x: Array, rows: Sequence[Array]) -> Array:
    """Images x channels x the elements of a window."""
    found: Array = x[np.ix_(*(np.arange(n) for n in x.shape[:2]), *rows)]
    return found.reshape(*x.shape[:2], -1)


@port("MaxPool")
def max_pool(x: Array, storage_order: int = 0, **window: Any) -> tuple[Array, Array]:
    placed = axes(x.shape[2:], **window)
    y = np.zeros((*x.shape[:2], *(len(axis.positions) for axis in placed)), x.dtype)
    numbers = np.arange(x.size).reshape(x.shape)
    if storage_order:
        spatial = np.arange(int(np.prod(x.shape[2:]))).reshape(x.shape[2:], order="F")
        numbers = numbers[_last(*(slice(0, 1),) * len(placed))] + spatial
    indices = np.zeros(y.shape, np.int64)
    for place, rows in _windows(x, placed):
        values, places = _part(x, rows), _part(numbers, rows)
        at = values.argmax(-1)[..., None]
        y[_last(*place)] = np.take_along_axis(values, at, -1)[..., 0]
        indices[_last(*place)] = np.take_along_axis(places, at, -1)[..., 0]
    return y, indices


@port("AveragePool")
def average_pool(x: Array, count_include_pad: int = 0, **window: Any) -> Array:
    """A window of padding alone has the average 0, as in onnxruntime."""
    placed = axes(x.shape[2:], **window)
    y = np.zeros((*x.shape[:2], *(len(axis.positions) for axis in placed)))
    for place, rows in _windows(x, placed):
        count = int(np.prod([len(row) for row in rows]))
        if count_include_pad:
            count = 1
            for axis, size, k in zip(placed, x.shape[2:], place, strict=True):
                count *= int(np.sum(axis.positions[k] < size + axis.high))
        y[_last(*place)] = _part(x, rows).sum(-1) / max(count, 1)
    return y


@port("LpPool")
def lp_pool(x: Array, p: float = 2, **window: Any) -> Array:
    placed = axes(x.shape[2:], **window)
    y = np.zeros((*x.shape[:2], *(len(axis.positions) for axis in placed)))
    for place, rows in _windows(x, placed):
        y[_last(*place)] = (np.abs(_part(x, rows)) ** p).sum(-1) ** (1 / p)
    return y


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@port("GlobalMaxPool")
def global_max_pool(x: Array) -> Array:
    return np.asarray(x.max(_spatial(x), keepdims=True, initial=-np.inf))


@port("GlobalAveragePool")
def global_average_pool(x: Array) -> Array:
    return np.asarray(x.mean(_spatial(x), keepdims=True))


@port("GlobalLpPool")
def global_lp_pool(x: Array, p: float = 2) -> Array:
    return np.asarray((np.abs(x) ** p).sum(_spatial(x), keepdims=True) ** (1 / p))


@port("ConvTranspose")
def conv_transpose(x: Array, w: Array, b: Array | None = None, group: int = 1, **how: Any) -> Array:
    """Every element of the input adds its multiple of the kernel to the output, whose borders are cut off then."""
    count = x.ndim - 2
    strides, dilations = how.get("strides") or (1,) * count, how.get("dilations") or (1,) * count
    reach = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, w.shape[2:], strict=True)]
    extra = how.get("output_padding") or (0,) * count
    whole = [s * (n - 1) + r + e for s, n, r, e in zip(strides, x.shape[2:], reach, extra, strict=True)]
    low, sizes = _borders(x, whole, strides, how)
    y = np.zeros((x.shape[0], group, w.shape[1], *(max(n, k + m) for n, k, m in zip(whole, low, sizes, strict=True))))
    parts = x.reshape(x.shape[0], group, -1, *x.shape[2:])
    kernels = w.reshape(group, -1, *w.shape[1:])
    for tap in np.ndindex(*w.shape[2:]):
        into = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilations, strides, x.shape[2:], strict=True)
        )
        y[_last(*into)] += np.einsum("ngc...,gco->ngo...", parts, kernels[_last(*tap)])
    cut = _last(*(slice(k, k + m) for k, m in zip(low, sizes, strict=True)))
    result: Array = y.reshape(x.shape[0], -1, *y.shape[3:])[cut]
    return result if b is None else np.asarray(result + b.reshape(-1, *(1,) * count))


def _borders(x: Array, whole: Sequence[int], strides: Sequence[int], how: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The number of elements cut off in front of each axis, and the sizes that remain."""
    count, auto_pad = len(whole), how.get("auto_pad", "NOTSET")
    pads, wanted = how.get("pads") or (0,) * (2 * count), how.get("output_shape")
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = [min(n * s, size) for n, s, size in zip(x.shape[2:], strides, whole, strict=True)]  # as in onnxruntime
    if wanted is None:
        return list(pads[:count]), [n - pads[k] - pads[k + count] for k, n in enumerate(whole)]
    wanted = list(wanted)[-count:]
    totals = [max(n - size, 0) for n, size in zip(whole, wanted, strict=True)]
    low = [total // 2 if auto_pad == "SAME_UPPER" else total - total // 2 for total in totals]
    return low, wanted
