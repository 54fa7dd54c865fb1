"""Scaled dot-product attention: softmax(scale * Q @ K^T + mask) @ V for blocks of query rows, whose scores stay in the cache.

Many rows: keys and values are packed once a head, then each block of rows is two products over the register tile with a softmax in
between. Few rows: packing would cost more than the products, which read keys and values in place, once for several heads. A batch of
0 is no work for any of the kernels: this is how a run skips one of two calls if the number of rows is open.

The keys that a query sees are a range (padding, causality, windows), less the keys in it that a mask excludes.

The file is long because both kernels share these rules and the softmax.
"""

import math
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    OK,
    REDUCE,
    STRICT,
    Ptr,
    Static,
    StaticInt,
    exp,
    fmax,
    like,
    native,
    null,
    read_once,
    shift,
    span,
    sqrt,
    tanh,
)
from ort_lite_cpu.kernels.gemm.attention_rows import FLOATS, Matrix, RowVectors, blend_rows, score_rows
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, LeftOperand, Tile, TileEpilogue, panel
from ort_lite_cpu.kernels.gemm.pack import pack_panel
from ort_lite_cpu.kernels.halves import round_to_half, softmax_in_place
from ort_lite_cpu.kernels.softmax import softmax_row as softmax_of_vectors

BLOCK = 64
"""The most query rows of one block."""
SCORES = 1 << 17
"""The scores of one block, unless BLOCK allows fewer or one tile of rows has more."""
SHARED = 8
"""The heads that read a piece of keys and values together."""
PIECE = 64
"""The keys of such a piece."""
FAR = 1 << 40
"""More keys than memory holds. Lengths and windows are limited to it, so that their sums do not overflow."""

RAW, CAPPED, MASKED, SOFTMAX, SEEN, NOTHING = range(6)
"""Stages at which scores are a second result: ONNX's qk_matmul_output_mode; SEEN: as MASKED with 0 for unseen keys; NOTHING: never."""
NO_MASK, BOOLS, ADDENDS = range(3)
"""Kinds of masks: none, True for keys that take part, numbers that are added to scores."""
PLACED, NUMBERS = -2, 8
"""`ScoreRules.past` if a table (batch, NUMBERS) takes the place of lengths."""
POSITION, COUNT, OFFSET, DROP, KEEP, SKIP, TAKE, VALID = range(NUMBERS)
"""The columns of that table. The first query's position; the keys that count, and how many of them come before that query.

The rows of the cache are KEEP rows of the past from DROP on, then TAKE new rows from SKIP on. VALID rows of queries are no padding.
"""
NO_HALF, FLOAT16, BFLOAT16 = range(3)
"""Types to which steps are rounded: that of the operands, or one of 16 bits."""


class AttentionHeads(NamedTuple):
    """Queries (batch, heads, rows, size) and results (batch, heads, rows, value_size), and their steps through memory."""

    batch: int
    heads: int
    rows: int
    size: int
    value_size: int
    q_at: int
    q_batch: int
    q_head: int
    q_row: int
    y_batch: int
    y_head: int
    y_row: int


class Keys(NamedTuple):
    """Keys (batch, heads, length, size) and values (batch, heads, length, value_size), and their steps through memory.

    `heads` divides that of queries.
    """

    heads: int
    length: int
    scale: float
    """Factor of the scores; 0: 1 / sqrt(size)."""
    softcap: float
    """Limit of the scores; 0: none."""
    k_at: int
    k_batch: int
    k_head: int
    k_row: int
    v_at: int
    v_batch: int
    v_head: int
    v_row: int


class PackedKeys(NamedTuple):
    """Keys and values in panels of vectors * lanes columns, which are multiplied by `rows` rows at a time."""

    heads: int
    length: int
    softcap: float
    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt
    exponentials: StaticInt
    """The exponentials of a vector; 0: one at a time (see `ort_lite_cpu.kernels.softmax.vectors_for`)."""


