"""Scaled dot-product attention: softmax(scale * Q @ K^T + mask) @ V for blocks of query rows, scores never leaving the cache.

Many rows: keys and values are packed once a head, then each block of rows is two products over the register tile with a softmax in
between. Few rows: packing would cost more than the products, which read keys and values in place, once for several heads.

The keys that a query sees are a range (padding, causality, windows) and, inside of it, what a mask leaves.
"""

import math
from typing import NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, REDUCE, Ptr, Static, exp, fmax, like, native, null, read_once, shift, span, sqrt, tanh
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, LeftOperand, TileEpilogue, panel
from ort_lite_cpu.kernels.gemm.pack import pack_panel
from ort_lite_cpu.kernels.halves import highest, round_to_half, softmax_in_place

FEW = 3
"""Up to this many query rows a head keys and values are read in kv."""
BLOCK = 64
"""Most query rows of one block."""
SCORES = 1 << 17
"""Scores of one block, unless BLOCK says less or one tile of rows has more."""
SHARED = 4
"""Heads that read a piece of keys and values together."""
PIECE = 64
"""Keys of such a piece."""
ROWS = 16
"""Rows of scores for which scratch must have room: one register tile, or SHARED heads of FEW rows."""
FAR = 1 << 40
"""More keys than memory holds. Lengths and windows are cut there: sums of them do not overflow."""

RAW, CAPPED, MASKED, SOFTMAX, SEEN, NOTHING = range(6)
"""What becomes of the scores beside the result: ONNX's qk_matmul_output_mode; as MASKED with 0 for what is not seen; nothing."""


class AttentionSizes(NamedTuple):
    """Sizes of an attention, and the steps of queries q, results y and masks m through memory."""

    batch: int
    heads: int
    group: int
    """Query heads of one head of keys and values."""
    rows: int
    length: int
    size: int
    value_size: int
    q_at: int
    q_batch: int
    q_head: int
    q_row: int
    y_batch: int
    y_head: int
    y_row: int
    m_batch: int
    m_head: int
    m_row: int
    columns: int
    """Keys that a mask has numbers for; those beyond are masked."""


class Keys(NamedTuple):
    """Where heads of keys and values lie."""

    k_at: int
    k_batch: int
    k_head: int
    k_row: int
    v_at: int
    v_batch: int
    v_head: int
    v_row: int
    scale: float
    """Factor of the scores; 0: 1 / sqrt(size)."""


class KeyVisibility(NamedTuple):
    """Which keys a query sees."""

    extra: int
    """Keys of a batch beyond its length."""
    past: int
    """Keys before the first query."""
    anchored: int
    """1: the last keys belong to the queries."""
    left: int
    right: int
    """-1 for `left` or `right`: no limit on that side."""
    softcap: float


@native
def visible(i: int, offset: int, rules: KeyVisibility, count: int) -> tuple[int, int]:
    """First key that query i sees, and the one after the last; -1 for `left` or `right` is no limit on that side.

    Neither falls from one query to the next: scores are stored from the first key of the first query on. That holds because `frame`
    gives counts that are keys, and it and `emit_attention` nothing beyond FAR.
    """
    last = count if rules.right < 0 else max(min(count, i + offset + rules.right + 1), 0)
    return 0 if rules.left < 0 else min(max(i + offset - rules.left, 0), last), last


@native
def frame(b: int, g: AttentionSizes, lengths: Ptr, rules: KeyVisibility) -> tuple[int, int]:
    """(valid keys of batch b, how many of them come before its first query), whatever number lengths[b] is."""
    if null(lengths):
        return min(g.length, g.columns), rules.past
    count = min(max(int(read_once(lengths, b)) + rules.extra, 0), FAR)
    return min(count, g.length, g.columns), count - g.rows if rules.anchored else rules.past


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
) -> None:
    """The n scores s become probabilities: softmax over [first, last), 0 elsewhere, and everywhere if nothing is left.

    masked: "" (no mask), "bool" (True takes part) or "add". sink: null or one more score, that of no key. The scores go to
    qk (n,) at the stage that `output` says. half: "" or the 16-bit type to which every step rounds, softmax apart, whose steps
    round to `precision`.
    """
    if half != "":
        for j in range(n):
            s[j] = round_to_half(s[j], half)
    lowest = like(s, -math.inf)
    unseen = like(s, 0) if output == SEEN else lowest
    if output == RAW:
        for j in range(n):
            qk[j] = s[j]
    if softcap > 0:
        cap = round_to_half(like(s, softcap), half)
        begin, end = (0, n) if output in (CAPPED, MASKED) else (first, last)
        for j in range(begin, end):
            s[j] = round_to_half(cap * round_to_half(tanh(round_to_half(s[j] / cap, half)), half), half)
    if output == CAPPED:
        for j in range(n):
            qk[j] = s[j]
    open_ = like(s, 0)
    if masked == "bool":
        for j in range(first, last):
            s[j] = s[j] if mask[j] != 0 else lowest
    elif masked == "add":
        open_ = lowest
        for j in range(first, last):
            open_ = fmax(open_, mask[j])
            s[j] = round_to_half(s[j] + mask[j], half)
    for j in range(first):
        s[j] = unseen
    for j in range(last, n):
        s[j] = unseen
    if output in (MASKED, SEEN):
        for j in range(n):
            qk[j] = s[j]
    if half == precision == "":
        softmax_row(s, first, last, n, sink, open_ == lowest)
    else:
        softmax_row_half(s, first, last, n, open_ == lowest, half, precision)
    if output == SOFTMAX:
        for j in range(n):
            qk[j] = s[j]


