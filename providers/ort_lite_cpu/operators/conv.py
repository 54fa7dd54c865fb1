"""Conv, its fused form, and ConvTranspose, over 1 to 3 spatial axes, on channels-last activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes import Dim, Shape, equal, maximum, minimum, product, same
from ort_lite_cpu.gemm import convolution, depthwise, winograd
from ort_lite_cpu.gemm.activation import NONE, Activation, activation
from ort_lite_cpu.gemm.gemm import DEPTH
from ort_lite_cpu.gemm.microkernel import tile_for
from ort_lite_cpu.op import Op
from ort_lite_cpu.operators.matmul import Product, emit_packed
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.tensor import Tensor, channels_last

Triple = tuple[Dim, Dim, Dim]

TILES, COLUMNS = 24, 64
"""About how many tiles of a Winograd transform make a block, and how many output channels are taken together."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of a convolution, spatial axes padded to three in front; `pads` are those in front."""

    batch: Dim
    channels: Dim
    size: Triple
    outputs: Dim
    result: Triple
    kernel: Triple
    strides: Triple
    pads: Triple
    dilations: Triple
    groups: int

    @property
    def scalars(self) -> tuple[Dim, ...]:
        """In the order in which the kernels take them."""
        image = (self.batch, self.channels, *self.size, self.outputs, *self.result)
        return (*image, *self.kernel, *self.strides, *self.pads, *self.dilations)

    @property
    def pixels(self) -> Dim:
        return self.batch * product(self.result)

    @property
    def work(self) -> Dim:
        depth = product(self.kernel) * self.channels // self.groups
        return self.pixels * self.outputs * depth // 40

    @property
    def is_pointwise(self) -> bool:
        return self.groups == 1 and self.kernel == self.strides == (1, 1, 1) and self.pads == (0, 0, 0) and self.size == self.result

    @property
    def is_depthwise(self) -> bool:
        flat = self.size[0] == self.result[0] == self.kernel[0] == 1
        narrow = isinstance(self.kernel[2], int) and self.kernel[2] <= depthwise.MAX_TAPS
        return self.groups > 1 and self.channels == self.outputs == self.groups and flat and narrow

    @property
    def suits_winograd(self) -> bool:
        lanes = tile_for("f32").lanes
        plain = self.kernel == (1, 3, 3) and self.strides == self.dilations == (1, 1, 1) and self.groups == 1
        if not plain or not same(self.size[0], 1) or not same(self.result[0], 1):
            return False
        channels, outputs = self.channels, self.outputs
        if not isinstance(channels, int) or not isinstance(outputs, int) or channels % lanes or outputs % lanes:
            return False
        return channels >= 32 and outputs >= 32


@operator("Conv", types=REAL)
def conv(op: Op) -> None:
    """Spec: ONNX Conv-22."""
    _conv(op, NONE, None)


@operator("FusedConv", domain="com.microsoft", types=REAL)
def fused_conv(op: Op) -> None:
    """activation(Conv + Z). Spec: onnxruntime FusedConv-1."""
    name, params = op.attr("activation", ""), op.attr("activation_params") or ()
    act = activation(name, params)
    if act is None:
        raise op.reject(f"activation {name!r}")
    _conv(op, act, op.input(3, channels_last(len(op.raw(3).shape))) if op.has(3) else None)


def _conv(op: Op, act: Activation, residual: Tensor | None) -> None:
    perm = channels_last(len(op.raw(0).shape))
    x, y = op.input(0, perm), op.output(0, perm)
    sizes = _geometry(op, x.shape, op.raw(1).shape, y.shape)
    _require(op, sizes, op.raw(1).shape, y.shape, residual)
    bias, weight = op.optional(2), op.constant(1)
    if weight is not None and sizes.is_pointwise:
        spec = Product(sizes.pixels, sizes.outputs, sizes.channels, transposed=True, bias=bias, residual=residual, activation=act)
        emit_packed(op, spec, x, weight.reshape(weight.shape[0], -1), source=weight, y=y)
        return
    if sizes.is_depthwise:
        _emit_depthwise(op, sizes, x, bias, residual, y, act)
        return
    if weight is not None and op.options.winograd and sizes.suits_winograd and x.dtype == "float32":
        _emit_winograd(op, sizes, x, weight, bias, residual, y, act)
        return
    _emit_general(op, sizes, x, weight, bias, residual, y, act)


def _emit_general(
    op: Op, sizes: Geometry, x: Tensor, weight: Array | None, bias: Tensor | None, residual: Tensor | None, y: Tensor, act: Activation
) -> None:
    tile = tile_for(x.native)
    if weight is not None:
        form = f"filters {sizes.groups} {tile.columns}"
        w = op.packed(weight, form, lambda: convolution.filters(weight, sizes.groups, tile.columns))
    else:
        w = _packed_filters(op, sizes, tile.columns)
    scratch = op.temporary(x.dtype, (op.options.threads, minimum(convolution.BLOCK, sizes.pixels), DEPTH))
    op.emit(
        convolution.conv, [x, w, bias, residual, y, scratch], *sizes.scalars, sizes.groups, *act.scalars,
        types=[x.native] * 6, statics={"kind": act.kind, **tile.statics}, work=sizes.work,
    )  # fmt: skip


