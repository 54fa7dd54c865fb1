"""SparseAttention of com.microsoft: attention to a cache, whose queries see blocks of keys, in a layout for each head."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, imin, like, native, read_once, span
from ort_lite.shapes import less, maximum
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.gemm.attention import NUMBERS, PLACED, POSITION
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.attention import heads_of, mask_of
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, emit_attention
from ort_lite_cpu.operators.microsoft.cache_places import PlaceSizes, append_to_cache, emit_places
from ort_lite_cpu.operators.microsoft.group_query_attention import queries_and_new, rotate
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

CLEAR = 0.05
"""Nanoseconds of an element of the mask."""


class BlockSizes(NamedTuple):
    """The sizes of masks (batch, heads, rows, total), and of layouts: `blocks` rows of blocks of `size` keys, at most `listed` each."""

    batch: int
    heads: int
    rows: int
    total: int
    layouts: int
    blocks: int
    size: int
    listed: int


@native
@extents(
    starts="g.layouts * (g.blocks + 1)",
    columns="g.layouts * g.listed",
    places="g.batch * NUMBERS",
    y="g.batch * g.heads * g.rows * g.total",
)
def open_blocks(starts: Ptr, columns: Ptr, places: Ptr, y: Ptr, g: BlockSizes, part: int, parts: int) -> int:
    """y (batch, heads, rows, total) = 1 for the keys of blocks that the layout lists for the block of the query's position, else 0.

    Heads take layouts in turn. A row of blocks lists columns[starts[i]:starts[i + 1]]. places: see `place_rows`.
    """
    for job in span(g.batch * g.heads * g.rows, part, parts):
        row, h, b = job % g.rows, job // g.rows % g.heads, job // g.rows // g.heads
        layout, p = h % g.layouts, job * g.total
        position = row + int(places[b * NUMBERS + POSITION])
        at = layout * (g.blocks + 1) + position // g.size
        if position < 0 or position // g.size >= g.blocks:
            return failure_status(INDEX_OUT_OF_RANGE, at)
        first, end = int(read_once(starts, at)), int(read_once(starts, at + 1))
        if first < 0 or end < first or end > g.listed:
            return failure_status(INDEX_OUT_OF_RANGE, at)
        for i in range(g.total):
            y[p + i] = like(y, 0)
        for j in range(first, end):
            column = int(read_once(columns, layout * g.listed + j))
            if column < 0 or column >= g.blocks:
                return failure_status(INDEX_OUT_OF_RANGE, at)
            for i in range(imin(column * g.size, g.total), imin((column + 1) * g.size, g.total)):
                y[p + i] = like(y, 1)
    return OK


@operator("SparseAttention", domain="com.microsoft", types=REAL)
def sparse_attention(op: NodeLowering) -> None:
    """Emit attention of q (B, S, H) to k and v, or packed behind q, in caches (B, kv heads, length, D), to listed blocks alone.

    Spec: onnxruntime SparseAttention-1. Past and present may be two buffers here.
    """
    heads, kv_heads, size = op.attr("num_heads"), op.attr("kv_num_heads"), op.attr("sparse_block_size")
    if op.has(1) != op.has(2):
        raise op.reject("keys without values, or values without keys")
    if size < 1 or kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise op.reject(f"sparse_block_size {size}, num_heads {heads} and kv_num_heads {kv_heads}")
    rotary = op.attr("do_rotary", 0)
    if rotary and not (op.has(9) and op.has(10)):
        raise op.reject("do_rotary without cos_cache and sin_cache")
    q, k, v = queries_and_new(op, heads, kv_heads)
    batch, rows, total = q.shape[0], q.shape[2], op.scalar(7)
    later = less(rows, total)
    op.require(1 - less(total, rows), "total_sequence_length is {0}, with {1} new rows", total, rows)
    pasts, before = (op.input(3), op.input(4)), op.raw(3).shape[2]
    sizes: Any = (batch, rows, k.shape[2], before, maximum(before, total), total, later, 0)
    place = emit_places(op, op.input(8), None, PlaceSizes(*sizes), message=_no_length)
    if rotary:
        caches = op.input(9), op.input(10)
        q, k = (rotate(op, x, caches, place.table) for x in (q, k))
    keys, values = (append_to_cache(op, i + 1, pasts[i], x, place) for i, x in enumerate((k, v)))
    starts, columns = op.input(5), op.input(6)
    layouts = starts.shape[0]
    op.agree(columns.shape[:1], (layouts,), "block_col_indices does not fit block_row_indices")
    shared = isinstance(layouts, int) and layouts == 1
    planes = 1 if shared else heads
    mask = op.temporary("bool", (batch, planes, rows, total))
    sizes = (batch, planes, rows, total, layouts, starts.shape[1] - 1, size, columns.shape[1])
    work = linear_work(mask.size, CLEAR)
    op.emit(open_blocks, [starts, columns, place.table, mask], g=BlockSizes(*sizes), work=work, message=_no_block)
    rules = AttentionOptions(scale=float(op.attr("scale", 0.0)), right=0, past=PLACED, lengths=place.table)
    emit_attention(op, q, keys, values, heads_of(op, op.output(0), heads), mask_of(op, mask, q.shape[:3]), rules)


def _no_length(failure: "Failure") -> str:
    found, total = failure.element(0), failure.scalar("s.total")
    least = failure.scalar("s.rows") if failure.scalar("s.follows") else 1
    return f"length {found} of batch {failure.at} in {failure.name(8)!r} is out of range [{least}, {total}]"


def _no_block(failure: "Failure") -> str:
    blocks, listed = failure.scalar("g.blocks"), failure.scalar("g.listed")
    where = f"row {failure.at % (blocks + 1)} of layout {failure.at // (blocks + 1)}"
    return f"{where} in {failure.name(5)!r} does not list blocks from 0 to {blocks - 1}, at most {listed}, for the queries' positions"
