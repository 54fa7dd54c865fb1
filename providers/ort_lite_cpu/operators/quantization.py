"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, and the formulas that all quantised operators share.

Both directions are elementwise expressions: what lies between one integer product and the next becomes a single loop.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import DType
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, arithmetic, fmax, fmin, imax, imin, like, native, rint, span
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, equal, product, same
from ort_lite_cpu.costs import BYTE, linear_work
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS, NARROW_INTEGERS
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.conversion import convert
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Expression, Tensor, bits, storage_order
from ort_lite_cpu.registry import operator
from ort_lite_cpu.types import NARROW_TYPES, NATIVE_TYPES

Parameter = Tensor | float
"""A scale or zero point: a number, or a tensor that broadcasts over what it belongs to."""

BYTES = frozenset({"int8", "uint8"})
QUANTIZED = BYTES | {"int16", "uint16"}
NARROW = frozenset({*NARROW_FLOATS, *NARROW_INTEGERS})
HALVES_AND_FLOAT = frozenset({"float16", "bfloat16", "float32"})
CHUNKS = 64
"""Pieces of which DynamicQuantizeLinear takes the extremes: their number does not depend on that of the threads."""


# --- Formulas
class Formula(Record):
    """Text over operands and scalars as `define` takes them; the first operand has the type that scalars are converted to."""

    text: str
    operands: tuple[Tensor, ...]
    scalars: tuple[float, ...]

    def define(self, op: NodeLowering, output: int = 0, cost: float = 0.05) -> None:
        """Define the node's output by the formula."""
        define(op, self.text, self.operands, self.scalars, cost, output)

    def tensor(self, dtype: DType = "float32", cost: float = 0.05) -> Tensor:
        """Return a pending tensor of the first operand's shape."""
        return Tensor(dtype, self.operands[0].shape, pending=Expression(self.text, self.operands, self.scalars, cost))


def formula(text: str, x: Tensor, **parameters: Parameter) -> Formula:
    """Return `text` over {x} and the names of the parameters."""
    operands: list[Tensor] = [x]
    scalars: list[float] = []
    places = {"x": "{0}"}
    for name, value in parameters.items():
        if isinstance(value, Tensor):
            places[name] = f"{{{len(operands)}}}"
            operands.append(value)
        else:
            places[name] = f"{{s{len(scalars)}}}"
            scalars.append(value)
    return Formula(text.format(**places), tuple(operands), tuple(scalars))


def as_float(x: Tensor) -> Tensor:
    """Return x as pending float32; 16-bit floats are widened where they are read."""
    if x.dtype in NARROW_TYPES:
        return convert(x, "float32")
    return x if x.dtype in HALVES_AND_FLOAT else formula('cast({x}, "f32")', x).tensor(cost=0.02)


def _as_float(x: Parameter) -> Parameter:
    return as_float(x) if isinstance(x, Tensor) else x


def dequantize(x: Tensor, scale: Parameter, zero: Parameter | None) -> Formula:
    """Return (x - zero) * scale."""
    scale = _as_float(scale)
    if zero is None or zero == 0.0:
        return formula("{x} * {scale}", as_float(x), scale=scale)
    return formula("({x} - {zero}) * {scale}", as_float(x), zero=_as_float(zero), scale=scale)


def quantize(
    op: NodeLowering, x: Tensor, scale: Parameter, zero: Parameter | None, dtype: DType, *, zero_first: bool = False
) -> Formula:
    """Return x / scale, rounded half to even, plus zero, saturated to `dtype`. Division by a number multiplies, rounded alike.

    zero_first: the sum with zero is rounded.
    """
    text, more = "{x} / {scale}", dict[str, Parameter]()
    if isinstance(scale, float) and op.target.has_fma and 2.0**-60 <= scale <= 2.0**60:
        inverse = float(np.float32(1 / scale))
        text, more = (
            "divide({x}, {scale}, {inverse}, {rest})",
            {"inverse": inverse, "rest": float(np.float32(1 / scale - inverse))},
        )
    if zero_first and zero is not None:
        text, more, zero = text + " + {offset}", {**more, "offset": _as_float(zero)}, None
    return _saturate(text, as_float(x), scale, zero, dtype, **more)