@native(fastmath=REDUCE)
def softmax_row(s: Ptr, first: int, last: int, n: int, sink: Ptr, closed: bool) -> None:
    """In place over [first, last), zeros elsewhere; zeros everywhere if `closed`, or no score is above -inf."""
    top = like(s, -math.inf)
    for j in range(first, last):
        top = fmax(top, s[j])
    total = like(s, 0)
    if not null(sink):
        top = fmax(top, sink[0])
        total = exp(sink[0] - top)
    if closed or top == like(s, -math.inf):
        first = last = n
    for j in range(first, last):
        e = exp(s[j] - top)
        s[j] = e
        total += e
    factor = like(s, 1) / total
    for j in range(first, last):
        s[j] *= factor
    for j in range(first):
        s[j] = like(s, 0)
    for j in range(last, n):
        s[j] = like(s, 0)


@native
def softmax_row_half(s: Ptr, first: int, last: int, n: int, closed: bool, half: Static, precision: Static) -> None:
    """As `softmax_row`, without a sink, computed in `precision` ("": that of s); the probabilities are of type `half`."""
    for j in range(first, last):
        s[j] = round_to_half(s[j], precision)
    if closed or highest(s, first, last) == like(s, -math.inf):
        first = last = n
    softmax_in_place(s, first, last, precision)
    for j in range(first, last):
        s[j] = round_to_half(s[j], half)
    for j in range(first):
        s[j] = like(s, 0)
    for j in range(last, n):
        s[j] = like(s, 0)


