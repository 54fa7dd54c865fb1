"""QAttention of com.microsoft: Attention whose projections are a product of 8-bit integers."""

from ort_lite.shapes import floordiv
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.integer_product import Rescale, multiply, quotient, rescale_tensor
from ort_lite_cpu.operators.microsoft.attention import attend
from ort_lite_cpu.operators.quantization import parameter
from ort_lite_cpu.registry import operator


@operator("QAttention", domain="com.microsoft", types=frozenset({"float32"}), typed_by=3)
def q_attention(op: NodeLowering) -> None:
    """x (B, S, I) and weights (I, 3 H) in 8 bits; from the projections on as Attention. Spec: onnxruntime QAttention-1."""
    x, hidden = op.input(0), op.raw(1).shape[1]
    factors = multiply(op, x, op.optional(6), 1, 7, shape=(*x.shape[:-1], hidden))
    factor = quotient(op, [parameter(op, 3), parameter(op, 4)])
    projected = rescale_tensor(op, factors, Rescale("float32", factor, op.input(2)))
    attend(op, projected, (floordiv(hidden, 3),) * 3, past=8, mask=5, bias=None)