class ScoreRules(NamedTuple):
    """The keys that a query sees, by lengths, causality, windows and a mask, and the rounding of its scores."""

    past: int
    """Keys before the first query; -1: the last keys of a batch with a length belong to the queries; PLACED: a table has them."""
    left: int
    """Keys that a query sees before its own; -1: all."""
    right: int
    """Keys that a query sees after its own; -1: all."""
    columns: int
    """Keys that a mask has numbers for; those beyond are masked."""
    m_batch: int
    m_head: int
    m_row: int
    masked: StaticInt
    """NO_MASK, BOOLS or ADDENDS."""
    output: StaticInt
    """The stage at which scores are a result."""
    half: StaticInt
    """FLOAT16 or BFLOAT16: every step is rounded to it, except those of the softmax; NO_HALF: none is."""
    precision: StaticInt
    """The same for the steps of the softmax."""


@native
def visible(i: int, offset: int, rules: ScoreRules, count: int) -> tuple[int, int]:
    """Return the first key that query i sees, and the one after the last.

    Neither falls from one query to the next: scores are stored from the first key of the first query on. This holds because `frame`
    gives counts that are keys, and neither it nor `emit_attention` gives numbers beyond FAR.
    """
    last = count if rules.right < 0 else max(min(count, i + offset + rules.right + 1), 0)
    return 0 if rules.left < 0 else min(max(i + offset - rules.left, 0), last), last


@native
def frame(b: int, rows: int, length: int, lengths: Ptr, rules: ScoreRules) -> tuple[int, int]:
    """Return (valid keys of batch b, how many of them come before its first query), whatever numbers `lengths` has."""
    if null(lengths):
        return min(length, rules.columns), rules.past
    if rules.past == PLACED:
        count = min(max(int(read_once(lengths, b * NUMBERS + COUNT)), 0), FAR)
        return min(count, length, rules.columns), min(max(int(read_once(lengths, b * NUMBERS + OFFSET)), 0), FAR)
    count = min(max(int(read_once(lengths, b)), 0), FAR)
    return min(count, length, rules.columns), count - rows if rules.past < 0 else rules.past


@native
def clear_padding(b: int, h: int, start: int, m: int, lengths: Ptr, y: Ptr, g: AttentionHeads, rules: ScoreRules) -> int:
    """Return how many of the m rows from `start` on are no padding, and set the results of the others to 0."""
    if null(lengths) or rules.past != PLACED or rules.output != NOTHING:
        return m
    valid = min(max(int(read_once(lengths, b * NUMBERS + VALID)) - start, 0), m)
    for i in range(start + valid, start + m):
        out = shift(y, b * g.y_batch + h * g.y_head + i * g.y_row)
        for d in range(g.value_size):
            out[d] = like(y, 0)
    return valid


@native(fastmath=STRICT)
def _round_to(x: Any, half: Static) -> Any:
    """Return x rounded to `half`: NO_HALF, FLOAT16 or BFLOAT16."""
    if half == FLOAT16:
        return round_to_half(x, "float16")
    if half == BFLOAT16:
        return round_to_half(x, "bfloat16")
    return x


