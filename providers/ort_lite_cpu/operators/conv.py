"""Conv and its fused form, over 1 to 3 spatial axes, on channels-last activations; the choice among kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ort_lite.shapes import equal, maximum, same
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation, activation, parameter_counts
from ort_lite_cpu.lowering.attributes import check_fit, check_windows
from ort_lite_cpu.lowering.candidates import choose
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.conv_channels import CHANNELS_LAST
from ort_lite_cpu.operators.conv_pixels import PIXELS
from ort_lite_cpu.operators.conv_planes import PLANES
from ort_lite_cpu.operators.convolutions import ConvCase, Epilogue, Geometry, Triple, Weight
from ort_lite_cpu.operators.joined import output_in_concat
from ort_lite_cpu.operators.rounded import rounding_behind
from ort_lite_cpu.registry import REAL, operator


# --- Operators
@operator("Conv", types=REAL)
def conv(op: NodeLowering) -> None:
    """Spec: ONNX Conv-22."""
    _conv(op, NONE)


@operator("FusedConv", domain="com.microsoft", types=REAL)
def fused_conv(op: NodeLowering) -> None:
    """activation(Conv + Z). Spec: onnxruntime FusedConv-1."""
    name = op.attr("activation", "")
    act = activation(name, op.attr("activation_params") or ())
    if act is None:
        raise op.reject(f"activation {name!r}")
    if len(op.attr("activation_params") or ()) not in (0, *parameter_counts(name)):
        raise op.reject(f"activation_params {list(op.attr('activation_params'))} for activation {name!r}")
    _conv(op, act)


def _conv(op: NodeLowering, act: Activation) -> None:
    """Emit a convolution together with the rounding Casts that follow it (see `rounded`)."""
    act, behind = rounding_behind(op, act)
    _convolve(op, act)
    value = op.node.outputs[0]
    if behind and value is not None:
        op.values.do_with(op.values.tensors[value], value, behind)


def _convolve(op: NodeLowering, act: Activation) -> None:
    """Emit a convolution, and add input 3 if the node has one."""
    x, w, y = op.raw(0).shape, op.raw(1).shape, op.info().shape
    assert y is not None
    sizes = geometry(op, x, w, y)
    _require(op, sizes, w, y, op.raw(3) if op.has(3) else None)
    array = op.constant(1)
    weight = Weight(array, None if array is not None else op.input(1), array)

    def epilogue(perm: tuple[int, ...] | None) -> Epilogue:
        return Epilogue(op.optional(2), op.input(3, perm) if op.has(3) else None, act)

    def images(perm: tuple[int, ...] | None) -> tuple[Tensor, Tensor]:
        alone = perm is None or sizes.is_depthwise or op.has(3)
        return op.input(0, perm), op.output(0, perm) if alone else output_in_concat(op)

    sizes, weight = without_padding_taps(sizes, weight)
    case = ConvCase(op, sizes, weight, epilogue, images, sizes.numbers)
    choose(op, CANDIDATES, case).emit(case)


CANDIDATES: Final = (*PLANES, PIXELS, *CHANNELS_LAST)
"""The ways to compute a Conv: in ONNX's own layout, and channels last."""


# --- Sizes
def geometry(op: NodeLowering, x: Shape, w: Shape, y: Shape) -> Geometry:
    """Return the sizes of a Conv. Raises NotImplemented for attributes that are none of a convolution's over one to three axes."""
    rank = len(x) - 2
    check_windows(op, rank)
    kernel: Sequence[Dim] = op.attr("kernel_shape") or w[2:]
    check_fit(op, x[2:], kernel)
    strides, dilations = (op.attr(name) or (1,) * rank for name in ("strides", "dilations"))
    pads = _pads(op, x[2:], y[2:], kernel, strides, dilations)
    groups = op.attr("group", 1)
    channels = w[1] * groups if isinstance(w[1], int) else x[1]  # equal, and a number more often than not
    return sizes_of((x[0], channels, *x[2:]), y, kernel, strides, pads, dilations, groups)


