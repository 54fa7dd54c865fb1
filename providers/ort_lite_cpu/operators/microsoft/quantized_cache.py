"""Caches of keys and values that are stored as codes of 8 or 4 bits, for GroupQueryAttention."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, address, fmax, fmin, like, native, rint, span
from ort_lite.record import Record
from ort_lite.shapes import equal, less, modulo, same, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.kernels.gemm import attention, attention_codes
from ort_lite_cpu.kernels.gemm.attention import NUMBERS
from ort_lite_cpu.kernels.gemm.attention_rows import row_vectors
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, Heads, Mask, emit_attention
from ort_lite_cpu.operators.microsoft.cache_places import CachePlace, moves, present_of, steps_in
from ort_lite_cpu.operators.rotary import HeadSteps

QUANTIZE, DEQUANTIZE, PRODUCT = 0.3, 0.15, 0.035
"""Nanoseconds: of a number that becomes a code, of a code that becomes a number, of a product with a code."""
FEW = 16
"""The rows of queries from which on codes are converted once, instead of once for each row."""


class CacheSizes(NamedTuple):
    """Sizes of a past of `before` rows and of a present of `length` rows."""

    before: int
    length: int
    channels: int
    """1: there is a scale for each column of a head; 0: one for all."""


class CodedCache(Record):
    """Codes (B, heads, rows, size * bits / 8) and their scales, (heads, size), flat, or (1,)."""

    codes: Tensor
    scales: Tensor
    bits: int
    channels: int


@native
@extents(
    past="g.batch * g.heads * c.before * g.size * bits // 8",
    new="walk(g.x_at, g.batch, g.x_batch, g.heads, g.x_head, g.rows, g.x_row, g.size, 1)",
    places=f"g.batch * {NUMBERS}",
    scales="g.heads * g.size if c.channels else 1",
    y="g.batch * g.heads * c.length * g.size * bits // 8",
)
def append_codes(
    past: Ptr,
    new: Ptr,
    places: Ptr,
    scales: Ptr,
    y: Ptr,
    g: HeadSteps,
    c: CacheSizes,
    bits: Static,
    part: int,
    parts: int,
) -> int:
    """y (batch, heads, length, size * bits / 8) = rows of the past, then codes of new ones, then zeros.

    Where y is the past, whose rows then stay in place, only the new ones are written.
    """
    nbytes, top = g.size * bits // 8, (1 << (bits - 1)) - 1
    same = address(past) == address(y)
    count = g.rows if same else c.length
    for job in span(g.batch * g.heads * count, part, parts):
        head = job // count
        h, b = head % g.heads, head // g.heads
        drop, keep, skip, take = moves(places, b, c.before, g.rows, c.length)
        t = job % count + (keep if same else 0)
        p = (head * c.length + t) * nbytes
        if keep <= t < keep + take:
            source = g.x_at + b * g.x_batch + h * g.x_head + (t - keep + skip) * g.x_row
            for i in range(nbytes):
                code = 0
                for k in range(8 // bits):
                    d = i * (8 // bits) + k
                    scale = scales[(h * g.size + d) * c.channels]
                    scaled = rint(new[source + d] * (like(new, 1) / scale if scale != 0 else like(new, 1)))
                    number = int(fmax(fmin(scaled, like(new, top)), like(new, -top - 1)))
                    code |= number if bits == 8 else (number + 8) << (4 * k)
                y[p + i] = like(y, code)
        elif t < keep or not same:
            source = (head * c.before + drop + t) * nbytes
            for i in range(nbytes):
                y[p + i] = past[source + i] if t < keep else like(y, 0)
    return OK


@native
@extents(
    x="batch * heads * room * size * bits // 8", scales="heads * size if channels else 1", y="batch * heads * total * size"
)
def dequantize_cache(
    x: Ptr,
    scales: Ptr,
    y: Ptr,
    batch: int,
    heads: int,
    room: int,
    total: int,
    size: int,
    channels: int,
    bits: Static,
    part: int,
    parts: int,
) -> int:
    """y (batch, heads, total, size) = the first rows of x (batch, heads, room, size * bits / 8) as numbers."""
    for job in span(batch * heads * total, part, parts):
        t, head = job % total, job // total
        p, q, s = (head * room + t) * (size * bits // 8), job * size, head % heads * size
        if bits == 8:
            for d in range(size):
                y[q + d] = like(y, x[p + d]) * scales[(s + d) * channels]
        else:
            for i in range(size // 2):
                code = int(x[p + i])
                y[q + 2 * i] = like(y, (code & 15) - 8) * scales[(s + 2 * i) * channels]
                y[q + 2 * i + 1] = like(y, (code >> 4) - 8) * scales[(s + 2 * i + 1) * channels]
    return OK


@native
@extents(k="n", v="n", y="2 * n")
def join_scales(k: Ptr, v: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
    """y (2, n) = the scales of keys, then those of values."""
    for i in span(n, part, parts):
        y[i] = k[i]
        y[n + i] = v[i]
    return OK


def is_quantized(op: NodeLowering) -> bool:
    """Return True if the cache is one of codes. Raises Rejection for forms that onnxruntime's kernel for CPUs does not take."""
    kinds = [op.attr(name, "NONE") for name in ("k_quant_type", "v_quant_type")]
    bits = op.attr("kv_cache_bit_width", 0)
    if kinds == ["NONE", "NONE"]:
        if bits or op.has(12) or op.has(13):
            raise op.reject(f"kv_cache_bit_width {bits} or scales without k_quant_type and v_quant_type")
        return False
    if kinds[0] != kinds[1] or kinds[0] not in ("PER_TENSOR", "PER_CHANNEL"):
        raise op.reject(f"k_quant_type {kinds[0]!r} with v_quant_type {kinds[1]!r}")
    if bits not in (4, 8):
        raise op.reject(f"kv_cache_bit_width {bits}, takes 4 and 8")
    if not op.has(12) or not op.has(13):
        raise op.reject("a quantized cache without k_scale and v_scale")
    if not op.has(3) or not op.has(4):
        raise op.reject("a quantized cache without a past, which has its type")
    return True


