"""Matrix products of 8-bit integers: MatMulInteger, QLinearMatMul and com.microsoft's forms of them.

The product is exact, in int32, and becomes a quantised or a float result while its sums are in registers (see `integer_product`).
"""

from ort_lite_cpu.kernels.narrow import NARROW_FLOATS
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.operators.integer_product import Rescale, emit_sums, multiply, quotient, rescale
from ort_lite_cpu.operators.matmul import emit_matmul
from ort_lite_cpu.operators.quantization import (
    BYTES,
    Parameter,
    dequantize,
    emit_dynamic,
    formula,
    parameter,
    quantize,
    requantize,
    zero_point,
)
from ort_lite_cpu.registry import operator


# --- Operators
@operator("MatMulInteger", since=10, types=BYTES)
def matmul_integer(op: NodeLowering) -> None:
    """Emit the exact product in int32. Spec: ONNX MatMulInteger-10."""
    op.set(0, emit_sums(op, multiply(op, op.input(0), op.optional(2), 1, 3)))


@operator("MatMulInteger16", domain="com.microsoft", types=frozenset({"int16"}))
def matmul_integer16(op: NodeLowering) -> None:
    """Emit the product of 16-bit integers in int32, which wraps. Spec: onnxruntime MatMulInteger16-1."""
    a, b = (op.cast(op.input(index), "int32") for index in (0, 1))
    emit_matmul(op, a, b, op.output(0))


@operator("QLinearMatMul", since=10, types=BYTES | NARROW_FLOATS.keys())
def qlinear_matmul(op: NodeLowering) -> None:
    """Emit MatMulInteger, and requantize its result; 8-bit floats are multiplied in float32. Spec: ONNX QLinearMatMul-21."""
    dtype = op.raw(7).dtype
    if not {op.raw(0).dtype, op.raw(3).dtype, dtype} <= BYTES:
        _float_qlinear_matmul(op)
        return
    factor = quotient(op, [_by_row(op, 1, 3), parameter(op, 4)], parameter(op, 6))
    rescale(op, multiply(op, op.input(0), op.optional(2), 3, 5), Rescale(dtype, factor, zero=zero_point(op, 7)))


def _float_qlinear_matmul(op: NodeLowering) -> None:
    """Emit QLinearMatMul if an operand or the result is an 8-bit float."""
    shape, dtype = op.info().shape, op.raw(7).dtype
    assert shape is not None
    away = [zero_point(op, 2, 1 if len(op.raw(2).shape) == 1 and len(op.raw(0).shape) > 1 else 0), zero_point(op, 5)]
    a, b = (op.store(dequantize(op.input(k), 1.0, zero).tensor()) for k, zero in zip((0, 3), away, strict=True))
    total = op.temporary("float32", shape)
    emit_matmul(op, a, b, total)
    factor = quotient(op, [_by_row(op, 1, 3), parameter(op, 4)], parameter(op, 6))
    if dtype in BYTES:
        requantize(total, factor, zero_point(op, 7), dtype).define(op)
    else:
        formula(f'f32_to_narrow({{x}} * {{factor}}, "{dtype}", True)', total, factor=factor).define(op)


@operator("QGemm", domain="com.microsoft", types=BYTES)
def q_gemm(op: NodeLowering) -> None:
    """y = alpha * a @ b + c, c with the scale of the product; y is float32 unless it has a scale. Spec: onnxruntime QGemm-1."""
    a = op.input(0)
    if op.attr("transA", 0):
        moved = op.temporary(a.dtype, a.shape[::-1])
        emit_permute(op, a, moved, a.shape, (1, 0))
        a = moved
    scales = [float(op.attr("alpha", 1.0)), parameter(op, 1), parameter(op, 4)]
    if op.has(5):
        op.agree(op.raw(4).shape, op.raw(5).shape, "scale and zero point of b differ in shape")
    if op.has(7) != op.has(8):
        raise op.reject("a scale of y without a zero point, or a zero point without a scale")
    factors = multiply(op, a, op.optional(2), 3, 5, transposed=bool(op.attr("transB", 0)), addend=6)
    if op.has(8):
        dtype, factor = op.raw(8).dtype, quotient(op, scales, parameter(op, 7))
        rescale(op, factors, Rescale(dtype, factor, zero=parameter(op, 8)))
    else:
        rescale(op, factors, Rescale("float32", quotient(op, scales)))


@operator("MatMulIntegerToFloat", domain="com.microsoft", types=BYTES)
def matmul_integer_to_float(op: NodeLowering) -> None:
    """y = (a - zero) @ (b - zero) * scales + bias, float32. Spec: onnxruntime MatMulIntegerToFloat-1."""
    factor = quotient(op, [_by_row(op, 2, 1), parameter(op, 3)])
    rescale(op, multiply(op, op.input(0), op.optional(4), 1, 5), Rescale("float32", factor, op.optional(6)))


@operator("DynamicQuantizeMatMul", domain="com.microsoft", types=frozenset({"float32"}))
def dynamic_quantize_matmul(op: NodeLowering) -> None:
    """Emit MatMulIntegerToFloat for an a that is quantised to uint8 by its extremes. Spec: onnxruntime DynamicQuantizeMatMul-1."""
    a = op.input(0)
    scale, zero = emit_dynamic(op, a)
    factors = multiply(op, op.store(quantize(op, a, scale, zero, "uint8").tensor("uint8")), zero, 1, 3)
    rescale(op, factors, Rescale("float32", quotient(op, [scale, parameter(op, 2)]), op.optional(4)))


# --- Scales
def _by_row(op: NodeLowering, index: int, right: int) -> Parameter:
    """Return input `index`, a scale of the left operand: one for all or one per row. There are no columns if `right` is a vector."""
    vector = len(op.raw(index).shape) == 1 and len(op.raw(0).shape) > 1
    return parameter(op, index, 1 if vector and len(op.raw(right).shape) > 1 else 0)
