"""com.microsoft's operators on quantised tensors: dequantised, computed in float32, quantised again.

The two conversions are elementwise expressions, so that a chain of such operators is one loop. Sources: onnxruntime's contrib
operator documentation.
"""

from ort_lite.shapes import Dim
from ort_lite_cpu.elementwise.expression import storage_order
from ort_lite_cpu.op import Op
from ort_lite_cpu.operators.integer_conv import as_channels_last
from ort_lite_cpu.operators.pooling import emit_global, emit_pool
from ort_lite_cpu.operators.quantization import BYTES, dequantized, formula, parameter, quantized, zero_point
from ort_lite_cpu.operators.slices import emit_concat
from ort_lite_cpu.operators.softmax import by_rows, softmax
from ort_lite_cpu.registry import operator
from ort_lite_cpu.tensor import Tensor, channels_last


def _input(op: Op, index: int) -> Tensor:
    """The float32 values of the quantised input whose scale and zero point follow it, not computed yet."""
    return dequantized(op.raw(index), parameter(op, index + 1), zero_point(op, index + 2)).tensor()


def _finish(op: Op, y: Tensor, scale: int) -> None:
    """Output 0 is y quantised with the scale in input `scale` and the zero point that follows it."""
    quantized(y, parameter(op, scale), zero_point(op, scale + 1), op.raw(0).dtype).define(op)


@operator("QLinearAdd", "QLinearMul", domain="com.microsoft", types=BYTES)
def qlinear_binary(op: Op) -> None:
    """a, scale, zero point, b, scale, zero point, scale and zero point of the result. Spec: onnxruntime QLinearAdd-1."""
    a, b = _input(op, 0), _input(op, 3)
    scale, zero, dtype = parameter(op, 6), zero_point(op, 7), op.raw(0).dtype
    result = quantized(a, scale, zero, dtype)
    ...


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain="com.microsoft", types=BYTES)
def qlinear_unary(op: Op) -> None:
    """Spec: onnxruntime QLinearSigmoid-1, QLinearLeakyRelu-1."""
    x = _input(op, 0)
    if op.node.op_type == "QLinearSigmoid":
        y = formula("sigmoid({x})", x).tensor(cost=1.0)
    else:
        y = formula("select({x} >= like({x}, 0), {x}, {x} * {alpha})", x, alpha=float(op.attr("alpha", 0.01))).tensor()
    _finish(op, y, 3)