def append_to_coded_cache(
    op: NodeLowering, output: int, past: Tensor, scales: Tensor, new: Heads, place: CachePlace
) -> CodedCache:
    """Emit the codes of the past with those of the new rows, as an output, or, for a negative `output`, as a temporary."""
    bits, channels = op.attr("kv_cache_bit_width"), int(op.attr("k_quant_type") == "PER_CHANNEL")
    batch, heads, _, size = new.shape
    before = past.shape[2]
    op.require(equal(modulo(size * bits, 8), 0), "heads of {0} numbers do not fill bytes", size)
    nbytes = size * bits // 8
    op.agree(past.shape, (batch, heads, before, nbytes), "the past does not go with what is new")
    wanted = "uint8" if bits == 4 else "int8"
    if past.dtype != wanted:
        raise op.reject(f"a past of {past.dtype} with kv_cache_bit_width {bits}, takes {wanted}")
    op.require(equal(scales.size, heads * size if channels else 1), "{0} scales do not fit the heads", scales.size)
    present = present_of(op, output, wanted, (batch, heads, place.length, nbytes), place.turn)
    sizes: Any = (before, place.length, channels)
    operands = [past, new.tensor, place.table, scales, present]
    work = linear_work(new.tensor.size, QUANTIZE) + present.size // 8
    over = (4, 0) if place.lent else None
    op.emit(append_codes, operands, g=steps_in(new, place), c=CacheSizes(*sizes), bits=bits, work=work, over=over)
    return CodedCache(present, scales, bits, channels)


def emit_coded_attention(
    op: NodeLowering,
    q: Heads,
    keys: CodedCache,
    values: CodedCache,
    y: Heads,
    mask: Mask,
    rules: AttentionOptions,
    scores: Tensor | None,
    total: Dim,
    *,
    turn: Dim,
) -> None:
    """Emit attention to the first `total` rows: from codes for few rows of queries, otherwise from numbers that are made once.

    The instructions do nothing if `turn` is 0.
    """
    many = less(FEW - 1, q.shape[2]) if scores is None else 1
    few, many = (1 - many) * turn, many * turn
    if not same(few, 0):
        _emit_few(op, q, keys, values, y, mask, rules, total, few)
    if not same(many, 0):
        shape = q.shape[0], keys.codes.shape[1], total, q.shape[3]
        k, v = (_numbers(op, cache, shape, many) for cache in (keys, values))
        emit_attention(op, q, k, v, y, mask, rules, scores, turn=many, packed=True)


def _numbers(op: NodeLowering, cache: CodedCache, shape: tuple[Dim, Dim, Dim, Dim], turn: Dim) -> Heads:
    batch, (_, heads, total, size) = select(turn, shape[0], 0), shape
    y = op.temporary(cache.scales.dtype, (batch, *shape[1:]))
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "room": cache.codes.shape[2], "total": total, "size": size}
    work = linear_work(y.size, DEQUANTIZE)
    op.emit(dequantize_cache, [cache.codes, cache.scales, y], **sizes, channels=cache.channels, bits=cache.bits, work=work)
    return Heads(y, shape, (heads * total * size, total * size, size))


def _emit_few(
    op: NodeLowering,
    q: Heads,
    keys: CodedCache,
    values: CodedCache,
    y: Heads,
    mask: Mask,
    rules: AttentionOptions,
    total: Dim,
    turn: Dim,
) -> None:
    batch, heads, rows, size = q.shape
    batch, rows = select(turn, batch, 0), select(turn, rows, 0)
    kv_heads, room = keys.codes.shape[1:3]
    sizes: Any = (batch, heads, rows, size, size, *q.place, *y.steps)
    vectors = row_vectors(q.tensor.native, op.target, keys.bits)
    coded: Any = (kv_heads, total, room, rules.scale, rules.softcap, keys.channels, keys.bits, *vectors)
    each = attention.SHARED * rows * (total + 2 * (size + 1))
    scratch = op.temporary(q.tensor.dtype, (op.options.threads * each,))
    n = keys.scales.size
    scales = op.temporary(keys.scales.dtype, (2 * n,))
    op.emit(join_scales, [keys.scales, values.scales, scales], n=n)
    operands = [q.tensor, keys.codes, values.codes, scales, mask.tensor, rules.lengths, rules.sink, y.tensor, scratch]
    g, kv = attention.AttentionHeads(*sizes), attention_codes.CodedKeys(*coded)
    work = linear_work(batch * heads * rows * total * size * 2, PRODUCT)
    op.emit(attention_codes.attend_codes, operands, g=g, kv=kv, rules=rules.score_rules(mask), slices=1, work=work)