@native(fastmath=REDUCE, inline=False)
def normalise_row(
    s: Ptr,
    first: int,
    last: int,
    n: int,
    mask: Ptr,
    sink: Ptr,
    softcap: float,
    qk: Ptr,
    masked: Static,
    output: Static,
    half: Static,
    precision: Static,
    exponentials: Static,
) -> None:
    """s (n,) = softmax(s + mask) over [first, last), 0 elsewhere, and everywhere if no key is left.

    sink: null or one more score, without a key. The scores go to qk (n,) at the stage `output`. The Statics are fields of ScoreRules
    and PackedKeys.
    """
    if half != NO_HALF:
        for j in range(n):
            s[j] = _round_to(s[j], half)
    lowest = like(s, -math.inf)
    unseen = like(s, 0) if output == SEEN else lowest
    if output == RAW:
        for j in range(n):
            qk[j] = s[j]
    if softcap > 0:
        cap = _round_to(like(s, softcap), half)
        begin, end = (0, n) if output in (CAPPED, MASKED) else (first, last)
        for j in range(begin, end):
            s[j] = _round_to(cap * _round_to(tanh(_round_to(s[j] / cap, half)), half), half)
    if output == CAPPED:
        for j in range(n):
            qk[j] = s[j]
    open_ = like(s, 0)
    if masked == BOOLS:
        open_ = lowest
        for j in range(first, last):
            open_ = fmax(open_, like(s, 0) if mask[j] != 0 else lowest)
            s[j] = s[j] if mask[j] != 0 else lowest
    elif masked == ADDENDS:
        open_ = lowest
        for j in range(first, last):
            open_ = fmax(open_, mask[j])
            s[j] = _round_to(s[j] + mask[j], half)
    for j in range(first):
        s[j] = unseen
    for j in range(last, n):
        s[j] = unseen
    if output in (MASKED, SEEN):
        for j in range(n):
            qk[j] = s[j]
    if half == precision == NO_HALF:
        if exponentials > 0 and null(sink) and open_ > lowest:
            softmax_in_vectors(shift(s, first), last - first, exponentials)
            clear_outside(s, first, last, n)
        else:
            softmax_row(s, first, last, n, sink, open_ == lowest)
    else:
        softmax_row_half(s, first, last, n, open_ == lowest, half, precision)
    if output == SOFTMAX:
        for j in range(n):
            qk[j] = s[j]


@native(fastmath=REDUCE)
def softmax_row(s: Ptr, first: int, last: int, n: int, sink: Ptr, closed: bool) -> None:
    """s (n,) = softmax(s) over [first, last), zeros elsewhere; zeros everywhere if `closed`."""
    top = like(s, -math.inf)
    for j in range(first, last):
        top = fmax(top, s[j])
    total = like(s, 0)
    if not null(sink):
        top = fmax(top, sink[0])
        total = exp(sink[0] - top)
    if closed:
        first = last = n
    for j in range(first, last):
        e = exp(s[j] - top)
        s[j] = e
        total += e
    factor = like(s, 1) / total
    for j in range(first, last):
        s[j] *= factor
    clear_outside(s, first, last, n)


@native
def softmax_in_vectors(s: Ptr, n: int, lanes: Static) -> None:
    """s (n,) = softmax(s), in vectors of so many lanes."""
    if lanes == 16:
        softmax_of_vectors(s, s, n, False, 16, 4, True)
    else:
        softmax_of_vectors(s, s, n, False, lanes, 1, False)


@native
def clear_outside(s: Ptr, first: int, last: int, n: int) -> None:
    """s[:first] = s[last:n] = 0."""
    for j in range(first):
        s[j] = like(s, 0)
    for j in range(last, n):
        s[j] = like(s, 0)


@native
def softmax_row_half(s: Ptr, first: int, last: int, n: int, closed: bool, half: Static, precision: Static) -> None:
    """Compute `softmax_row` without a sink in `precision`; the probabilities are of type `half`."""
    for j in range(first, last):
        s[j] = _round_to(s[j], precision)
    if closed:
        first = last = n
    if precision == FLOAT16:
        softmax_in_place(s, first, last, "float16")
    elif precision == BFLOAT16:
        softmax_in_place(s, first, last, "bfloat16")
    else:
        softmax_in_place(s, first, last, "")
    for j in range(first, last):
        s[j] = _round_to(s[j], half)
    clear_outside(s, first, last, n)


