"""Convolutions."""

from collections.abc import Sequence
from functools import partial

import jax.numpy as jnp
from jax import lax

from ort_lite.graph import Node
from ort_lite_xla.along import PaddedDims, only_first
from ort_lite_xla.operators.activations import MICROSOFT, PARAMETERS, activate
from ort_lite_xla.operators.integers import convolve_exactly, per_filter, subtract_zero_point
from ort_lite_xla.operators.widening import in_float32
from ort_lite_xla.operators.windows import Pads, dilations_of, pads_of, strides_of
from ort_lite_xla.registry import FLOATS, Array, PaddingMask, XlaOp, lowering

LETTERS = "DHW"


def numbers(rank: int) -> tuple[str, str, str]:
    """Return the meaning of the dimensions: (N, C, spatial...), (out, in, spatial...)."""
    spatial = LETTERS[-rank:] if rank <= len(LETTERS) else "".join(map(chr, range(ord("a"), ord("a") + rank)))
    return "NC" + spatial, "OI" + spatial, "NC" + spatial


def convolve(op: XlaOp, x: Array, w: Array) -> Array:
    """Return Conv without its bias, in the element type of the operands."""
    sizes, kernel = x.shape[2:], w.shape[2:]
    rank = len(sizes)
    plain = partial(
        lax.conv_general_dilated,
        window_strides=strides_of(op, rank),
        padding=pads_of(op, sizes, kernel),
        rhs_dilation=dilations_of(op, rank),
        dimension_numbers=numbers(rank),
        feature_group_count=op.attr("group", 1),
    )
    return plain(x, w) if x.dtype.kind != "i" else convolve_exactly(plain, x, w, op.attr("group", 1))


def _add_bias(y: Array, b: Array) -> Array:
    return y if b is None else y + b.reshape(-1, *[1] * (y.ndim - 2))


@lowering("Conv", since=1, types=FLOATS, along=only_first())
def conv(op: XlaOp, x: Array, w: Array, b: Array = None) -> Array:
    """Convolve x (N, C, spatial) with w (M, C / group, kernel), and add b (M,). Spec: ONNX Conv-22."""
    return _add_bias(convolve(op, x, w), b)


def _check_activation(node: Node) -> str | None:
    name = node.attr("activation", "")
    return None if not name or name in PARAMETERS else f"activation {name!r}"


def _first_and_sum(dims: PaddedDims) -> list[PaddingMask]:
    """Apply `only_first`, but z may be padded too: it has the result's shape, whose first dimension is independent."""
    return only_first()(dims._replace(operands=dims.operands[:3]))


@lowering("FusedConv", domain=MICROSOFT, types=FLOATS, check=_check_activation, along=_first_and_sum)
@in_float32
def fused_conv(op: XlaOp, x: Array, w: Array, b: Array = None, z: Array = None) -> Array:
    """Apply an activation to Conv(x, w, b) + z. Spec: onnxruntime com.microsoft FusedConv-1."""
    y = _add_bias(convolve(op, x, w), b)
    y = y if z is None else y + z
    name = op.attr("activation", "")
    return activate(name, y, *(op.attr("activation_params") or ())) if name else y


@lowering("ConvTranspose", since=1, types=FLOATS, along=only_first())
def conv_transpose(op: XlaOp, x: Array, w: Array, b: Array = None) -> Array:
    """Compute the gradient of Conv for x (N, C, spatial) and w (C, M / group, kernel). Spec: ONNX ConvTranspose-22."""
    sizes, kernel, group = x.shape[2:], w.shape[2:], op.attr("group", 1)
    rank = len(sizes)
    dilations, more = dilations_of(op, rank), list(op.attr("output_padding") or [0] * rank)
    pads = _pads_of_transpose(op, sizes, kernel, more)
    flipped = jnp.flip(w, range(2, w.ndim)).reshape(group, w.shape[0] // group, *w.shape[1:])
    turned = jnp.swapaxes(flipped, 1, 2).reshape(group * w.shape[1], w.shape[0] // group, *kernel)
    widths = [
        ((k - 1) * d - before, (k - 1) * d - after + extra)
        for k, d, (before, after), extra in zip(kernel, dilations, pads, more, strict=True)
    ]
    y = lax.conv_general_dilated(
        x,
        turned,
        [1] * rank,
        widths,
        lhs_dilation=strides_of(op, rank),
        rhs_dilation=dilations,
        dimension_numbers=numbers(rank),
        feature_group_count=group,
    )
    return _add_bias(y, b)


def _pads_of_transpose(op: XlaOp, sizes: Sequence[int], kernel: Sequence[int], more: Sequence[int]) -> Pads:
    """Return the pads from `pads`, or from the requested output shape."""
    rank = len(sizes)
    strides, dilations = strides_of(op, rank), dilations_of(op, rank)
    auto, wanted = op.attr("auto_pad", "NOTSET"), op.attr("output_shape")
    asked = wanted is not None
    if wanted is None and auto.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if wanted is None:
        return pads_of(op, sizes, kernel)
    found = []
    for size, stride, k, dilation, extra, out in zip(sizes, strides, kernel, dilations, more, wanted[-rank:], strict=True):
        total = stride * (size - 1) + extra + (k - 1) * dilation + 1 - out
        beyond = max(-total, 0) if asked else 0  # zeros at the end of the result that the kernel does not reach
        small, large = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
        found.append((before, after - beyond))
    return found


@lowering("ConvInteger", since=10, types=frozenset({"int8", "uint8"}))
def conv_integer(op: XlaOp, x: Array, w: Array, x_zero: Array = None, w_zero: Array = None) -> Array:
    """Convolve x - x_zero with w - w_zero in int32. Spec: ONNX ConvInteger-10."""
    return convolve(
        op, subtract_zero_point(x, x_zero), subtract_zero_point(w, None if w_zero is None else per_filter(w_zero, w))
    )