def quantize_narrow(x: Tensor, scale: Parameter, zero: Parameter | None, dtype: DType, saturate: bool) -> Formula:
    """Return the formula that quantizes x to a type narrower than a byte, or to an 8-bit float. `saturate`: as in Cast."""
    scale = _as_float(scale)
    if dtype in NARROW_FLOATS:
        return formula(f'f32_to_narrow({{x}} / {{scale}}, "{dtype}", {saturate})', as_float(x), scale=scale)
    away = 0.0 if zero is None else _as_float(zero)
    return formula(f'quantize_narrow({{x}} / {{scale}}, {{zero}}, "{dtype}")', as_float(x), scale=scale, zero=away)


def requantize(total: Tensor, factor: Parameter, zero: Parameter | None, dtype: DType) -> Formula:
    """Return an integer product times `factor`, the quotient of scales, in the quantised type of the result."""
    return _saturate("{x} * {scale}", as_float(total), factor, zero, dtype)


def _saturate(text: str, x: Tensor, scale: Parameter, zero: Parameter | None, dtype: DType, **more: Parameter) -> Formula:
    text = f'quantize({text}, {{zero}}, "{NATIVE_TYPES[dtype]}")'
    return formula(text, x, scale=_as_float(scale), zero=0.0 if zero is None else zero, **more)


def parameter(op: NodeLowering, index: int, trailing: int = 0) -> Parameter:
    """Return the scale or zero point in input `index`: a number if it is a constant one, else one a tensor or a vector.

    A vector runs along the axis that has `trailing` axes behind it.
    """
    constant = op.constant(index)
    if constant is not None:
        around = (*constant.shape, *(1,) * trailing)
        return float(constant.reshape(-1)[0]) if constant.size == 1 else op.array(constant.reshape(around))
    tensor = op.input(index)
    if all(same(dim, 1) for dim in tensor.shape):
        return op.view(tensor, ())
    return op.view(tensor, (*tensor.shape, *(1,) * trailing))


def zero_point(op: NodeLowering, index: int, trailing: int = 0) -> Parameter | None:
    """Return the node's zero point, or None if it has none."""
    return parameter(op, index, trailing) if op.has(index) else None


