"""Lowering of products of bytes: their operands, packed right operands, and what becomes of the sums.

Where an instruction multiplies bytes, the last step of a product is in its kernel: float32 or bytes leave it. Elsewhere, and for zero
points of rows or columns, the sums are in memory first, and an elementwise expression of them is the result.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array, DType
from ort_lite.memory.recipes import derive
from ort_lite.shapes import ceildiv, equal, product, same, select
from ort_lite.shapes.broadcast import broadcast
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm import byte_dots, byte_tile, integer
from ort_lite_cpu.kernels.gemm.byte_tile import DotTile
from ort_lite_cpu.kernels.gemm.integer_epilogue import BIASED_FLOATS, FORMS, SUMS, Rescaling
from ort_lite_cpu.lowering.broadcast import require_broadcast
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Expression, Tensor, bits
from ort_lite_cpu.operators.byte_candidates import byte_product, choose_tile
from ort_lite_cpu.operators.matrices import note_restorable
from ort_lite_cpu.operators.quantization import BYTES, Formula, Parameter, as_float, formula, requantize
from ort_lite_cpu.operators.reshape import broadcast_to


# --- Operands
class Packed(NamedTuple):
    """A right operand as the kernels read it."""

    panels: Tensor
    """Quads if there are `terms`, else pairs."""
    zeros: Tensor | None = None
    """The zero points of pairs, int32, one per column, unless they are subtracted already."""
    terms: Tensor | None = None
    """The terms of the columns, see `byte_tile`."""
    zero_columns: bool = False
    """True if the zero points among the terms are not subtracted yet."""
    addends: bool = False
    """True if the addends of the sums are among the terms."""
    tile: DotTile | None = None
    """The tile that multiplies quads."""


class Matrices(NamedTuple):
    """The number of (m, k) by (k, n) products, and the steps from one to the next: a's in elements, b's in packed matrices."""

    batch: Dim
    m: Dim
    n: Dim
    k: Dim
    a_step: Dim = 0
    b_step: Dim = 0


class ByteOperands(NamedTuple):
    """The operands of products of bytes, (a - zero) @ b, the addend of the sums, and the shape of the result."""

    a: Tensor
    zero: Tensor | None
    b: Packed
    sizes: Matrices
    shape: Shape
    addend: Tensor | None = None

    @property
    def zero_row(self) -> bool:
        """True if there is a zero point for each row of a."""
        return self.zero is not None and not all(same(dim, 1) for dim in self.zero.shape)


def multiply(
    op: NodeLowering,
    a: Tensor,
    zero: Tensor | None,
    b: int,
    b_zero: int,
    *,
    transposed: bool = False,
    addend: int | None = None,
    shape: Shape | None = None,
) -> ByteOperands:
    """Return the factors of (a - zero) @ (input b - input b_zero) + input `addend`. If transposed, input b is (n, k).

    All four are bytes, and a zero point has the type of its operand, as the operators' schemas require. `shape`: that of the result
    (default: output 0's).
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
        a = broadcast_to(op, a, shape_a, (*batch, *shape_a[-2:]))
    if zero is not None and not all(same(dim, 1) for dim in zero.shape):
        own = (*zero.shape, 1) if len(zero.shape) == 1 else zero.shape
        if len(own) > len(batch) + 2:
            raise op.reject(f"a zero point of rank {len(zero.shape)}")
        zero = broadcast_to(op, zero, own, (*batch, shape_a[-2], 1))
    added = None if addend is None else op.constant(addend)
    own_addends = added.reshape(-1) if added is not None and added.size == n else None
    tile = choose_tile(byte_product(op, a.dtype, count * m, n, k))
    w = _pack_operand(op, b, b_zero, (shape_b, (*batch, *shape_b[-2:])), transposed, own_addends, tile)
    out = shape or op.info().shape
    assert out is not None
    rest = None if addend is None or w.addends else op.optional(addend)
    return ByteOperands(a, zero, w, Matrices(count, m, n, k, a_step, b_step), out, rest)


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


# --- The product
class LastStep(NamedTuple):
    """The last step of a product as kernels take it, with its factors and bias in memory."""

    rescaling: Rescaling
    factors: Tensor | None = None
    bias: Tensor | None = None


PLAIN = LastStep(Rescaling(SUMS, 0, 0.0))
"""No last step: the sums themselves."""


class Rescale(NamedTuple):
    """The last step of a product: sums * factor + bias as floats, or sums * factor + zero as bytes."""

    dtype: DType
    factor: Parameter
    bias: Tensor | None = None
    zero: Parameter | None = None

    def formula(self, total: Tensor) -> Formula:
        """Return the step as a formula over sums in memory."""
        if self.dtype in BYTES:
            return requantize(total, self.factor, self.zero, self.dtype)
        if self.bias is not None:
            return formula("{x} * {factor} + {bias}", as_float(total), factor=self.factor, bias=as_float(self.bias))
        return formula("{x} * {factor}", as_float(total), factor=self.factor)

    def rescaling(self, op: NodeLowering, n: Dim) -> LastStep | None:
        """Return the step for n columns as kernels take it; None if they have no such step."""
        factor, bias, zero = self.factor, self.bias, 0.0 if self.zero is None else self.zero
        if isinstance(factor, float):
            factor = op.array(np.array([factor], np.float32))
        single = all(same(dim, 1) for dim in factor.shape)
        if not isinstance(zero, float) or not (single or _along(factor, n)) or factor.dtype != "float32":
            return None
        if bias is not None and not (_along(bias, n) and bias.dtype == "float32"):
            return None
        form = BIASED_FLOATS if bias is not None else FORMS[self.dtype]
        return LastStep(Rescaling(form, 0 if single else 1, zero), op.store(factor), None if bias is None else op.store(bias))


def _along(x: Tensor, n: Dim) -> bool:
    """Return True if x is one number for each of n columns."""
    return bool(x.shape) and same(x.shape[-1], n) and all(same(dim, 1) for dim in x.shape[:-1])


def rescale(op: NodeLowering, factors: ByteOperands, step: Rescale) -> None:
    """Define output 0 as the product and a last step: in one kernel, or as an expression over the sums."""
    fused = step_of(op, factors, step) if op.info().dtype == step.dtype else None
    if fused is None:
        step.formula(emit_sums(op, factors)).define(op)
    else:
        emit_product(op, factors, op.output(0), fused)


def rescale_tensor(op: NodeLowering, factors: ByteOperands, step: Rescale) -> Tensor:
    """Return the product and a last step as a tensor in memory."""
    fused = step_of(op, factors, step)
    if fused is None:
        return op.store(step.formula(emit_sums(op, factors)).tensor(step.dtype))
    y = op.temporary(step.dtype, factors.shape)
    emit_product(op, factors, y, fused)
    return y


def step_of(op: NodeLowering, factors: ByteOperands, step: Rescale) -> LastStep | None:
    """Return the step as a kernel takes it, or None if no kernel does both."""
    apart = factors.b.zero_columns or factors.zero_row or factors.addend is not None
    return None if factors.b.terms is None or apart else step.rescaling(op, factors.sizes.n)


def emit_sums(op: NodeLowering, factors: ByteOperands) -> Tensor:
    """Emit the product, and return its sums, int32."""
    total = op.temporary("int32", factors.shape)
    emit_product(op, factors, total)
    return total if factors.addend is None else formula("wadd({x}, {c})", total, c=factors.addend).tensor("int32")


def emit_product(op: NodeLowering, factors: ByteOperands, y: Tensor, step: LastStep = PLAIN) -> None:
    """y = step((a - zero) @ b). Only quads have a last step."""
    a, zero, b, sizes = factors.a, factors.zero, factors.b, factors.sizes
    work = sizes.batch * sizes.m * sizes.n * sizes.k
    given: Any = (*sizes, int(factors.zero_row), int(b.zero_columns), integer.FLIPS[a.dtype])
    tile = b.tile
    if tile is None or b.terms is None:
        pairs, left = integer.integer_tile(op.target), [bits(a), None if zero is None else bits(zero), b.panels]
        size = integer.scratch_size(sizes.m, 2 * ceildiv(sizes.k, 2), pairs.rows)
        operands = [*left, b.zeros, y, op.temporary("int16", (op.most_parts, size))]
        types = ["u8", "u8", b.panels.native, "i32", "i32", "i16"]
        op.emit(
            integer.integer_gemm, operands, g=integer.Products(*(*given, size)), **pairs.statics, types=types, work=work // 60
        )
        return
    size = byte_tile.scratch_bytes(sizes.m, sizes.k, tile)
    starts = emit_starts(op, b.terms, None if factors.zero_row else zero, a.dtype, tile.middle)
    operands = [bits(a), b.panels, starts, step.factors, step.bias, y, op.temporary("uint8", (op.most_parts, size))]
    types, g = ["u8", "i8", "i32", "f32", "f32", y.native, "u8"], integer.Products(*(*given, size))
    work = work // (1000 if tile.amx else 250) + sizes.batch * sizes.n * sizes.k // 40
    op.emit(byte_dots.dot_gemm, operands, g=g, out=step.rescaling, tile=tile, types=types, work=work)
    if factors.zero_row or b.zero_columns:
        operands = [bits(a), None if zero is None else bits(zero), b.terms, y]
        work = sizes.batch * sizes.m * (sizes.n + sizes.k) // 8
        line, types = b.terms.shape[-1], ["u8", "u8", "i32", "i32"]
        op.emit(byte_dots.subtract_zeros, operands, g=g, line=line, types=types, work=work)


def emit_starts(op: NodeLowering, terms: Tensor, zero: Tensor | None, left: DType, middle: int) -> Tensor:
    """Return the sums from which columns start, (2, ..., n): addends - zero * sums of terms (..., TERMS, n), and their zero points.

    `left` is the type of the left operand, to which `zero`, one for all, belongs; `middle` that of the tile. Constants are computed
    while lowering.
    """
    known, flip = None if zero is None else zero.constant, integer.FLIPS[left]
    if terms.constant is not None and (zero is None or known is not None):
        point = (0 if known is None else int(known.reshape(-1)[0])) + flip - middle
        found = terms.constant
        starts = found[..., 1, :] - np.int32(point) * found[..., 0, :]
        return op.array(np.stack([starts, found[..., 2, :]]))
    *batch, _, line = terms.shape
    made = op.temporary("int32", (2, *batch, line))
    count = product(batch)
    given: dict[str, Any] = {"batch": count, "line": line, "flip": flip, "middle": middle, "work": count * line // 4}
    operands = [terms, None if zero is None else bits(zero), made]
    op.emit(byte_dots.column_starts, operands, **given, types=["i32", "u8", "i32"])
    return made


# --- Packing
def pack_constant(
    op: NodeLowering, b: Array, zero: Array, source: Array, form: str, tile: DotTile | None, addends: Array | None = None
) -> Packed:
    """Return b (..., k, n) less its zero points, which broadcast over it, packed once for `source` and `form`.

    Bytes take half the memory, and with few rows of a most of the time is spent reading weights. So if the differences do not fit
    bytes, b is packed as it is, and its zero points are subtracted from the product. addends (..., n) go with the terms of its columns.
    """
    width = (tile or integer.integer_tile(op.target)).columns
    form = f"{f'quads {tile.quads}' if tile else 'pairs'} {width} {form} {zero.tobytes()!r}"
    centred = derive(_center, b, zero)
    fits = centred.dtype == np.int8 or centred.size == 0 or bool(centred.min() >= -128 and centred.max() <= 127)
    if tile is None and (fits or b.ndim > 2):
        return Packed(_note_bytes(op, source, b, zero, op.pack(source, form, lambda: integer.pairs(centred, width))))
    middle = 128 if b.dtype == np.uint8 else 0
    zeros = np.broadcast_to(zero.astype(np.int32) - middle, (*b.shape[:-2], 1, b.shape[-1])).squeeze(-2)
    whole = centred if fits else derive(_center, b, np.array(middle))
    if tile is None:
        panels = op.pack(source, f"{form} bytes", lambda: integer.pairs(whole, width))
        _note_bytes(op, source, b, np.array(middle), panels)
        return Packed(panels, op.pack(source, f"{form} zeros", zeros.copy))
    panels = op.pack(source, form, lambda: byte_tile.quads(whole, tile))
    _note_bytes(op, source, b, zero if fits else np.array(middle), panels)
    key = f"{form} terms {None if addends is None else addends.tobytes()!r}"
    terms = op.pack(
        source, key, lambda: byte_tile.column_terms(whole.sum(-2, dtype=np.int32), tile, addends, None if fits else zeros)
    )
    return Packed(panels, None, terms, not fits, addends is not None, tile)


def _note_bytes(op: NodeLowering, source: Array, b: Array, less: Array, panels: Tensor) -> Tensor:
    """Note that a matrix can be restored from its panels, which hold it less `less`. Return the panels."""
    packed = panels.constant
    if b.ndim == 2 and packed is not None:
        note_restorable(op, source, b, partial(_restore_bytes, packed, b.shape, less, b.dtype))
    return panels


def _restore_bytes(packed: Array, shape: tuple[int, int], less: Array, dtype: np.dtype[Any]) -> Array:
    return (integer.apart(packed, *shape).astype(np.int16) + less.astype(np.int16)).astype(dtype)


def _center(b: Array, zero: Array) -> Array:
    """Return b less its zero points, as int8 if all zero points are in the middle, else as int16."""
    if b.dtype == np.int8:
        return b.astype(np.int16) - zero.astype(np.int16) if zero.any() else b
    turned: Array = b ^ np.uint8(128) if np.all(zero == 128) else b
    return b.astype(np.int16) - zero.astype(np.int16) if turned is b else turned.view(np.int8)


def _pack_operand(
    op: NodeLowering,
    index: int,
    zero_index: int,
    shapes: tuple[Shape, Shape],
    transposed: bool,
    addends: Array | None,
    tile: DotTile | None,
) -> Packed:
    """Return the right operand, packed.

    shapes: its own, and that with all batch dimensions of the product, which it gets unless it has none.
    """
    own, full = shapes
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
            b, addends = np.broadcast_to(b, (*known[:-2], *b.shape[-2:])), None
        return pack_constant(op, b, away, constant, f"{transposed} {known}", tile, addends)
    return _pack_operand_later(op, index, zero_index, (own, full), transposed, tile)


def _pack_operand_later(
    op: NodeLowering, index: int, zero_index: int, shapes: tuple[Shape, Shape], transposed: bool, tile: DotTile | None
) -> Packed:
    """Return the right operand, packed at run time."""
    own, full = shapes
    b = broadcast_to(op, op.input(index), own, full)
    k, n = full[-2:][::-1] if transposed else full[-2:]
    batch, zeros = product(full[:-2]), op.optional(zero_index)
    steps: tuple[Dim, Dim] = (0, 0)
    if zeros is not None and not all(same(dim, 1) for dim in zeros.shape):
        steps = (0, select(equal(zeros.shape[-1], 1), 0, 1))
        require_broadcast(op, zeros.shape[-1:], (n,))
        if len(zeros.shape) > 1:
            zeros, steps = broadcast_to(op, zeros, zeros.shape, (*full[:-2], 1, n)), (n, 1)
    inner_step, column = (1, k) if transposed else (n, 1)
    dims: dict[str, Any] = {"batch": batch, "k": k, "n": n, "inner": k, "zero_batch": steps[0], "zero_column": steps[1]}
    strides: dict[str, Any] = {"step": k * n, "inner_step": inner_step, "outer_step": 0, "column": column}
    g = integer.Unpacked(**dims, **strides, flip=integer.FLIPS[b.dtype])
    return pack_later(op, b, zeros, op.constant(zero_index), g, tile)


def pack_later(
    op: NodeLowering, b: Tensor, zeros: Tensor | None, known: Array | None, g: integer.Unpacked, tile: DotTile | None
) -> Packed:
    """Emit the packing of b, laid out as `g`, at run time. `known`: the zero points if they are constant."""
    operands = [bits(b), None if zeros is None else bits(zeros)]
    if tile is None:
        width = integer.integer_tile(op.target).columns
        out = op.temporary("int16", (g.batch, ceildiv(g.n, width), ceildiv(g.k, 2), width, 2))
        op.emit(integer.pack_pairs, [*operands, out], g=g, width=width, work=out.size)
        return Packed(out)
    across = ceildiv(g.n, tile.columns)
    out = op.temporary("int8", (g.batch, across, tile.depth(g.k), tile.columns, 4))
    terms = op.temporary("int32", (g.batch, byte_tile.TERMS, across * tile.columns))
    at_middle = g.flip == 128 if zeros is None else known is not None and not np.any(known != 128 - g.flip)
    op.emit(byte_tile.pack_quads, [*operands, out, terms], g=g, tile=tile, types=["u8", "u8", "i8", "i32"], work=out.size // 4)
    return Packed(out, None, terms, not at_middle, tile=tile)


# --- Scales
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
