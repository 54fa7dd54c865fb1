"""Matrix products of 8-bit integers: MatMulInteger, QLinearMatMul and com.microsoft's forms of them.

The product is exact, in int32. An elementwise expression converts it to a quantised or a float result.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes import ceildiv, equal, product, same, select
from ort_lite.shapes.broadcast import broadcast
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import byte_dots, integer
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS
from ort_lite_cpu.lowering.broadcast import broadcast_step, require_broadcast
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_permute, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Expression, Tensor, bits
from ort_lite_cpu.operators.matmul import emit_matmul
from ort_lite_cpu.operators.quantization import (
    BYTES,
    Formula,
    Parameter,
    as_float,
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
    op.set(0, integer_product(op, op.input(0), op.optional(2), 1, 3))


@operator("QLinearMatMul", since=10, types=BYTES | NARROW_FLOATS.keys())
def qlinear_matmul(op: NodeLowering) -> None:
    """Emit MatMulInteger, and requantize its result; 8-bit floats are multiplied in float32. Spec: ONNX QLinearMatMul-21."""
    if not {op.raw(0).dtype, op.raw(3).dtype, op.raw(7).dtype} <= BYTES:
        _float_qlinear_matmul(op)
        return
    total = integer_product(op, op.input(0), op.optional(2), 3, 5)
    factor = quotient(op, [_by_row(op, 1, 3), parameter(op, 4)], parameter(op, 6))
    requantize(total, factor, zero_point(op, 7), op.raw(7).dtype).define(op)


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
    total = integer_product(op, a, op.optional(2), 3, 5, bool(op.attr("transB", 0)))
    if op.has(6):
        total = formula("wadd({x}, {c})", total, c=op.input(6)).tensor("int32")
    scales = [float(op.attr("alpha", 1.0)), parameter(op, 1), parameter(op, 4)]
    for index in (4, 5):
        if op.has(index) and len(op.raw(index).shape) > 1:
            raise op.reject(f"input {index} of rank {len(op.raw(index).shape)}; it should be one number, or one a column")
    if op.has(5):
        op.agree(op.raw(4).shape, op.raw(5).shape, "scale and zero point of b differ in shape")
    if op.has(7) != op.has(8):
        raise op.reject("a scale of y without a zero point, or a zero point without a scale")
    if op.has(8):
        factor = quotient(op, scales, parameter(op, 7))
        requantize(total, factor, parameter(op, 8), op.raw(8).dtype).define(op)
    else:
        formula("{x} * {factor}", as_float(total), factor=quotient(op, scales)).define(op)


@operator("MatMulIntegerToFloat", domain="com.microsoft", types=BYTES)
def matmul_integer_to_float(op: NodeLowering) -> None:
    """y = (a - zero) @ (b - zero) * scales + bias, float32. Spec: onnxruntime MatMulIntegerToFloat-1."""
    total = integer_product(op, op.input(0), op.optional(4), 1, 5)
    _scale(op, total, quotient(op, [_by_row(op, 2, 1), parameter(op, 3)]), 6).define(op)


@operator("DynamicQuantizeMatMul", domain="com.microsoft", types=frozenset({"float32"}))
def dynamic_quantize_matmul(op: NodeLowering) -> None:
    """Emit MatMulIntegerToFloat for an a that is quantised to uint8 by its extremes. Spec: onnxruntime DynamicQuantizeMatMul-1."""
    a = op.input(0)
    scale, zero = emit_dynamic(op, a)
    total = integer_product(op, op.store(quantize(op, a, scale, zero, "uint8").tensor("uint8")), zero, 1, 3)
    _scale(op, total, quotient(op, [scale, parameter(op, 2)]), 4).define(op)


def _scale(op: NodeLowering, total: Tensor, factor: Parameter, bias: int) -> Formula:
    """Return total * factor + input `bias`, if there is one, as float32."""
    if op.has(bias):
        return formula("fma({x}, {factor}, {bias})", as_float(total), factor=factor, bias=as_float(op.input(bias)))
    return formula("{x} * {factor}", as_float(total), factor=factor)


# --- Scales
def _by_row(op: NodeLowering, index: int, right: int) -> Parameter:
    """Return input `index`, a scale of the left operand: one for all or one per row. There are no columns if `right` is a vector."""
    vector = len(op.raw(index).shape) == 1 and len(op.raw(0).shape) > 1
    return parameter(op, index, 1 if vector and len(op.raw(right).shape) > 1 else 0)


def quotient(op: NodeLowering, above: Sequence[Parameter], below: Parameter = 1.0) -> Parameter:
    """Return the product of `above` over `below` in float32, computed at once if all are constant."""
    values = [*above, below]
    known = (value.constant if isinstance(value, Tensor) else np.array(value, np.float32) for value in values)
    arrays = [array for array in known if array is not None]
    if len(arrays) == len(values):
        result = arrays[0]
        for array in arrays[1:-1]:
            result = result * array
        result = result / arrays[-1]
        return float(result.reshape(-1)[0]) if result.size == 1 else op.array(result)
    tensors = [value for value in values if isinstance(value, Tensor)]
    texts = [f"{{{tensors.index(v)}}}" if isinstance(v, Tensor) else f"{{s{k}}}" for k, v in enumerate(values)]
    scalars = tuple(value if isinstance(value, float) else 1.0 for value in values)
    text = f"({' * '.join(texts[:-1])}) / {texts[-1]}"
    shape: Shape = ()
    for tensor in tensors:
        shape = broadcast(shape, tensor.shape)
    return op.store(Tensor("float32", shape, pending=Expression(text, tuple(tensors), scalars)))


# --- The product
def integer_product(
    op: NodeLowering, a: Tensor, zero: Tensor | None, b: int, b_zero: int, transposed: bool = False, shape: Shape | None = None
) -> Tensor:
    """Return (a - zero) @ (input b - input b_zero), int32, of `shape` (default: that of output 0). If transposed, input b is (n, k).

    All four are bytes, and a zero point has the type of its operand, as the operators' schemas require.
    """
    shape_a = a.shape if len(a.shape) > 1 else (1, *a.shape)
    shape_b = op.raw(b).shape if len(op.raw(b).shape) > 1 else (*op.raw(b).shape, 1)
    k, n = shape_b[-2:][::-1] if transposed else shape_b[-2:]
    if op.has(b_zero):
        _check_columns(op, op.raw(b_zero).shape, shape_b, n)
    m, batch = shape_a[-2], broadcast(shape_a[:-2], shape_b[:-2])
    count, a_step, b_step = product(batch), m * k, 1
    if all(same(dim, 1) for dim in shape_b[:-2]):
        count, m = 1, m * count
    elif all(same(dim, 1) for dim in shape_a[:-2]):
        a_step = 0
    else:
        a = expand(op, a, shape_a, (*batch, *shape_a[-2:]))
    if zero is not None and not all(same(dim, 1) for dim in zero.shape):
        own = (*zero.shape, 1) if len(zero.shape) == 1 else zero.shape
        if len(own) > len(batch) + 2:
            raise op.reject(f"a zero point of rank {len(zero.shape)}")
        zero = expand(op, zero, own, (*batch, shape_a[-2], 1))
    w = _pack_operand(op, b, b_zero, shape_b, (*batch, *shape_b[-2:]), transposed)
    out = shape or op.info().shape
    assert out is not None
    total = op.temporary("int32", out)
    emit_product(op, a, zero, w, total, Matrices(count, m, n, k, a_step, b_step))
    return total


def _check_columns(op: NodeLowering, zeros: Shape, b: Shape, n: Dim) -> None:
    """Require one zero point for all of b, or one for each of its n columns, per matrix or for all."""
    rank = len(zeros)
    if rank > max(len(b), 1):
        raise op.reject(f"zero points of rank {rank} for a matrix of rank {len(b)}")
    if rank > 0:
        one = equal(zeros[-1], 1)
        op.require(select(one, 1, equal(zeros[-1], n)), "{0} zero points for {1} columns", zeros[-1], n)
    if rank > 1:
        op.require(equal(zeros[-2], 1), "zero points for {0} rows of the right matrix, expected 1", zeros[-2])


class Packed(NamedTuple):
    """A right operand as the kernels read it."""

    panels: Tensor
    """Quads if there are `sums`, else pairs."""
    zeros: Tensor | None = None
    """The zero points, int32, one per column, unless they are subtracted already."""
    sums: Tensor | None = None
    """The sums of the columns, int32."""


class Matrices(NamedTuple):
    """The number of (m, k) by (k, n) products, and the steps from one to the next: a's in elements, b's in packed matrices."""

    batch: Dim
    m: Dim
    n: Dim
    k: Dim
    a_step: Dim = 0
    b_step: Dim = 0


def emit_product(op: NodeLowering, a: Tensor, zero: Tensor | None, b: Packed, total: Tensor, sizes: Matrices) -> None:
    """total = (a - zero) @ b."""
    zero_row = 0 if zero is None or all(same(dim, 1) for dim in zero.shape) else 1
    left, work = [bits(a), None if zero is None else bits(zero), b.panels], sizes.batch * sizes.m * sizes.n * sizes.k
    tile, dots = integer.integer_tile(op.target), None if b.sums is None else byte_dots.dot_tile(op.target)
    k, rows = (sizes.k, tile.rows) if dots is None else (4 * ceildiv(sizes.k, 4), dots.rows)
    size = integer.scratch_size(sizes.m, k, rows)
    given: Any = (*sizes, zero_row, integer.FLIPS[a.dtype], size)
    g = integer.Products(*given)
    scratch = op.temporary("int16" if dots is None else "uint8", (op.options.threads, size))
    if dots is None:
        types = ["u8", "u8", b.panels.native, "i32", "i32", "i16"]
        operands = [*left, b.zeros, total, scratch]
        op.emit(integer.integer_gemm, operands, g=g, **tile.statics, types=types, work=work // 60)
        return
    types = ["u8", "u8", "i8", "i32", "i32", "i32", "u8"]
    work = work // 250 + sizes.batch * sizes.n * sizes.k // 40
    op.emit(byte_dots.dot_gemm, [*left, b.sums, b.zeros, total, scratch], g=g, tile=dots, types=types, work=work)


def pack_constant(op: NodeLowering, b: Array, zero: Array, source: Array, form: str) -> Packed:
    """Return b (..., k, n) less its zero points, which broadcast over it, packed once for `source` and `form`.

    Bytes take half the memory, and with few rows of a most of the time is spent reading weights. So if the differences do not fit
    bytes, b is packed as it is, and its zero points are subtracted from the product.
    """
    dots = byte_dots.dot_tile(op.target)
    width = (dots or integer.integer_tile(op.target)).columns
    form = f"{'quads' if dots else 'pairs'} {width} {form} {zero.tobytes()!r}"
    centred = _center(b, zero)
    fits = centred.dtype == np.int8 or centred.size == 0 or bool(centred.min() >= -128 and centred.max() <= 127)
    if dots is None and (fits or b.ndim > 2):
        return Packed(op.pack(source, form, lambda: integer.pairs(centred, width)))
    middle = 128 if b.dtype == np.uint8 else 0
    zeros = np.broadcast_to(zero.astype(np.int32) - middle, (*b.shape[:-2], 1, b.shape[-1])).squeeze(-2)
    whole = centred if fits else _center(b, np.array(middle))
    if dots is None:
        panels = op.pack(source, f"{form} bytes", lambda: integer.pairs(whole, width))
        return Packed(panels, op.pack(source, f"{form} zeros", lambda: zeros))
    panels = op.pack(source, form, lambda: byte_dots.quads(whole, width))
    sums = op.pack(source, f"{form} sums", lambda: byte_dots.per_column(whole.sum(-2, dtype=np.int32), width))
    return Packed(panels, None if fits else op.pack(source, f"{form} zeros", lambda: byte_dots.per_column(zeros, width)), sums)


def _center(b: Array, zero: Array) -> Array:
    """Return b less its zero points, as int8 if all zero points are in the middle, else as int16."""
    if b.dtype == np.int8:
        return b.astype(np.int16) - zero.astype(np.int16) if zero.any() else b
    turned: Array = b ^ np.uint8(128) if np.all(zero == 128) else b
    return b.astype(np.int16) - zero.astype(np.int16) if turned is b else turned.view(np.int8)


def _pack_operand(op: NodeLowering, index: int, zero_index: int, own: Shape, full: Shape, transposed: bool) -> Packed:
    """Return the right operand, packed, with all batch dimensions of the product unless it has none."""
    if all(same(dim, 1) for dim in own[:-2]):
        full = own
    constant, zero = op.constant(index), op.constant(zero_index)
    known = [dim for dim in full if isinstance(dim, int)]
    if constant is not None and (zero is not None or not op.has(zero_index)) and len(known) == len(full):
        b = constant[:, None] if constant.ndim == 1 else constant
        b = b.swapaxes(-1, -2) if transposed else b
        away = np.zeros((), np.int8) if zero is None else zero
        if all(dim == 1 for dim in known[:-2]):
            b, away = b.reshape(b.shape[-2:]), away.reshape(away.shape[-2:])
        else:
            b = np.broadcast_to(b, (*known[:-2], *b.shape[-2:]))
        return pack_constant(op, b, away, constant, f"{transposed} {known}")
    return _pack_operand_later(op, index, zero_index, own, full, transposed)


def _pack_operand_later(op: NodeLowering, index: int, zero_index: int, own: Shape, full: Shape, transposed: bool) -> Packed:
    """Return the right operand, packed at run time."""
    b = expand(op, op.input(index), own, full)
    k, n = full[-2:][::-1] if transposed else full[-2:]
    batch, zeros = product(full[:-2]), op.optional(zero_index)
    steps: tuple[Dim, Dim] = (0, 0)
    if zeros is not None and not all(same(dim, 1) for dim in zeros.shape):
        steps = (0, select(equal(zeros.shape[-1], 1), 0, 1))
        require_broadcast(op, zeros.shape[-1:], (n,))
        if len(zeros.shape) > 1:
            zeros, steps = expand(op, zeros, zeros.shape, (*full[:-2], 1, n)), (n, 1)
    inner_step, column = (1, k) if transposed else (n, 1)
    dims: dict[str, Any] = {"batch": batch, "k": k, "n": n, "inner": k, "zero_batch": steps[0], "zero_column": steps[1]}
    strides: dict[str, Any] = {"step": k * n, "inner_step": inner_step, "outer_step": 0, "column": column}
    g = integer.Unpacked(**dims, **strides, flip=integer.FLIPS[b.dtype])
    return pack_later(op, b, zeros, op.constant(zero_index), g)


def pack_later(op: NodeLowering, b: Tensor, zeros: Tensor | None, known: Array | None, g: integer.Unpacked) -> Packed:
    """Emit the packing of b, laid out as `g`, at run time. `known`: the zero points if they are constant."""
    dots = byte_dots.dot_tile(op.target)
    operands = [bits(b), None if zeros is None else bits(zeros)]
    if dots is None:
        width = integer.integer_tile(op.target).columns
        out = op.temporary("int16", (g.batch, ceildiv(g.n, width), ceildiv(g.k, 2), width, 2))
        op.emit(integer.pack_pairs, [*operands, out], g=g, width=width, work=out.size)
        return Packed(out)
    width = dots.columns
    out = op.temporary("int8", (g.batch, ceildiv(g.n, width), ceildiv(g.k, 4), width, 4))
    sums = op.temporary("int32", (g.batch, ceildiv(g.n, width), width))
    at_middle = g.flip == 128 if zeros is None else known is not None and not np.any(known != 128 - g.flip)
    away = None if at_middle else op.temporary("int32", sums.shape)
    types = ["u8", "u8", "i8", "i32", "i32"]
    op.emit(byte_dots.pack_quads, [*operands, out, sums, away], g=g, tile=dots, types=types, work=out.size // 4)
    return Packed(out, away, sums)


def expand(op: NodeLowering, x: Tensor, shape: Shape, wanted: Shape) -> Tensor:
    """Return x, read as of `shape`, broadcast to `wanted`, or x itself if that changes nothing."""
    padded = (*(1,) * (len(wanted) - len(shape)), *shape)
    if all(same(a, b) for a, b in zip(padded, wanted, strict=True)):
        return x
    steps = [broadcast_step(dim, full, step) for step, dim, full in zip(contiguous(padded), padded, wanted, strict=True)]
    require_broadcast(op, padded, wanted)
    made = op.temporary(x.dtype, wanted)
    emit_strided_copy(op, x, made, wanted, steps, contiguous(wanted))
    return made