@native
@extents(
    k="walk(k_at, batch, k_batch, heads, k_head, length, k_row, size, 1)",
    v="walk(v_at, batch, v_batch, heads, v_head, length, v_row, value_size, 1)",
    keys="select(less(FEW, rows), batch * heads * ceildiv(length, vectors * lanes) * size * vectors * lanes, 0)",
    values="select(less(FEW, rows), batch * heads * ceildiv(value_size, vectors * lanes) * length * vectors * lanes, 0)",
)
def pack_heads(
    k: Ptr,
    v: Ptr,
    keys: Ptr,
    values: Ptr,
    heads: int,
    rows: int,
    length: int,
    size: int,
    value_size: int,
    kv: Keys,
    batch: int,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """Panels of scale * K^T (batch, heads, ceil(length / width), size, width) and V (batch, heads, ceil(.), length, width)."""
    width = vectors * lanes
    pieces, across = (length + width - 1) // width, (value_size + width - 1) // width
    factor = kv.scale if kv.scale != 0 else 1 / sqrt(float(size))
    if rows <= FEW:
        return OK
    for job in span(batch * heads * pieces, part, parts):
        head, t = job // pieces, job % pieces * width
        b, h = head // heads, head % heads
        count = min(length - t, width)
        source = shift(k, kv.k_at + b * kv.k_batch + h * kv.k_head + t * kv.k_row)
        pack_panel(source, kv.k_row, True, count, size, factor, shift(keys, job * size * width), vectors, lanes)
        source = shift(v, kv.v_at + b * kv.v_batch + h * kv.v_head + t * kv.v_row)
        for p in range(across):
            columns = min(value_size - p * width, width)
            target = shift(values, ((head * across + p) * length + t) * width)
            pack_panel(shift(source, p * width), kv.v_row, False, columns, count, 1.0, target, vectors, lanes)
    return OK


@native
@extents(
    q="walk(q_at, batch, q_batch, heads, q_head, rows, q_row, size, 1)",
    keys="select(less(FEW, rows), ((batch - 1) * (heads // group) + ceildiv(heads, max(group, 1)))"
    " * ceildiv(length, vectors * lanes) * size * vectors * lanes, 0)",
    values="select(less(FEW, rows), ((batch - 1) * (heads // group) + ceildiv(heads, max(group, 1)))"
    " * ceildiv(value_size, vectors * lanes) * length * vectors * lanes, 0)",
    mask="walk(0, batch, m_batch, heads, m_head, rows, m_row, columns, 1)",
    lengths="batch",
    sink="heads",
    y="walk(0, batch, y_batch, heads, y_head, rows, y_row, value_size, 1)",
    qk="batch * heads * rows * length",
    scratch="(parts - 1) * room + min(BLOCK * ceildiv(length, vectors * lanes) * vectors * lanes,"
    " max(SCORES, ROWS * ceildiv(length, vectors * lanes) * vectors * lanes))",
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
    g: AttentionSizes,
    rules: KeyVisibility,
    room: int,
    masked: Static,
    output: Static,
    half: Static,
    precision: Static,
    tall: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y = softmax(Q @ keys) @ values, from packed heads, a head for each `group` of query heads; parts share blocks of rows.

    mask[b, h, i, :columns] lies at its steps, what is beyond is masked; qk (batch, heads, rows, length); scratch: `room` elements
    a part. Batch b has lengths[b] + extra keys, of which, if `anchored`, the last `rows` belong to the queries, else `past`
    come before them. Spec: ONNX Attention-25.
    """
    width = vectors * lanes
    stride, across = (g.length + width - 1) // width * width, (g.value_size + width - 1) // width
    block = max(min(BLOCK, SCORES // max(stride, 1)) // tall, 1) * tall
    blocks = (g.rows + block - 1) // block
    s = shift(scratch, part * room)
    if g.rows <= FEW:
        return OK
    for job in span(g.batch * g.heads * blocks, part, parts):
        head, start = job // blocks, job % blocks * block
        b, h = head // g.heads, head % g.heads
        shared = b * (g.heads // g.group) + h // g.group
        m = min(g.rows - start, block)
        count, offset = frame(b, g, lengths, rules)
        begin, end = 0, g.length
        if output == NOTHING:
            begin = visible(start, offset, rules, count)[0] // width * width
            end = max(visible(start + m - 1, offset, rules, count)[1], begin)
        x = shift(q, g.q_at + b * g.q_batch + h * g.q_head + start * g.q_row)
        for j in range(begin, end, width):
            packed = shift(keys, (shared * stride + j) * g.size)
            out = shift(s, j - begin)
            panel(
                LeftOperand(x, g.q_row, 0, 1),
                packed,
                packed,
                out,
                stride,
                m,
                width,
                g.size,
                TileEpilogue(0, x, x, 0.0, 0.0),
                tall,
                vectors,
                lanes,
            )
        for i in range(start, start + m):
            first, last = visible(i, offset, rules, count)
            first, last = first - begin, last - begin
            own, added = shift(s, (i - start) * stride), shift(mask, b * g.m_batch + h * g.m_head + i * g.m_row + begin)
            more, kept = shift(sink, 0 if null(sink) else h), shift(qk, (head * g.rows + i) * g.length)
            normalise_row(own, first, last, end - begin, added, more, rules.softcap, kept, masked, output, half, precision)
        pieces, piece = cut(end - begin, DEPTH)
        for p in range(across):
            target = shift(y, b * g.y_batch + h * g.y_head + start * g.y_row + p * width)
            for t in range(pieces):
                at = t * piece
                packed = shift(values, ((shared * across + p) * g.length + begin + at) * width)
                own, depth, n = shift(s, at), min(piece, end - begin - at), g.value_size - p * width
                mode = 0 if t == 0 else ACCUMULATE
                panel(
                    LeftOperand(own, stride, 0, 1),
                    packed,
                    packed,
                    target,
                    g.y_row,
                    m,
                    n,
                    depth,
                    TileEpilogue(mode, s, s, 0.0, 0.0),
                    tall,
                    vectors,
                    lanes,
                )
    return OK


@native
@extents(
    q="walk(q_at, batch, q_batch, heads, q_head, rows, q_row, size, 1)",
    k="walk(k_at, batch, k_batch, heads // group, k_head, length, k_row, size, 1)",
    v="walk(v_at, batch, v_batch, heads // group, v_head, length, v_row, value_size, 1)",
    mask="walk(0, batch, m_batch, heads, m_head, rows, m_row, columns, 1)",
    lengths="batch",
    sink="heads",
    y="walk(0, batch, y_batch, heads, y_head, rows, y_row, value_size, 1)",
    qk="batch * heads * rows * length",
    scratch="(parts - 1) * room + SHARED * FEW * length",
)
def attend_few(
    q: Ptr,
    k: Ptr,
    v: Ptr,
    mask: Ptr,
    lengths: Ptr,
    sink: Ptr,
    y: Ptr,
    qk: Ptr,
    scratch: Ptr,
    g: AttentionSizes,
    rules: KeyVisibility,
    room: int,
    kv: Keys,
    masked: Static,
    output: Static,
    half: Static,
    precision: Static,
    part: int,
    parts: int,
) -> int:
    """As `attend` for at most FEW rows and heads that are not packed; parts share heads, up to SHARED of a group at a time."""
    factor = kv.scale if kv.scale != 0 else 1 / sqrt(float(g.size))
    bunches = (g.group + SHARED - 1) // SHARED
    s = shift(scratch, part * room)
    if g.rows > FEW:
        return OK
    for job in span(g.batch * (g.heads // g.group) * bunches, part, parts):
        shared, bunch = job // bunches, job % bunches * SHARED
        b, kv_head = shared // (g.heads // g.group), shared % (g.heads // g.group)
        h, many = kv_head * g.group + bunch, min(g.group - bunch, SHARED) * g.rows
        count, offset = frame(b, g, lengths, rules)
        begin, end = 0, g.length
        if output == NOTHING:
            begin = visible(0, offset, rules, count)[0]
            end = max(visible(g.rows - 1, offset, rules, count)[1], begin)
        x = shift(q, g.q_at + b * g.q_batch + h * g.q_head)
        key = shift(k, kv.k_at + b * kv.k_batch + kv_head * kv.k_head)
        for t in range(begin, end, PIECE):
            for r in range(many):
                row, out = shift(x, r // g.rows * g.q_head + r % g.rows * g.q_row), shift(s, r * g.length - begin)
                score(row, key, kv.k_row, t, min(t + PIECE, end), g.size, factor, out)
        for r in range(many):
            i, hr = r % g.rows, h + r // g.rows
            first, last = visible(i, offset, rules, count)
            first, last = first - begin, last - begin
            own, added = shift(s, r * g.length), shift(mask, b * g.m_batch + hr * g.m_head + i * g.m_row + begin)
            more, kept = shift(sink, 0 if null(sink) else hr), shift(qk, ((b * g.heads + hr) * g.rows + i) * g.length)
            normalise_row(own, first, last, end - begin, added, more, rules.softcap, kept, masked, output, half, precision)
        target, value = (shift(y, b * g.y_batch + h * g.y_head), shift(v, kv.v_at + b * kv.v_batch + kv_head * kv.v_head))
        for r in range(many):
            out = shift(target, r // g.rows * g.y_head + r % g.rows * g.y_row)
            for d in range(g.value_size):
                out[d] = like(y, 0)
        for t in range(begin, end, PIECE):
            for r in range(many):
                out = shift(target, r // g.rows * g.y_head + r % g.rows * g.y_row)
                blend(shift(s, r * g.length - begin), value, kv.v_row, t, min(t + PIECE, end), g.value_size, out)
    return OK


@native(fastmath=REDUCE)
def score(x: Ptr, keys: Ptr, step: int, first: int, last: int, size: int, scale: float, s: Ptr) -> None:
    """s[t] = scale * x . keys[t] for t in [first, last)."""
    for t in range(first, last):
        total = like(x, 0)
        for d in range(size):
            total += x[d] * keys[t * step + d]
        s[t] = total * like(x, scale)


@native(fastmath=REDUCE)
def blend(p: Ptr, values: Ptr, step: int, first: int, last: int, size: int, y: Ptr) -> None:
    """y += p[t] * values[t] for t in [first, last), four t at a time."""
    t = first
    while t + 4 <= last:
        a, b, c, d = t * step, (t + 1) * step, (t + 2) * step, (t + 3) * step
        for i in range(size):
            y[i] += p[t] * values[a + i] + p[t + 1] * values[b + i] + p[t + 2] * values[c + i] + p[t + 3] * values[d + i]
        t += 4
    while t < last:
        for i in range(size):
            y[i] += p[t] * values[t * step + i]
        t += 1
