"""GatherBlockQuantized of com.microsoft: rows of quantized data, with a scale and a zero point for each block of an axis."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    failure_status,
    from_end,
    like,
    native,
    null,
    read_once,
    shift,
    span,
)
from ort_lite.shapes import ceildiv, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS, field_to_f32, narrow_to_f32, narrow_to_i32
from ort_lite_cpu.lowering.attributes import axis_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits as as_bits
from ort_lite_cpu.registry import operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

SMALLEST_BLOCK = 16
CHUNK = 16
"""The elements of a loop of fixed length, which divides blocks."""


class QuantizedRows(NamedTuple):
    """The sizes of data (outer, axis, row) whose rows are gathered. They are quantized as (groups, length, inner), by blocks."""

    outer: int
    axis: int
    row: int
    indices: int
    groups: int
    length: int
    inner: int
    blocks: int
    """The number of blocks along `length`."""
    size: int
    """The elements of a block."""


@native
@extents(
    x="ceildiv(g.outer * g.axis * g.row * bits, 8) if name == 'uint8' else g.outer * g.axis * g.row",
    index="g.indices",
    scales="g.groups * g.blocks * g.inner",
    zeros="g.groups * g.inner * (ceildiv(g.blocks * bits, 8) if name == 'uint8' else g.blocks)",
    y="g.outer * g.indices * g.row",
)
def gather_blocks(
    x: Ptr,
    index: Ptr,
    scales: Ptr,
    zeros: Ptr,
    y: Ptr,
    g: QuantizedRows,
    name: Static,
    bits: Static,
    part: int,
    parts: int,
) -> int:
    """y (outer, indices, row) = (x - zero) * scale for the rows `index` of x (outer, axis, row), whose element type is `name`.

    uint8 has 8 / bits elements a byte, the first in the lowest bits, and so have the zero points of a group; inner is 1 then. Without
    zero points, that of uint8 is the middle of its range, and others are 0.
    """
    for place in span(g.outer * g.indices, part, parts):
        position = place % g.indices
        j = from_end(read_once(index, position), g.axis)
        if j < 0 or j >= g.axis:
            return failure_status(INDEX_OUT_OF_RANGE, position)
        start, row = (place // g.indices * g.axis + j) * g.row, shift(y, place * g.row)
        if g.inner == 1:
            _write_blocks(x, scales, zeros, row, start, g, name, bits)
        else:
            _write_lines(x, scales, zeros, row, start, g, name, bits)
    return OK


def _write_blocks(x: Ptr, scales: Ptr, zeros: Ptr, y: Ptr, start: int, g: QuantizedRows, name: Static, bits: Static) -> None:
    """Write a row from element `start` on, whose neighbors share a block."""
    group, along, i = start // g.length, start % g.length, 0
    block = along // g.size
    while i < g.row:
        end = min(g.row, i + min((block + 1) * g.size, g.length) - along)
        entry = group * g.blocks + block
        zero = _zero_point(zeros, y, entry, group, block, g.blocks, name, bits)
        _write_block(x, start + i, shift(y, i), end - i, zero, scales[entry], name, bits)
        along, block, i = along + end - i, block + 1, end
        if along == g.length:
            group, along, block = group + 1, 0, 0


def _write_lines(x: Ptr, scales: Ptr, zeros: Ptr, y: Ptr, start: int, g: QuantizedRows, name: Static, bits: Static) -> None:
    """Write a row from element `start` on, whose neighbors have a block each."""
    i = 0
    while i < g.row:
        line, column = (start + i) // g.inner, (start + i) % g.inner
        group, block = line // g.length, line % g.length // g.size
        entry = (group * g.blocks + block) * g.inner + column - i
        end = min(g.row, i + g.inner - column)
        for k in range(i, end):
            zero = _zero_point(zeros, y, entry + k, group, block, g.blocks, name, bits)
            y[k] = (like(y, _code(x, start + k, name, bits)) - zero) * scales[entry + k]
        i = end


def _write_block(x: Ptr, start: int, y: Ptr, count: int, zero: float, scale: float, name: Static, bits: Static) -> None:
    """y (count,) = (x - zero) * scale from element `start` on, where a byte begins. Loops of a fixed length become vectors."""
    share = 8 // bits if name == "uint8" else 1
    x = shift(x, start // share)
    codes, whole = count // share, CHUNK // share
    for chunk in range(codes // whole):
        for k in range(whole):
            _write_byte(x, chunk * whole + k, y, zero, scale, name, bits)
    for k in range(codes // whole * whole, codes):
        _write_byte(x, k, y, zero, scale, name, bits)


def _write_byte(x: Ptr, k: int, y: Ptr, zero: float, scale: float, name: Static, bits: Static) -> None:
    """Write the elements of byte k of x."""
    if name == "uint8" and bits == 2:
        y[4 * k] = (field_to_f32(x[k], 0, 2) - zero) * scale
        y[4 * k + 1] = (field_to_f32(x[k], 2, 2) - zero) * scale
        y[4 * k + 2] = (field_to_f32(x[k], 4, 2) - zero) * scale
        y[4 * k + 3] = (field_to_f32(x[k], 6, 2) - zero) * scale
    elif name == "uint8" and bits == 4:
        y[2 * k] = (field_to_f32(x[k], 0, 4) - zero) * scale
        y[2 * k + 1] = (field_to_f32(x[k], 4, 4) - zero) * scale
    else:
        y[k] = (like(y, _code(x, k, name, bits)) - zero) * scale


def _zero_point(zeros: Ptr, y: Ptr, entry: int, group: int, block: int, blocks: int, name: Static, bits: Static) -> Any:
    """Return the zero point of a block. Packed ones start at a byte in each group."""
    if name == "uint8":
        if null(zeros):
            return like(y, 1 << (bits - 1))
        share = 8 // bits
        return like(y, _code(zeros, group * ((blocks + share - 1) // share) * share + block, name, bits))
    return like(y, 0) if null(zeros) else like(y, _code(zeros, entry, name, bits))


def _code(x: Ptr, at: int, name: Static, bits: Static) -> Any:
    """Return element `at` as a number of 32 bits or more."""
    if name == "uint8":
        share = 8 // bits
        return (int(x[at // share]) >> (at % share * bits)) & ((1 << bits) - 1)
    if name == "int4" or name == "uint4":
        return narrow_to_i32(x[at], name)
    return narrow_to_f32(x[at], name)


@operator("GatherBlockQuantized", domain="com.microsoft", types=frozenset({"float32"}), typed_by=2)
def gather_block_quantized(op: NodeLowering) -> None:
    """Emit Gather of quantized rows, which are dequantized as they are read. Spec: onnxruntime GatherBlockQuantized-1."""
    data = op.raw(0)
    rank, bits, size = len(data.shape), op.attr("bits", 4), op.attr("block_size", 128)
    if rank < 2:
        raise op.reject(f"data of rank {rank}, takes 2 or more")
    axis, along = (axis_of(op, op.attr(name, default), rank) for name, default in (("gather_axis", 0), ("quantize_axis", 1)))
    _check_form(op, str(data.dtype), bits, size, (axis, along, rank))
    share = 8 // bits if data.dtype == "uint8" else 1
    shape = (*data.shape[:-1], data.shape[-1] * share)
    blocks = ceildiv(shape[along], size)
    parameters: tuple[Dim, ...] = (*shape[:along], blocks, *shape[along + 1 :])
    op.agree(op.raw(2).shape, parameters, "data and scales do not fit")
    if op.has(3):
        packed = (*shape[:along], ceildiv(blocks, share), *shape[along + 1 :])
        op.agree(op.raw(3).shape, packed, "scales and zero points do not fit")
    x, index, scales, zeros, y = op.input(0), op.input(1), op.input(2), op.optional(3), op.output(0)
    rows: Any = (product(shape[:axis]), shape[axis], product(shape[axis + 1 :]), index.size)
    groups: Any = (product(shape[:along]), shape[along], product(shape[along + 1 :]), blocks, size)
    operands = [as_bits(x), index, scales, None if zeros is None else as_bits(zeros), y]
    op.emit(gather_blocks, operands, g=QuantizedRows(*rows, *groups), name=data.dtype, bits=bits, work=y.size, message=_no_row)


def _no_row(failure: "Failure") -> str:
    return failure.outside("index", 1, -failure.scalar("g.axis"), failure.scalar("g.axis"))


def _check_form(op: NodeLowering, dtype: str, bits: int, size: int, axes: tuple[int, int, int]) -> None:
    """Reject what onnxruntime's kernel for CPUs does. axes: that of indices, that of blocks, and the rank."""
    axis, along, rank = axes
    if size < SMALLEST_BLOCK or size & (size - 1):
        raise op.reject(f"block_size {size}, takes powers of two from {SMALLEST_BLOCK} on")
    if dtype in NARROW_FLOATS:
        if op.has(3):
            raise op.reject(f"zero points with data of {dtype}, takes them with integers")
    elif dtype != "uint8":
        if bits != 4:
            raise op.reject(f"{bits} bits of {dtype}, takes 4")
    elif bits not in (2, 4, 8):
        raise op.reject(f"{bits} bits of uint8, takes 2, 4 and 8")
    elif axis != 0 or along != rank - 1:
        raise op.reject(f"gather_axis {axis} and quantize_axis {along} with uint8 of rank {rank}, takes the first and the last")