@native
@extents(
    k="walk(kv.k_at, g.batch, kv.k_batch, kv.heads, kv.k_head, kv.length, kv.k_row, g.size, 1)",
    v="walk(kv.v_at, g.batch, kv.v_batch, kv.heads, kv.v_head, kv.length, kv.v_row, g.value_size, 1)",
    keys="g.batch * kv.heads * ceildiv(kv.length, tile.vectors * tile.lanes) * g.size * tile.vectors * tile.lanes",
    values="g.batch * kv.heads * ceildiv(g.value_size, tile.vectors * tile.lanes) * kv.length * tile.vectors * tile.lanes",
)
def pack_heads(k: Ptr, v: Ptr, keys: Ptr, values: Ptr, g: AttentionHeads, kv: Keys, tile: Tile, part: int, parts: int) -> int:
    """keys (batch, heads, ceil(length / width), size, width) = scale * K^T, values (batch, heads, ceil(.), length, width) = V."""
    width, heads, length = tile.vectors * tile.lanes, kv.heads, kv.length
    pieces, across = (length + width - 1) // width, (g.value_size + width - 1) // width
    factor = kv.scale if kv.scale != 0 else 1 / sqrt(float(g.size))
    for job in span(g.batch * heads * pieces, part, parts):
        head, t = job // pieces, job % pieces * width
        b, h = head // heads, head % heads
        count = min(length - t, width)
        source, panels = shift(k, kv.k_at + b * kv.k_batch + h * kv.k_head + t * kv.k_row), shift(keys, job * g.size * width)
        pack_panel(source, kv.k_row, True, count, g.size, factor, panels, tile.vectors, tile.lanes)
        source = shift(v, kv.v_at + b * kv.v_batch + h * kv.v_head + t * kv.v_row)
        for p in range(across):
            columns = min(g.value_size - p * width, width)
            target = shift(values, ((head * across + p) * length + t) * width)
            pack_panel(shift(source, p * width), kv.v_row, False, columns, count, 1.0, target, tile.vectors, tile.lanes)
    return OK


