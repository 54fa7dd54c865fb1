"""QMoE of com.microsoft: MoE whose weights are codes of 2, 4 or 8 bits, with a scale for each row or for each block of it."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, SUMS, Ptr, Static, imin, like, native, null, shift, span
from ort_lite.shapes import ceildiv, equal, floordiv
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.microsoft.experts import (
    PRODUCT,
    Emit,
    Layer,
    Routes,
    check_layer,
    emit_layers,
    emit_routes,
    multiply_rows,
)
from ort_lite_cpu.registry import operator

LEAST_SHARE = 1e-8
"""Experts with no larger share are not asked, as in onnxruntime."""
DECODE = 0.3
"""Nanoseconds of a code."""


class Coding(NamedTuple):
    """The codes of a row: `size` of them in each of `blocks` blocks. Zero points have `zeros` bytes for a row, or for an expert."""

    size: int
    blocks: int
    zeros: int
    by_row: int


def decode_row(w: Ptr, scales: Ptr, zeros: Ptr, y: Ptr, row: int, e: int, column: int, k: int, c: Coding, bits: Static) -> None:
    """y (k,) = the weights of a row: (codes - zero point) * scale. Without zeros, the zero point is the middle code."""
    mask = (1 << bits) - 1
    for block in range(c.blocks):
        zero = like(y, 1 << (bits - 1))
        if not null(zeros):
            position = (block if c.by_row else column) * bits
            at = (row if c.by_row else e) * c.zeros + position // 8
            zero = like(y, (int(zeros[at]) >> (position % 8)) & mask)
        scale, begin, end = scales[row * c.blocks + block], block * c.size, imin(k, (block + 1) * c.size)
        p = (row * k + begin) * bits // 8
        for i in range((end - begin) * bits // 8):
            code = int(w[p + i])
            if bits == 8:
                y[begin + i] = (like(y, code) - zero) * scale
            elif bits == 4:
                y[begin + 2 * i] = (like(y, code & 15) - zero) * scale
                y[begin + 2 * i + 1] = (like(y, code >> 4) - zero) * scale
            else:
                for j in range(4):
                    y[begin + 4 * i + j] = (like(y, (code >> (2 * j)) & 3) - zero) * scale


@native(fastmath=SUMS)
@extents(
    x="g.routes // g.shared * g.k",
    w="g.experts * g.n * g.k * bits // 8",
    scales="g.experts * g.n * c.blocks",
    zeros="g.experts * c.zeros * (g.n if c.by_row else 1)",
    bias="g.experts * g.n",
    order="g.routes",
    starts="g.experts + 1",
    y="g.routes * g.n",
    scratch="parts * 2 * g.k",
)
def multiply_coded_experts(
    x: Ptr,
    w: Ptr,
    scales: Ptr,
    zeros: Ptr,
    bias: Ptr,
    order: Ptr,
    starts: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: Layer,
    c: Coding,
    bits: Static,
    part: int,
    parts: int,
) -> int:
    """y (routes, n) = x (routes / shared, k) times the transposed weights (experts, n, k) of each route's expert, + bias (experts, n).

    The weights are codes, see decode_row; zeros and bias may be null. Two rows are decoded at a time, for all routes of their expert.
    scratch: 2 * k numbers a part.
    """
    rows = shift(scratch, part * 2 * g.k)
    for e in range(g.experts):
        start, end = int(starts[e]), int(starts[e + 1])
        if start < end:
            for pair in span((g.n + 1) // 2, part, parts):
                column, second = 2 * pair, 0
                decode_row(w, scales, zeros, rows, e * g.n + column, e, column, g.k, c, bits)
                if column + 1 < g.n:
                    second = g.k
                    decode_row(w, scales, zeros, shift(rows, g.k), e * g.n + column + 1, e, column + 1, g.k, c, bits)
                multiply_rows(x, rows, bias, y, order, g, start, end, 0, second, e, column)
    return OK


@operator("QMoE", domain="com.microsoft", types=frozenset({"float32"}))
def quantized_moe(op: NodeLowering) -> None:
    """Emit two layers of each token's experts, of integer weights. Spec: onnxruntime QMoE-1, as its kernel for CPUs has it."""
    _check(op)
    routes = emit_routes(op, op.optional(14), whole=False, least=LEAST_SHARE)
    bits = op.attr("expert_weight_bits", 4)
    inter = floordiv(op.input(5).size * (8 // bits), routes.experts * op.input(0).shape[-1])
    emit_layers(op, routes, _layer(op, (2, 3, 4, 11)), _layer(op, (5, 6, 7, 12)), inter)


def _check(op: NodeLowering) -> None:
    if op.attr("quant_type", "int") != "int":
        raise op.reject(f"quant_type {op.attr('quant_type')!r}, takes 'int'")
    bits = op.attr("expert_weight_bits", 4)
    if bits not in (2, 4, 8):
        raise op.reject(f"expert_weight_bits {bits}, takes 2, 4 and 8")
    for layer in ("fc1", "fc2", "fc3"):
        if op.attr(f"{layer}_expert_weight_bits", bits) != bits:
            raise op.reject(
                f"{layer}_expert_weight_bits {op.attr(f'{layer}_expert_weight_bits')} beside expert_weight_bits {bits}"
            )
    if any(op.has(index) for index in (8, 9, 10, 13)):
        raise op.reject("a third layer, fc3")
    if any(op.has(index) for index in range(15, 21)):
        raise op.reject("global scales and scales of activations")
    size = op.attr("block_size", 0)
    if size and (size < 16 or size & (size - 1)):
        raise op.reject(f"block_size {size}, takes powers of two from 16 on")


def _layer(op: NodeLowering, indices: tuple[int, int, int, int]) -> Emit:
    """Return a function that emits the layer of the inputs for weights, scales, bias and zero points."""
    bits = op.attr("expert_weight_bits", 4)

    def emit(x: Tensor, y: Tensor, routes: Routes, g: Layer) -> None:
        w, scales = op.input(indices[0]), op.input(indices[1])
        bias, zeros = op.optional(indices[2]), op.optional(indices[3])
        check_layer(op, w, bias, g, 8 // bits)
        c = _coding(op, scales, g, bits, by_row=zeros is not None and len(zeros.shape) == 3)
        if zeros is not None:
            expected = (g.experts, g.n, c.zeros) if c.by_row else (g.experts, c.zeros)
            op.agree(zeros.shape, expected, "the zero points do not fit the weights")
            op.require(
                1 if c.by_row else equal(c.blocks, 1), "a zero point for each row, whose codes are in {0} blocks", c.blocks
            )
        scratch = op.temporary("float32", (op.most_parts * 2 * g.k,))
        operands = [x, w, scales, zeros, bias, routes.order, routes.starts, y, scratch]
        work = linear_work(g.routes * g.n * g.k, PRODUCT) + linear_work(g.n * g.k, DECODE)
        op.emit(multiply_coded_experts, operands, g=g, c=c, bits=bits, work=work)

    return emit


def _coding(op: NodeLowering, scales: Tensor, g: Layer, bits: int, *, by_row: bool) -> Coding:
    """Return how the rows of a layer are coded: with a scale each, (experts, n) or (experts, n, 1), or in blocks.

    by_row: each row has bytes of zero points for its blocks. Otherwise an expert has them for its rows, which have one block each.
    """
    size = op.attr("block_size", 0)
    whole = len(scales.shape) == 2 or scales.shape[-1] == 1
    if not whole and (len(scales.shape) != 3 or not size):
        raise op.reject(f"scales of rank {len(scales.shape)} with block_size {size}")
    blocks: Dim = 1 if whole else ceildiv(g.k, size)
    expected = (g.experts, g.n) if len(scales.shape) == 2 else (g.experts, g.n, blocks)
    op.agree(scales.shape, expected, "the scales do not fit the weights")
    coded: Any = (g.k if whole else size, blocks, ceildiv((blocks if by_row else g.n) * bits, 8), int(by_row))
    return Coding(*coded)
