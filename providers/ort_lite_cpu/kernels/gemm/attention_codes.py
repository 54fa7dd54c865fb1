"""Scaled dot-product attention to a cache of codes of 8 or 4 bits, which are multiplied where they lie.

The scales of keys are factors of the queries, and those of values are factors of the result, so that a code is only converted. Codes of
4 bits are two to a byte, the even column in the low bits, and stand for themselves less 8: queries and results are kept with the even
columns first, and what the 8 adds is subtracted once.
"""

from typing import NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, SUMS, Ptr, Static, StaticInt, like, native, null, shift, span, sqrt
from ort_lite_cpu.kernels.gemm.attention import (
    NOTHING,
    NUMBERS,
    PIECE,
    PLACED,
    SHARED,
    AttentionHeads,
    ScoreRules,
    frame,
    heads_together,
    normalise_row,
    visible,
)
from ort_lite_cpu.kernels.gemm.attention_rows import Matrix, blend_rows, score_rows

MIDDLE = 8.0
"""The code of 4 bits that stands for 0."""


class CodedKeys(NamedTuple):
    """Keys and values (batch, heads, room, size) as codes, of which `length` rows may be seen."""

    heads: int
    length: int
    room: int
    scale: float
    """Factor of the scores; 0: 1 / sqrt(size)."""
    softcap: float
    """Limit of the scores; 0: none."""
    channels: int
    """1: there is a scale for each column of a head; 0: one for all."""
    bits: StaticInt
    """8 or 4."""
    rows: StaticInt
    lanes: StaticInt
    exponentials: StaticInt
    """The numbers of `RowVectors`."""


@native(fastmath=SUMS)
def spread_query(x: Ptr, scales: Ptr, size: int, factor: float, channels: int, bits: Static, y: Ptr) -> None:
    """y (size,) = x * factor * scales, of 4 bits with the even columns first; y[size] = what is added to the scores."""
    total = like(y, 0)
    for d in range(size):
        value = x[d] * like(x, factor) * scales[d * channels]
        y[d // 2 + (size // 2 if d % 2 else 0) if bits == 4 else d] = value
        total += value
    y[size] = -total * like(y, MIDDLE) if bits == 4 else like(y, 0)


@native(fastmath=SUMS)
def total_of(x: Ptr, n: int) -> object:
    """Return the sum of x (n,)."""
    total = like(x, 0)
    for i in range(n):
        total += x[i]
    return total


@native
def gather_result(x: Ptr, scales: Ptr, size: int, channels: int, bits: Static, y: Ptr) -> None:
    """y (size,) = the sums x of `blend_codes` times the scales."""
    for d in range(size):
        if bits == 4:
            y[d] = (x[d // 2 + (size // 2 if d % 2 else 0)] - x[size] * like(x, MIDDLE)) * scales[d * channels]
        else:
            y[d] = x[d] * scales[d * channels]


@native
@extents(
    q="walk(g.q_at, g.batch, g.q_batch, g.heads, g.q_head, g.rows, g.q_row, g.size, 1)",
    k="g.batch * kv.heads * kv.room * g.size * kv.bits // 8",
    v="g.batch * kv.heads * kv.room * g.size * kv.bits // 8",
    scales="2 * (kv.heads * g.size if kv.channels else 1)",
    mask="walk(0, g.batch, rules.m_batch, g.heads, rules.m_head, g.rows, rules.m_row, rules.columns, 1)",
    lengths=f"g.batch * select(equal(rules.past, {PLACED}), {NUMBERS}, 1)",
    sink="g.heads",
    y="walk(0, g.batch, g.y_batch, g.heads, g.y_head, g.rows, g.y_row, g.size, 1)",
    scratch="parts * SHARED * g.rows * (kv.length + 2 * (g.size + 1))",
)
def attend_codes(
    q: Ptr,
    k: Ptr,
    v: Ptr,
    scales: Ptr,
    mask: Ptr,
    lengths: Ptr,
    sink: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: AttentionHeads,
    kv: CodedKeys,
    rules: ScoreRules,
    part: int,
    parts: int,
) -> int:
    """Compute `attend` from codes in place; parts share heads, up to SHARED of a group at a time. The scores are no result.

    scales: of keys, then of values. scratch: for each of SHARED * rows rows of a part, `length` scores, a query and a result.
    """
    factor = kv.scale if kv.scale != 0 else 1 / sqrt(float(g.size))
    group, length, size = g.heads // max(kv.heads, 1), kv.length, g.size
    shares = heads_together(group, g.batch * kv.heads, parts)
    bunches, each = (group + shares - 1) // shares, size * kv.bits // 8
    rows = SHARED * g.rows
    s = shift(scratch, part * rows * (length + 2 * (size + 1)))
    queries, sums = shift(s, rows * length), shift(s, rows * (length + size + 1))
    for job in span(g.batch * kv.heads * bunches, part, parts):
        shared, bunch = job // bunches, job % bunches * shares
        b, kv_head = shared // kv.heads, shared % kv.heads
        h, many = kv_head * group + bunch, min(group - bunch, shares) * g.rows
        key, value = shift(k, shared * kv.room * each), shift(v, shared * kv.room * each)
        own_k = shift(scales, kv_head * size * kv.channels)
        own_v = shift(own_k, kv.heads * size if kv.channels else 1)
        count, offset = frame(b, g.rows, length, lengths, rules)
        begin = visible(0, offset, rules, count)[0]
        end = max(visible(g.rows - 1, offset, rules, count)[1], begin)
        x, target = shift(q, g.q_at + b * g.q_batch + h * g.q_head), shift(y, b * g.y_batch + h * g.y_head)
        for r in range(many):
            row = shift(x, r // g.rows * g.q_head + r % g.rows * g.q_row)
            spread_query(row, own_k, size, factor, kv.channels, kv.bits, shift(queries, r * (size + 1)))
            for d in range(size):
                sums[r * (size + 1) + d] = like(s, 0)
        most, lanes, exponentials, bits = kv.rows, kv.lanes, kv.exponentials, kv.bits
        left, scores = Matrix(queries, size + 1), Matrix(shift(s, -begin), length)
        for t in range(begin, end, PIECE):
            score_rows(left, Matrix(key, each), scores, each, t, min(t + PIECE, end), many, most, lanes, bits)
        for r in range(many):
            i, hr = r % g.rows, h + r // g.rows
            first, last = visible(i, offset, rules, count)
            first, last = first - begin, last - begin
            own, added = shift(s, r * length), shift(mask, b * rules.m_batch + hr * rules.m_head + i * rules.m_row + begin)
            more, masked, half, precision = shift(sink, 0 if null(sink) else hr), rules.masked, rules.half, rules.precision
            normalise_row(
                own, first, last, end - begin, added, more, kv.softcap, own, masked, NOTHING, half, precision, exponentials
            )
        for t in range(begin, end, PIECE):
            blend_rows(
                scores, Matrix(value, each), Matrix(sums, size + 1), each, t, min(t + PIECE, end), many, most, lanes, bits
            )
        for r in range(many):
            sums[r * (size + 1) + size] = total_of(shift(s, r * length), end - begin)
        for r in range(many):
            out = shift(target, r // g.rows * g.y_head + r % g.rows * g.y_row)
            gather_result(shift(sums, r * (size + 1)), own_v, size, kv.channels, kv.bits, out)
    return OK
