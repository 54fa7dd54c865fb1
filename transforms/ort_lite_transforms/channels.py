"""Constants that act on the channels of a convolution's result, and what they do to its weights."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.memory.recipes import derive
from ort_lite.transform import Rewriter


def weights_of(rewriter: Rewriter, node: Node) -> tuple[Array, Array] | str:
    """Weights and bias (zeros where it is left out) of a Conv or ConvTranspose, or why they cannot be changed."""
    weight = rewriter.array(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if weight is None:
        return f"the weights of {node} are not constant"
    if weight.ndim < 3 or weight.dtype.kind != "f":
        return f"the weights of {node} are {weight.dtype} of rank {weight.ndim}"
    groups = node.attr("group", 1)
    if groups < 1 or weight.shape[0] % groups:
        return f"the weights of {node} cannot be divided into {groups} groups"
    if not rewriter.budget.affords(weight.nbytes):
        return f"the weights of {node} have {weight.nbytes} bytes, more than are left for new constants"
    if bias is None:
        return weight, np.zeros(channels_of(node, weight), weight.dtype)
    array = rewriter.array(bias)
    return f"the bias of {node} is not constant" if array is None else (weight, array)


def channels_of(node: Node, weight: Array) -> int:
    """Channels of the result. Weights are (M, C/group, ...) of a Conv and (C, M/group, ...) of a ConvTranspose."""
    groups: int = node.attr("group", 1)
    return int(weight.shape[1]) * groups if node.op_type == "ConvTranspose" else int(weight.shape[0])


def scale_channels(node: Node, weight: Array, factors: Array) -> Array:
    """Weights of a node with which output channel m is `factors[m]` times what it was. O(weights)."""
    groups = node.attr("group", 1) if node.op_type == "ConvTranspose" else 0
    return derive(_scale_channels, weight, factors, groups)


def _scale_channels(weight: Array, factors: Array, groups: int) -> Array:
    """Return the scaled weights of a Conv, or those of a ConvTranspose of so many groups."""
    factors = factors.astype(weight.dtype)
    around = (1,) * (weight.ndim - 2)
    if not groups:
        return np.asarray(weight * factors.reshape(-1, 1, *around))
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    return np.asarray((grouped * factors.reshape(groups, 1, -1, *around)).reshape(weight.shape))


def per_channel(array: Array, rank: int, channels: int) -> Array | None:
    """The constant as (channels,), if adding it to (N, channels, ...) of `rank` changes neither shape nor one place alone."""
    if array.size == 1 and array.ndim <= rank:
        return np.broadcast_to(array.reshape(()), (channels,))
    padded = (1,) * (rank - array.ndim) + array.shape
    return array.reshape(-1) if len(padded) == rank and padded == (1, channels, *(1,) * (rank - 2)) else None


def rebuilt(rewriter: Rewriter, node: Node, weight: Array | None, bias: Array) -> Value:
    """The node again, with other weights (None: the same ones) and another bias."""
    x, w = node.inputs[0], node.inputs[1]
    assert w is not None
    b = node.inputs[2] if len(node.inputs) > 2 else None
    new_w = w if weight is None else rewriter.constant(weight, w.name)
    new_b = rewriter.constant(bias, f"{w.name}_bias" if b is None else b.name)
    return rewriter.op(node.op_type, x, new_w, new_b, domain=node.domain, like=node)
