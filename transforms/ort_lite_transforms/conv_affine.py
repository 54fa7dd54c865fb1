"""Mul, Div, Add and Sub of a constant per channel become part of the convolution before them."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, constant, op, rule
from ort_lite_transforms import channels

_CONV = op(("Conv", "ConvTranspose"), name="conv")


@rule(
    op("Mul", _CONV, constant("factor"), name="root", since=7, commutative=True),
    op("Div", _CONV, constant("factor"), name="root", since=7),
    level="basic",
    counterparts=("ConvMulFusion",),
    private=True,
)
def fuse_conv_scale(rewriter: Rewriter, conv: Node, factor: Value, root: Node) -> Done | Skip:
    """Conv(x, W, b) * s is Conv(x, s * W, s * b). O(weights)."""
    found = channels.weights_of(rewriter, conv)
    if isinstance(found, str):
        return Skip(found)
    weight, bias = found
    factors = _vector(rewriter, conv, weight, factor)
    if factors is None:
        return Skip(f"{factor.name} is not one factor for each channel of {conv}")
    wide = factors.astype(np.float64)
    wide = 1 / wide if root.op_type == "Div" else wide
    new_bias = (bias * wide).astype(bias.dtype)
    return rewriter.replace(root, channels.rebuilt(rewriter, conv, channels.scale_channels(conv, weight, wide), new_bias))


@rule(
    op("Add", _CONV, constant("term"), name="root", since=7, commutative=True),
    op("Sub", _CONV, constant("term"), name="root", since=7),
    level="basic",
    counterparts=("ConvAddFusion",),
    private=True,
)
def fuse_conv_bias(rewriter: Rewriter, conv: Node, term: Value, root: Node) -> Done | Skip:
    """Conv(x, W, b) + t is Conv(x, W, b + t)."""
    found = channels.weights_of(rewriter, conv)
    if isinstance(found, str):
        return Skip(found)
    weight, bias = found
    terms = _vector(rewriter, conv, weight, term)
    if terms is None:
        return Skip(f"{term.name} is not one number for each channel of {conv}")
    new_bias = bias - terms if root.op_type == "Sub" else bias + terms
    return rewriter.replace(root, channels.rebuilt(rewriter, conv, None, np.asarray(new_bias)))


def _vector(rewriter: Rewriter, conv: Node, weight: Array, value: Value) -> Array | None:
    array = rewriter.array(value)
    return None if array is None else channels.per_channel(array, weight.ndim, channels.channels_of(conv, weight))
