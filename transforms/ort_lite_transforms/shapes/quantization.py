"""Between numbers and their quantised form."""

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, shape_rule


def _quantized(op: Op) -> DType:
    if op.has(2):
        return op.dtype(2)
    return from_onnx(op.attr("output_dtype", 0) or 2)


@shape_rule("QuantizeLinear", types=(_quantized,))
def quantize_linear(op: Op) -> list[Info]:
    """Of the zero point's type, else `output_dtype`, else uint8. Spec: ONNX QuantizeLinear-23."""
    return [op.tensor(_quantized(op), op.shape(0))]


def _dequantized(op: Op) -> DType:
    code = op.attr("output_dtype", 0)
    return from_onnx(code) if code else op.dtype(1)


@shape_rule("DequantizeLinear", types=(_dequantized,))
def dequantize_linear(op: Op) -> list[Info]:
    """Of the scale's type, unless `output_dtype` says otherwise. Spec: ONNX DequantizeLinear-23."""
    return [op.tensor(_dequantized(op), op.shape(0))]


@shape_rule("DynamicQuantizeLinear", types=("uint8", "float32", "uint8"))
def dynamic_quantize_linear(op: Op) -> list[Info]:
    """y uint8 like x, scale and zero point scalars. Spec: ONNX DynamicQuantizeLinear-11."""
    return [op.tensor("uint8", op.shape(0)), op.tensor("float32", ()), op.tensor("uint8", ())]


RULES = [*quantize_linear, *dequantize_linear, *dynamic_quantize_linear]
