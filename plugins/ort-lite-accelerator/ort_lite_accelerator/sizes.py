"""The shapes of the kernels' results and of their scratch memory, which a plan needs before a program runs."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ort_lite_accelerator.kernels import Settings

Shape = tuple[int, ...]


def result_shape(kernel: str, s: Settings, operands: Sequence[Shape]) -> Shape:
    """Return the shape of a kernel's result, from the settings and the shapes of the operands that are there."""
    x = operands[0]
    if kernel == "Conv":
        groups, _, channels = operands[1]
        return _image(x, s, _positions(x, s), groups * channels)
    if kernel == "MaxPool":
        return _image(x, s, _positions(x, s), x[-1] if s["last"] else x[1])
    if kernel == "GlobalAveragePool":
        return _image(x, s, (1,) * (len(x) - 2), x[-1] if s["last"] else x[1])
    if kernel == "Gemm":
        return x[1 if s["transA"] else 0], operands[1][0 if s["transB"] else 1]
    if kernel == "MatMul":
        return _product(x, operands[1])
    if kernel == "Flatten":
        return prod(x[: s["axis"]]), prod(x[s["axis"] :])
    return np.broadcast_shapes(*operands)


def scratch_shape(kernel: str, s: Settings, operands: Sequence[Shape]) -> Shape:
    """Return the shape of the scratch memory that a kernel asks its stream for; (0,) if it asks for none."""
    if kernel != "Conv":
        return (0,)
    groups, taps, _ = operands[1]
    return groups, operands[0][0], *_positions(operands[0], s), taps


def _positions(x: Shape, s: Settings) -> Shape:
    """Return the spatial shape of the result of windows that move over an image."""
    rank = len(s["window"])
    spatial = x[1:-1] if s["last"] else x[2:]
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(s["window"], s["dilations"], strict=True)]
    padded = [size + s["pads"][k] + s["pads"][k + rank] for k, size in enumerate(spatial)]
    return tuple((size - span) // step + 1 for size, span, step in zip(padded, spans, s["strides"], strict=True))


def _image(x: Shape, s: Settings, spatial: Shape, channels: int) -> Shape:
    return (x[0], *spatial, channels) if s["last"] else (x[0], channels, *spatial)


def _product(a: Shape, b: Shape) -> Shape:
    """Return the shape of a matrix product; vectors have no row or no column."""
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))