def sizes_of(
    x: Shape,
    y: Shape,
    kernel: Sequence[Dim],
    strides: Sequence[Dim],
    pads: Sequence[Dim],
    dilations: Sequence[Dim],
    groups: int,
) -> Geometry:
    """Return the geometry for a kernel, strides, pads and dilations with one number per spatial axis."""
    return Geometry(
        batch=x[0],
        channels=x[1],
        size=_triple(x[2:], 1),
        outputs=y[1],
        result=_triple(y[2:], 1),
        kernel=_triple(kernel, 1),
        strides=_triple(strides, 1),
        pads=_triple(pads, 0),
        dilations=_triple(dilations, 1),
        groups=groups,
    )


def without_padding_taps(sizes: Geometry, weight: Weight) -> tuple[Geometry, Weight]:
    """Return the convolution without the outer taps that see only padding, as far as sizes are known and the weight is constant."""
    array = weight.array
    axes = (sizes.size, sizes.result, sizes.kernel, sizes.strides, sizes.pads, sizes.dilations)
    if array is None or not all(isinstance(number, int) for axis in axes for number in axis):
        return sizes, weight
    ranges = [_taps_inside(*numbers) for numbers in zip(*axes, strict=True)]
    if all(range_ == (0, taps) for range_, taps in zip(ranges, sizes.kernel, strict=True)):
        return sizes, weight
    kernel = tuple(last - first for first, last in ranges)
    pads: Any = tuple(p - first * d for p, d, (first, _) in zip(sizes.pads, sizes.dilations, ranges, strict=True))
    dilations: Any = tuple(1 if taps == 1 else d for taps, d in zip(kernel, sizes.dilations, strict=True))
    inner: Any = (..., *(slice(*range_) for range_ in ranges[5 - array.ndim :]))
    kept = Weight(np.ascontiguousarray(array[inner]), None, weight.source, f"taps {ranges}")
    return sizes.replace(kernel=kernel, pads=pads, dilations=dilations), kept


def _taps_inside(size: int, result: int, taps: int, stride: int, pad: int, dilation: int) -> tuple[int, int]:
    """Return the first tap of an axis that meets the image, and the one after the last; all of them if that leaves a negative pad."""
    positions = [range(t * dilation - pad, t * dilation - pad + result * stride, stride) for t in range(taps)]
    inside = [tap for tap, seen in enumerate(positions) if any(0 <= at < size for at in seen)]
    first, last = (inside[0], inside[-1] + 1) if inside else (0, taps)
    return (first, last) if pad >= first * dilation else (0, taps)


def _triple(values: Sequence[Dim], fill: int) -> Triple:
    """Return one number per spatial axis, with `fill` for the axes that are missing in front."""
    missing: list[Dim] = [fill] * (3 - len(values))
    a, b, c = [*missing, *values]
    return a, b, c


def _pads(
    op: NodeLowering,
    size: Sequence[Dim],
    result: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[Dim],
    dilations: Sequence[Dim],
) -> Sequence[Dim]:
    """Return the padding in front of each spatial axis."""
    mode = op.attr("auto_pad") or "NOTSET"
    if mode == "NOTSET":
        given: Sequence[Dim] = op.attr("pads") or (0,) * (2 * len(size))
        return given[: len(size)]
    if mode == "VALID":
        return (0,) * len(size)
    pads = []
    for dim, out, k, stride, dilation in zip(size, result, kernel, strides, dilations, strict=True):
        total = maximum((out - 1) * stride + (k - 1) * dilation + 1 - dim, 0)
        pads.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
    return pads


def _require(op: NodeLowering, sizes: Geometry, w: Shape, y: Shape, residual: Tensor | None) -> None:
    """Check the shapes that the kernels rely on, and that neither the schema nor shape inference states."""
    pairs = [(k, dim, "kernel_shape and weight") for k, dim in zip(sizes.kernel[5 - len(w) :], w[2:], strict=True)]
    if residual is not None:
        pairs += [(a, b, "Z and the output") for a, b in zip(residual.shape, y, strict=True)]
    require_equal(op, pairs)


def require_equal(op: NodeLowering, pairs: Sequence[tuple[Dim, Dim, str]]) -> None:
    """Make the run fail for shapes for which a pair differs."""
    for a, b, what in pairs:
        if not same(a, b):
            op.require(equal(a, b), what + " differ: {0} and {1}", a, b)