@native
@extents(
    q="walk(g.q_at, g.batch, g.q_batch, g.heads, g.q_head, g.rows, g.q_row, g.size, 1)",
    keys="select(less(0, g.batch), ((g.batch - 1) * kv.heads + ceildiv(g.heads, max(g.heads // max(kv.heads, 1), 1)))"
    " * ceildiv(kv.length, kv.vectors * kv.lanes) * g.size * kv.vectors * kv.lanes, 0)",
    values="select(less(0, g.batch), ((g.batch - 1) * kv.heads + ceildiv(g.heads, max(g.heads // max(kv.heads, 1), 1)))"
    " * ceildiv(g.value_size, kv.vectors * kv.lanes) * kv.length * kv.vectors * kv.lanes, 0)",
    mask="walk(0, g.batch, rules.m_batch, g.heads, rules.m_head, g.rows, rules.m_row, rules.columns, 1)",
    lengths="g.batch * select(equal(rules.past, PLACED), NUMBERS, 1)",
    sink="g.heads",
    y="walk(0, g.batch, g.y_batch, g.heads, g.y_head, g.rows, g.y_row, g.value_size, 1)",
    qk="g.batch * g.heads * g.rows * kv.length",
    scratch="select(less(0, g.batch), parts * min(BLOCK * ceildiv(kv.length, kv.vectors * kv.lanes) * kv.vectors * kv.lanes,"
    " max(SCORES, kv.rows * ceildiv(kv.length, kv.vectors * kv.lanes) * kv.vectors * kv.lanes)), 0)",
)
def attend(
    q: Ptr,
    keys: Ptr,
    values: Ptr,
    mask: Ptr,
    lengths: Ptr,
    sink: Ptr,
    y: Ptr,
    qk: Ptr,
    scratch: Ptr,
    g: AttentionHeads,
    kv: PackedKeys,
    rules: ScoreRules,
    part: int,
    parts: int,
) -> int:
    """y = softmax(Q @ keys) @ values, from packed heads, each for heads / kv.heads query heads; parts share blocks of rows.

    mask[b, h, i, :columns] lies at its steps, columns beyond are masked; qk (batch, heads, rows, length). Batch b has
    lengths[b] keys. Spec: ONNX Attention-25.
    """
    width, length = kv.vectors * kv.lanes, kv.length
    stride, across = (length + width - 1) // width * width, (g.value_size + width - 1) // width
    block = max(min(BLOCK, SCORES // max(stride, 1)) // kv.rows, 1) * kv.rows
    blocks, group = (g.rows + block - 1) // block, max(g.heads // max(kv.heads, 1), 1)
    s = shift(scratch, part * min(BLOCK * stride, max(SCORES, kv.rows * stride)))
    for job in span(g.batch * g.heads * blocks, part, parts):
        head, start = job // blocks, job % blocks * block
        b, h = head // g.heads, head % g.heads
        shared = b * kv.heads + h // group
        m = clear_padding(b, h, start, min(g.rows - start, block), lengths, y, g, rules)
        count, offset = frame(b, g.rows, length, lengths, rules)
        if m == 0:
            continue
        begin, end = 0, length
        if rules.output == NOTHING:
            begin = visible(start, offset, rules, count)[0] // width * width
            end = max(visible(start + m - 1, offset, rules, count)[1], begin)
        x = shift(q, g.q_at + b * g.q_batch + h * g.q_head + start * g.q_row)
        for j in range(begin, end, width):
            packed, out = shift(keys, (shared * stride + j) * g.size), shift(s, j - begin)
            row, last_steps = LeftOperand(x, g.q_row, 0, 1), TileEpilogue(0, x, x, 0.0, 0.0)
            panel(row, packed, packed, out, stride, m, width, g.size, last_steps, kv.rows, kv.vectors, kv.lanes)
        for i in range(start, start + m):
            first, last = visible(i, offset, rules, count)
            first, last = first - begin, last - begin
            own = shift(s, (i - start) * stride)
            added = shift(mask, b * rules.m_batch + h * rules.m_head + i * rules.m_row + begin)
            more, kept = shift(sink, 0 if null(sink) else h), shift(qk, (head * g.rows + i) * length)
            masked, output, half, precision = rules.masked, rules.output, rules.half, rules.precision
            normalise_row(
                own, first, last, end - begin, added, more, kv.softcap, kept, masked, output, half, precision, kv.exponentials
            )
        pieces, piece = cut(end - begin, DEPTH)
        for p in range(across):
            target = shift(y, b * g.y_batch + h * g.y_head + start * g.y_row + p * width)
            for t in range(pieces):
                at = t * piece
                packed = shift(values, ((shared * across + p) * length + begin + at) * width)
                depth, n = min(piece, end - begin - at), g.value_size - p * width
                row = LeftOperand(shift(s, at), stride, 0, 1)
                last_steps = TileEpilogue(0 if t == 0 else ACCUMULATE, s, s, 0.0, 0.0)
                panel(row, packed, packed, target, g.y_row, m, n, depth, last_steps, kv.rows, kv.vectors, kv.lanes)
    return OK


@native
def heads_together(group: int, jobs: int, parts: int) -> int:
    """Return the heads of a group that one part takes together: at most SHARED, and fewer if parts would be without work."""
    cuts = (parts + max(jobs, 1) - 1) // max(jobs, 1)
    return max(min((group + cuts - 1) // cuts, SHARED), 1)


@native
@extents(
    q="walk(g.q_at, g.batch, g.q_batch, g.heads, g.q_head, g.rows, g.q_row, g.size, 1)",
    k="walk(kv.k_at, g.batch, kv.k_batch, kv.heads, kv.k_head, kv.length, kv.k_row, g.size, 1)",
    v="walk(kv.v_at, g.batch, kv.v_batch, kv.heads, kv.v_head, kv.length, kv.v_row, g.value_size, 1)",
    mask="walk(0, g.batch, rules.m_batch, g.heads, rules.m_head, g.rows, rules.m_row, rules.columns, 1)",
    lengths="g.batch * select(equal(rules.past, PLACED), NUMBERS, 1)",
    sink="g.heads",
    y="walk(0, g.batch, g.y_batch, g.heads, g.y_head, g.rows, g.y_row, g.value_size, 1)",
    scratch="parts * SHARED * g.rows * (kv.length + g.size + g.value_size)",
)
def attend_few(
    q: Ptr,
    k: Ptr,
    v: Ptr,
    mask: Ptr,
    lengths: Ptr,
    sink: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: AttentionHeads,
    kv: Keys,
    rules: ScoreRules,
    vectors: RowVectors,
    part: int,
    parts: int,
) -> int:
    """Compute `attend` from keys and values in place; parts share heads, up to SHARED of a group at a time. Best for few rows.

    The scores are no result. scratch: for each of SHARED * rows rows of a part, `length` scores, a query and a result.
    """
    factor = kv.scale if kv.scale != 0 else 1 / sqrt(float(g.size))
    group, length = g.heads // max(kv.heads, 1), kv.length
    shares = heads_together(group, g.batch * kv.heads, parts)
    bunches, room = (group + shares - 1) // shares, SHARED * g.rows
    s = shift(scratch, part * room * (length + g.size + g.value_size))
    queries, sums = shift(s, room * length), shift(s, room * (length + g.size))
    for job in span(g.batch * kv.heads * bunches, part, parts):
        shared, bunch = job // bunches, job % bunches * shares
        b, kv_head = shared // kv.heads, shared % kv.heads
        h, many = kv_head * group + bunch, min(group - bunch, shares) * g.rows
        count, offset = frame(b, g.rows, length, lengths, rules)
        begin = visible(0, offset, rules, count)[0]
        end = max(visible(g.rows - 1, offset, rules, count)[1], begin)
        x = shift(q, g.q_at + b * g.q_batch + h * g.q_head)
        for r in range(many):
            at = r // g.rows * g.q_head + r % g.rows * g.q_row
            for d in range(g.size):
                queries[r * g.size + d] = x[at + d] * like(q, factor)
        key = shift(k, kv.k_at + b * kv.k_batch + kv_head * kv.k_head)
        value = shift(v, kv.v_at + b * kv.v_batch + kv_head * kv.v_head)
        most, lanes, exponentials = vectors.rows, vectors.lanes, vectors.exponentials
        left, scores = Matrix(queries, g.size), Matrix(shift(s, -begin), length)
        for t in range(begin, end, PIECE):
            score_rows(left, Matrix(key, kv.k_row), scores, g.size, t, min(t + PIECE, end), many, most, lanes, FLOATS)
        for r in range(many):
            i, hr = r % g.rows, h + r // g.rows
            first, last = visible(i, offset, rules, count)
            first, last = first - begin, last - begin
            own = shift(s, r * length)
            added = shift(mask, b * rules.m_batch + hr * rules.m_head + i * rules.m_row + begin)
            more, masked, half, precision = shift(sink, 0 if null(sink) else hr), rules.masked, rules.half, rules.precision
            normalise_row(
                own, first, last, end - begin, added, more, kv.softcap, own, masked, NOTHING, half, precision, exponentials
            )
        for d in range(many * g.value_size):
            sums[d] = like(y, 0)
        for t in range(begin, end, PIECE):
            right, out = Matrix(value, kv.v_row), Matrix(sums, g.value_size)
            blend_rows(scores, right, out, g.value_size, t, min(t + PIECE, end), many, most, lanes, FLOATS)
        for r in range(many):
            at = b * g.y_batch + (h + r // g.rows) * g.y_head + r % g.rows * g.y_row
            for d in range(g.value_size):
                y[at + d] = sums[r * g.value_size + d]
    return OK
