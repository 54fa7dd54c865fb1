"""The candidate for products whose operands are bfloat16 that Casts widen to float32: it multiplies them as they are."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ort_lite.dtypes import to_onnx
from ort_lite.graph import Node
from ort_lite.native import Spec
from ort_lite.shapes import ceildiv, product
from ort_lite_cpu.kernels.gemm import bfloat16
from ort_lite_cpu.kernels.gemm.activation import NONE
from ort_lite_cpu.kernels.gemm.bfloat16_tile import (
    Bfloat16Tile,
    StridedMatrices,
    bfloat16_tile,
    is_bfloat16,
    pack_bfloat16,
    pack_constant,
    unpack_constant,
)
from ort_lite_cpu.kernels.gemm.integer import scratch_size
from ort_lite_cpu.lowering.candidates import Candidate
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matrices import MatrixOperand, batch_loops, compact, merge_batches, note_restorable
from ort_lite_cpu.operators.product_costs import work_of_bfloat16, work_of_packed_pairs
from ort_lite_cpu.operators.products import ProductCase
from ort_lite_cpu.operators.rounded import only_reader


def _reject(case: ProductCase) -> str:
    spec, op = case.spec, case.op
    if spec.scale != 1.0 or spec.residual is not None or spec.activation != NONE:
        return "it is scaled, or a residual or an activation follows"
    if case.b.narrow is None and (case.matrix is None or not is_bfloat16(case.matrix)):
        return "its right operand is not bfloat16"
    if not op.builder.all_come and not all(map(op.kernels.has_kernel, _specs(case))):
        return "its kernels are neither installed nor in the cache"
    return ""


def _specs(case: ProductCase) -> list[Spec]:
    """Return the kernels that compute the product."""
    tile = _tile(case)
    types = ("u16", "u16", "f32", "f32" if _rounding(case) is None else "u16", "u16", "f32")
    product_ = Spec(bfloat16.bfloat16_gemm, types, {"biased": case.spec.bias is not None, "tile": tile})
    return [product_] if case.matrix is not None else [product_, Spec(pack_bfloat16, ("u16", "u16"), {"tile": tile})]


def _tile(case: ProductCase) -> Bfloat16Tile:
    tile = bfloat16_tile(case.op.target)
    assert tile is not None
    return tile


def _work(case: ProductCase) -> float:
    return work_of_bfloat16(case.numbers, _tile(case))


def _moves(case: ProductCase) -> float:
    p, a = case.numbers, case.a.narrow
    rows = 0.0 if a is not None and a.is_row_major else case.copy_of_rows
    return rows if p.constant else rows + len(p.rows) * work_of_packed_pairs(p)


def _rounding(case: ProductCase) -> Node | None:
    """Return the Cast to bfloat16 that alone reads the product, so that the kernel rounds it, or None."""
    op = case.op
    reader = only_reader(op, op.node.outputs[0]) if op.options.fusion else None
    rounds = reader is not None and reader.op_type == "Cast" and reader.attr("to") == to_onnx("bfloat16")
    return reader if rounds else None


def _emit(case: ProductCase) -> None:
    op, rounding, shape = case.op, _rounding(case), case.op.info().shape
    if rounding is None:
        _emit_product(case, op.output(0))
        return
    assert shape is not None
    y = op.temporary("bfloat16", shape)
    op.set(0, y)
    _emit_product(case, y)
    op.values.do_with(y, op.node.output, [rounding])


def _emit_product(case: ProductCase, y: Tensor) -> None:
    op, a, tile, spec = case.op, case.a.narrow, _tile(case), case.spec
    assert a is not None
    a = a.store(op)
    a = a if a.is_row_major else compact(op, a)
    b = _pack(case, tile)
    a, b, batch, loops = batch_loops(op, *merge_batches(a, b))
    m, n, k = a.shape[-2], spec.n, spec.k
    size = scratch_size(m, tile.pitch(k), tile.rows, bfloat16.LEFT)
    scratch = op.temporary("uint16", (op.most_parts, size))
    sums = op.temporary("float32", (op.most_parts, bfloat16.STRIP_TILES * tile.rows, tile.columns))
    sizes: Any = (m, n, k, a.strides[-2], size)
    given: dict[str, Any] = {
        "each": bfloat16.Bfloat16Product(*sizes),
        "g": loops,
        "tile": tile,
        "biased": spec.bias is not None,
    }
    work = batch * (m * n * k // (400 if tile.amx else 90) + n * k // 40)
    types = ["u16", "u16", "f32", y.native, "u16", "f32"]
    op.emit(bfloat16.bfloat16_gemm, [a.tensor, b.tensor, spec.bias, y, scratch, sums], **given, types=types, work=work)


def _pack(case: ProductCase, tile: Bfloat16Tile) -> MatrixOperand:
    """Return the right operand as packed matrices (..., 1, size): a constant packed once, others in the run."""
    op, array, source = case.op, case.matrix, case.op.constant(1)
    if array is not None and source is not None:
        k, n = array.shape
        form = f"bfloat16 {tile.columns} {tile.pairs} {'turned' if case.b.strides[0] == 1 else ''}"
        packed = op.pack(source, form, lambda: pack_constant(array, tile))
        assert packed.constant is not None
        note_restorable(op, source, array, partial(unpack_constant, packed.constant, k, n))
        return MatrixOperand(packed, (1, packed.size), (packed.size, 1))
    assert case.b.narrow is not None
    return _pack_later(op, case.b.narrow.store(op), tile)


def _pack_later(op: NodeLowering, b: MatrixOperand, tile: Bfloat16Tile) -> MatrixOperand:
    b = b if b.is_row_major or b.is_column_major else compact(op, b)
    k, n = b.shape[-2:]
    size, batch = tile.packed_size(k, n), b.shape[:-2]
    out = op.temporary("bfloat16", (*batch, 1, size))
    b, _, _, loops = batch_loops(op, b, b)
    sizes: Any = (loops.d0, loops.d1, loops.d2, loops.b0, loops.b1, loops.b2, k, n, b.strides[-2], b.strides[-1])
    op.emit(pack_bfloat16, [b.tensor, out], g=StridedMatrices(*sizes), tile=tile, work=product(batch) * ceildiv(k * n, 4))
    return MatrixOperand(out, out.shape, tuple(contiguous(out.shape)))


BFLOAT16: Final = Candidate[ProductCase]("bfloat16", _reject, _work, _emit, _moves)
"""The product of bfloat16 by instructions for them."""