def _emit_depthwise(
    op: Op, sizes: Geometry, x: Tensor, bias: Tensor | None, residual: Tensor | None, y: Tensor, act: Activation
) -> None:
    weight, channels = op.constant(1), sizes.groups
    if weight is not None:
        w = op.packed(weight, "taps, channels", lambda: weight.reshape(channels, -1).T)
    else:
        rank = len(op.raw(1).shape)
        w = op.input(1, (*range(1, rank), 0))
    op.emit(
        depthwise.depthwise, [x, w, bias, residual, y], *sizes.scalars, *act.scalars, types=[x.native] * 5,
        statics={
            "kind": act.kind, "taps": sizes.kernel[2], "stride": sizes.strides[2], "dilation": sizes.dilations[2],
            "lanes": tile_for(x.native).lanes,
        }, work=sizes.work * 4,
    )  # fmt: skip


def _emit_winograd(
    op: Op, sizes: Geometry, x: Tensor, weight: Array, bias: Tensor | None, residual: Tensor | None, y: Tensor, act: Activation
) -> None:
    tile = tile_for(x.native)
    channels, columns = weight.shape[1], min(weight.shape[0], COLUMNS)
    form = f"winograd {columns} {tile.columns}"
    u = op.packed(weight, form, lambda: winograd.transformed_filters(weight, columns, tile.columns))
    block = -(-TILES // tile.rows) * tile.rows * (1 if channels <= 128 else 2)
    size = winograd.scratch_size(block, channels, columns)
    scratch = op.temporary(x.dtype, (op.options.threads, size))
    op.emit(
        winograd.winograd, [x, u, bias, residual, y, scratch], *sizes.scalars, block, columns, size, *act.scalars,
        types=[x.native] * 6, statics={"kind": act.kind, **tile.statics}, work=sizes.work // 2,
    )  # fmt: skip


def _packed_filters(op: Op, sizes: Geometry, width: int) -> Tensor:
    """The weight, computed at run time, as panels."""
    weight = op.input(1)
    outputs, channels = sizes.outputs // sizes.groups, sizes.channels // sizes.groups
    across, taps = -(-outputs // width), product(sizes.kernel)
    w = op.temporary(weight.dtype, (sizes.groups * across, taps * channels, width))
    op.emit(convolution.pack_filters, [weight, w], sizes.groups, outputs, channels, taps, width, work=w.size * 2)
    return w


# --- Sizes
def _geometry(op: Op, x: Shape, w: Shape, y: Shape) -> Geometry:
    """Sizes of a Conv. Raises NotImplemented for more than three spatial axes."""
    rank = len(x) - 2
    if rank > 3:
        raise op.reject(f"{rank} spatial axes; 1 to 3 are there")
    kernel: Sequence[Dim] = op.attr("kernel_shape") or w[2:]
    strides, dilations = (op.attr(name) or (1,) * rank for name in ("strides", "dilations"))
    pads = _pads(op, x[2:], y[2:], kernel, strides, dilations)
    return Geometry(
        x[0], x[1], _triple(x[2:], 1), y[1], _triple(y[2:], 1), _triple(kernel, 1), _triple(strides, 1), _triple(pads, 0),
        _triple(dilations, 1), op.attr("group", 1),
    )  # fmt: skip


def _triple(values: Sequence[Dim], fill: int) -> Triple:
    a, b, c = (*(fill,) * (3 - len(values)), *values)
    return a, b, c


def _pads(
    op: Op, size: Sequence[Dim], result: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[Dim], dilations: Sequence[Dim]
) -> Sequence[Dim]:
    """Padding in front of each spatial axis."""
    mode = op.attr("auto_pad", "NOTSET")
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


def _require(op: Op, sizes: Geometry, w: Shape, y: Shape, residual: Tensor | None) -> None:
    """What the kernels rely on beyond what shape inference knows."""
    pairs: list[tuple[Dim, Dim, str]] = [(w[1] * sizes.groups, sizes.channels, "channels of input and weight")]
    pairs += [(k, dim, "kernel_shape and weight") for k, dim in zip(sizes.kernel[5 - len(w) :], w[2:], strict=True)]
    if op.has(2):
        pairs.append((product(op.raw(2).shape), sizes.outputs, "bias and output channels"))
    if residual is not None:
        pairs += [(a, b, "Z and the output") for a, b in zip(residual.shape, y, strict=True)]
    for a, b, what in pairs:
        if not same(a, b):
            op.require(equal(a, b), f"{what} differ: {a} and {b}")


__all__ = ["conv", "fused_conv", "np"]
