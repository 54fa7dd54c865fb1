"""Integer products and their scales become MatMulIntegerToFloat.

A product by a weight that is quantized dynamically is MatMulInteger, Cast, Mul of the two scales, and Add of a bias. As one node, the
scales and the bias go into the kernel of the product. Several products of one DynamicQuantizeLinear still share it.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import to_onnx
from ort_lite.graph import Node, Value
from ort_lite.shapes import Dim, same
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_MICROSOFT = "com.microsoft"
_LEVEL: Any = {"level": "extended", "counterparts": ("MatMulIntegerToFloatFusion",), "private": True}


@rule(
    op("Mul", op("Cast", op("MatMulInteger", name="product"), name="cast"), "factor", name="root", since=7, commutative=True),
    **_LEVEL,
)
def fuse_integer_scales(rewriter: Rewriter, product: Node, cast: Node, factor: Value, root: Node) -> Done | Skip:
    """MatMulIntegerToFloat takes one scale on the left, and one or one per column on the right. The bits stay the same."""
    a, b, *zeros = (*product.inputs, None, None)[:4]
    assert a is not None and b is not None
    if a.shape is None or b.shape is None or min(len(a.shape), len(b.shape)) < 2:
        return Skip(f"{a.name} and {b.name} are not known to be matrices")
    if cast.attr("to") != to_onnx("float32") or factor.dtype != "float32":
        return Skip(f"{cast} and {factor.name} are not of float32")
    columns, (left, right) = b.shape[-1], zeros
    if left is not None and not _is_single(left):
        return Skip(f"{left.name} is not known to be one zero point")
    if right is not None and not _fits(right, columns):
        return Skip(f"{right.name} is not known to be one zero point, or one per column")
    scales = _split(rewriter, factor, columns, root)
    if scales is None:
        return Skip(f"{factor.name} is not known to be one scale, or one per column")
    return rewriter.replace(root, rewriter.op("MatMulIntegerToFloat", a, b, *scales, left, right, domain=_MICROSOFT))


@rule(
    op("Add", op("MatMulIntegerToFloat", name="product", domain=_MICROSOFT), "bias", name="root", since=7, commutative=True),
    **_LEVEL,
)
def fuse_integer_bias(rewriter: Rewriter, product: Node, bias: Value, root: Node) -> Done | Skip:
    """A bias per column goes into the product, which adds it to the scaled sum as the model does. The bits stay the same."""
    b = product.inputs[1]
    assert b is not None
    if len(product.inputs) > 6 or not b.shape or bias.shape is None or len(bias.shape) != 1:
        return Skip(f"{product} has a bias, or {bias.name} is not known to be one number per column")
    if bias.dtype != "float32" or len(b.shape) < 2 or not same(bias.shape[0], b.shape[-1]):
        return Skip(f"{bias.name} is not known to be one float32 for each column of {b.name}")
    inputs = (*product.inputs, None, None)[:6]
    return rewriter.replace(root, rewriter.op("MatMulIntegerToFloat", *inputs, bias, like=product, domain=_MICROSOFT))


def _split(rewriter: Rewriter, factor: Value, columns: Dim, root: Node) -> tuple[Value, Value] | None:
    """Return a left and a right scale whose product is the factor, or None if they do not fit."""
    made = factor.producer
    if made is not None and made.op_type == "Mul" and not made.domain and made.graph is root.graph:
        one, other = made.inputs
        assert one is not None and other is not None
        for left, right in ((one, other), (other, one)):
            if _is_single(left) and _fits(right, columns):
                return left, right
    if not _fits(factor, columns):
        return None
    return rewriter.constant(np.ones((), np.float32), "one"), factor


def _is_single(value: Value) -> bool:
    """Return True if the value is known to be a number, or a vector of one."""
    return value.shape is not None and value.shape in ((), (1,))


def _fits(value: Value, columns: Dim) -> bool:
    """Return True if the value is known to be one number, or a vector of one per column."""
    return _is_single(value) or (value.shape is not None and len(value.shape) == 1 and same(value.shape[0], columns))