# --- Operators
@native
@extents(x="((outer - 1) * blocks + ceildiv(length, size)) * inner", y="outer * length * inner")
def repeat_blocks(x: Ptr, y: Ptr, outer: int, blocks: int, length: int, inner: int, size: int, part: int, parts: int) -> int:
    """y (outer, length, inner) = x (outer, blocks, inner), each entry of the middle axis `size` times, the last perhaps fewer.

    `_blocks` looks after `size`, which is 1 or more.
    """
    for row in span(outer * length, part, parts):
        source = (row // length * blocks + row % length // size) * inner
        for j in range(inner):
            y[row * inner + j] = x[source + j]
    return OK


def _parameters(op: NodeLowering) -> tuple[Parameter, Parameter | None]:
    """Return scale and zero point of QuantizeLinear and DequantizeLinear, per tensor, per axis or per block."""
    rank = len(op.raw(0).shape)
    axis, size = op.attr("axis", 1), op.attr("block_size", 0)
    scales = op.raw(1).size
    if size or (isinstance(scales, int) and scales != 1):
        axis = axis_of(op, axis, rank)  # that of one scale is never looked at: its default is beyond a vector
    elif not -rank <= axis < rank:
        op.require(equal(scales, 1), "axis {1} is out of range, and the scale has {0} elements", scales, axis)
    if size:
        scale = _blocks(op, 1, axis, size)
        return scale, _blocks(op, 2, axis, size) if op.has(2) else None
    if len(op.raw(1).shape) > 1:
        raise op.reject(f"a scale of rank {len(op.raw(1).shape)} without block_size")
    if op.has(2):
        sizes = op.raw(1).size, op.raw(2).size
        op.require(equal(*sizes), "the scale has {0} elements, the zero point {1}", *sizes)
    trailing = rank - axis % rank - 1 if rank else 0
    return parameter(op, 1, trailing), zero_point(op, 2, trailing)


def _blocks(op: NodeLowering, index: int, axis: int, size: int) -> Tensor:
    """Return an entry for each element from one for each block."""
    x, shape = op.input(index), op.raw(0).shape
    if size < 0:
        raise op.reject(f"block_size {size}")
    op.agree(x.shape, (*shape[:axis], ceildiv(shape[axis], size), *shape[axis + 1 :]), f"blocks of input {index}")
    y = op.temporary(x.dtype, shape)
    outer, inner, blocks = product(shape[:axis]), product(shape[axis + 1 :]), x.shape[axis]
    op.emit(repeat_blocks, [bits(x), bits(y)], outer=outer, blocks=blocks, length=shape[axis], inner=inner, size=size)
    return y


@operator("QuantizeLinear", since=10, types=HALVES_AND_FLOAT | {"int32"})
@operator("QuantizeLinear", domain="com.microsoft", types=HALVES_AND_FLOAT)
def quantize_linear(op: NodeLowering) -> None:
    """Emit QuantizeLinear, with float32 division for every `precision`. Spec: ONNX QuantizeLinear-25, onnxruntime QuantizeLinear-1."""
    dtype = op.info().dtype
    assert dtype is not None
    scale, zero = _parameters(op)
    if dtype in NARROW:
        quantize_narrow(op.raw(0), scale, zero, dtype, bool(op.attr("saturate", 1))).define(op, cost=0.3)
        return
    quantize(op, op.raw(0), scale, zero, dtype).define(op, cost=0.1)


@operator("DequantizeLinear", since=10, types=QUANTIZED | NARROW | {"int32"})
@operator("DequantizeLinear", domain="com.microsoft", types=QUANTIZED | NARROW | {"int32"})
def dequantize_linear(op: NodeLowering) -> None:
    """Emit DequantizeLinear. Spec: ONNX DequantizeLinear-25, onnxruntime DequantizeLinear-1."""
    scale, zero = _parameters(op)
    dequantize(op.raw(0), scale, zero).define(op)


@arithmetic("i32(f32)")
def _rank(x: Any) -> Any:
    """Return an integer that rises with x. That of a NaN is beyond those of all numbers, so it needs no comparisons of its own."""
    return x.bits() ^ ((x.bits() >> 31) & 0x7FFFFFFF)


@arithmetic("f32(i32)")
def _of_rank(rank: Any) -> Any:
    """Return the number of a rank."""
    return (rank ^ ((rank >> 31) & 0x7FFFFFFF)).from_bits()


@native
@extents(x="n", y="2 * chunks")
def extremes(x: Ptr, y: Ptr, n: int, chunks: int, part: int, parts: int) -> int:
    """y (chunks, 2) = the smallest and the largest element of each chunk of x, and 0; one of them is NaN if x has one."""
    for chunk in span(chunks, part, parts):
        low, high = _rank(like(x, 0)), _rank(like(x, 0))
        for i in range(n * chunk // chunks, n * (chunk + 1) // chunks):
            low = imin(low, _rank(x[i]))
            high = imax(high, _rank(x[i]))
        y[2 * chunk] = _of_rank(low)
        y[2 * chunk + 1] = _of_rank(high)
    return OK


@native
@extents(x="2 * max(chunks, 1)", scale="1", zero="1")
def dynamic_parameters(x: Ptr, scale: Ptr, zero: Ptr, chunks: int, part: int, parts: int) -> int:
    """scale, zero = the float scale and uint8 zero point that map the extremes of all chunks, x (chunks, 2), to 0 and 255."""
    low, high = x[0], x[1]
    for chunk in range(1, chunks):
        low = min(low, x[2 * chunk])
        high = max(high, x[2 * chunk + 1])
    scale[0] = like(x, 1) if low == high else (high - low) / like(x, 255)
    zero[0] = like(zero, rint(fmin(fmax(-low / scale[0], like(x, 0)), like(x, 255))))
    return OK


def emit_dynamic(op: NodeLowering, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return scale and zero point for the elements of x, which is in memory, in any order."""
    partial = op.temporary("float32", (CHUNKS, 2))
    scale, zero = op.temporary("float32", ()), op.temporary("uint8", ())
    op.emit(extremes, [x, partial], n=x.size, chunks=CHUNKS, work=linear_work(x.size * 4, BYTE))
    op.emit(dynamic_parameters, [partial, scale, zero], chunks=CHUNKS, work=CHUNKS, slices=SERIAL)
    return scale, zero


@operator("DynamicQuantizeLinear", since=11, types=frozenset({"float32"}))
def dynamic_quantize_linear(op: NodeLowering) -> None:
    """Emit DynamicQuantizeLinear. A constant 0 has the scale 1, as in onnxruntime. Spec: ONNX DynamicQuantizeLinear-11."""
    raw = op.raw(0)
    x = op.store(raw, storage_order(raw))
    scale, zero = emit_dynamic(op, x)
    op.set(1, scale)
    op.set(2, zero)
    if op.wants(0):
        quantize(op, x, scale, zero, "uint8").define(op, cost=0.1)
