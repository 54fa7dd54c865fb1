"""Convolutions of dequantised bytes that stay in floating point because they are faster there.

Integers win by instructions that multiply bytes four by four. Where there are none, 16 bits are multiplied, and Winograd's convolution,
with a quarter of the multiplications, is faster; so is a wide vector of floats where each tap is gathered, and a narrow one where
channels are not summed.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node, Value
from ort_lite.native.cpu import Target
from ort_lite.transform import Done, Rewriter, Skip, Transform, constant, op, rule
from ort_lite_cpu.options import CPUOptions


def float_filters(options: CPUOptions, target: Target) -> list[Transform]:
    """Return the rule that dequantizes filters for good, for a target that prefers it; to be tried before those that make integers."""
    if target.has_byte_products:
        return []
    pattern = op(
        "Conv", op("DequantizeLinear"), op("DequantizeLinear", constant("w"), constant("scale"), name="filters"), name="root"
    )
    return [rule(pattern, level="basic", name="convolve_in_float")(partial(_convolve, options.winograd, target.vector_bytes))]


def _convolve(
    winograd: bool, vector: int, rewriter: Rewriter, w: Value, scale: Value, filters: Node, root: Node
) -> Done | Skip:
    array = rewriter.array(w)
    assert array is not None
    if not _is_faster(root, array.shape, winograd, vector):
        return Skip("integers are no slower")
    floats = _dequantize(rewriter, filters)
    bias = root.inputs[2] if len(root.inputs) > 2 else None
    terms = None if bias is None or bias.producer is None else _dequantize(rewriter, bias.producer)
    given = [rewriter.constant(found, name) for found, name in ((floats, w.name), (terms, "bias")) if found is not None]
    if floats is None:
        return Skip("the filters are not dequantised by constants")
    weight, rest = given[0], given[1:] if bias is None or terms is not None else [bias]
    return rewriter.replace(root, rewriter.op("Conv", root.inputs[0], weight, *rest, like=root))


def _is_faster(conv: Node, shape: tuple[int, ...], winograd: bool, vector: int) -> bool:
    """Return True if Winograd's kernels serve it: kernels 3x3 without strides, dilations and groups, whole vectors of channels."""
    groups, taps, lanes = conv.attr("group", 1), math.prod(shape[2:]), vector // 4
    plain = (
        shape[2:] == (3, 3) and groups == 1 and all(n == 1 for name in ("strides", "dilations") for n in conv.attr(name) or ())
    )
    if winograd and plain and shape[0] % lanes == shape[1] % lanes == 0:
        return True
    depthwise = groups > 1 and groups == shape[0] and shape[1] == 1
    return vector == 16 if depthwise else vector == 64 and taps > 1


def _dequantize(rewriter: Rewriter, node: Node) -> Array | None:
    """Compute a DequantizeLinear of constants: (x - zero) * scale, one of each or one for each index of axis 0."""
    arrays: list[Any] = [rewriter.array(value) for value in node.inputs]
    if node.op_type != "DequantizeLinear" or any(array is None for array in arrays):
        return None
    x, scale, zero = (*arrays, np.zeros((), np.int32))[:3]
    around = (-1, *(1,) * (x.ndim - 1)) if scale.size > 1 else ()
    centred = (x.astype(np.int32) - zero.astype(np.int32).reshape(around if zero.size > 1 else ())).astype(np.float32)
    return np.asarray(centred * scale.reshape(around))
