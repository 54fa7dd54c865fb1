"""Products with weights that stay 2, 4 or 8 bits wide in memory: each block of a column has a scale and a zero point.

The sum over a block is scale * (sum of a * code - zero * sum of a), codes and zero counted from the middle of all codes: codes are
converted as they are, and the rest is done once a block, if zero is not the middle. Few rows read the weights once, in the order of
memory; for more of them panels are unpacked for the register tile.
"""

from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, like, native, null, shift
from ort_lite_cpu.kernels.gemm.codes import WORD, BlockedProduct, Codes, WeightPanel, weight_panel
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, cut, grid
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, BIAS, LeftOperand, Tile, TileEpilogue, panel

FEW = 8
"""The most rows for which reading the codes again for every few rows costs less than unpacking them."""


def rows_together(target: Target) -> int:
    """Return the number of rows that share one pass over the weights: as many as have their sums in registers."""
    if target.vector_bytes == 64:
        return 4
    return 2 if target.has_fma else 1


def looks_up(target: Target, bits: int) -> bool:
    """Return True if codes become numbers by a table of 16 in a register, see `Codes`."""
    return bits < 8 and target.has("avx512f") and target.vector_bytes == 64


class CodeForm(NamedTuple):
    """The form of weights in memory, and the way in which kernels read them."""

    bits: StaticInt
    """2, 4 or 8."""
    given: StaticInt
    """1: there are zero points; 0: they are the middle, 2 ** (bits - 1)."""
    lookup: StaticInt
    """1: codes become numbers by a table, see `Codes`."""
    together: StaticInt
    """Rows that share one pass over the weights, see `rows_together`."""


@native
@extents(
    a="g.m * g.k",
    b="ceildiv(g.n, tile.vectors * tile.lanes) * g.blocks * (g.size * form.bits // 32) * tile.vectors * tile.lanes",
    scales="ceildiv(g.n, tile.vectors * tile.lanes) * g.blocks * tile.vectors * tile.lanes",
    zeros="ceildiv(g.n, tile.vectors * tile.lanes) * g.blocks * tile.vectors * tile.lanes",
    bias="g.n",
    y="g.m * g.n",
    scratch="parts * max(form.together * (g.blocks * g.size + g.blocks + tile.vectors * tile.lanes),"
    " DEPTH * tile.vectors * tile.lanes)",
)
def few_bits(
    a: Ptr,
    b: Ptr,
    scales: Ptr,
    zeros: Ptr,
    bias: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: BlockedProduct,
    form: CodeForm,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """y (m, n) = a (m, k) @ ((b - zeros) * scales) + bias (n,), b from `words`, scales and zeros from `columns_together`.

    Spec: onnxruntime MatMulNBits-1.
    """
    m, n, k, blocks, size = g.m, g.n, g.k, g.blocks, g.size
    width, rows, together = tile.vectors * tile.lanes, tile.rows, form.together
    own = shift(scratch, part * max(together * (blocks * size + blocks + width), DEPTH * width))
    across = (n + width - 1) // width
    if m > FEW:
        first, last, left, right = grid((m + rows - 1) // rows, across, rows, 2 * width, part, parts)
        top, ending = first * rows, 0 if null(bias) else BIAS
        x, out, count = shift(a, top * k), shift(y, top * n), min(last * rows, m) - top
        for p in range(left, right):
            j, w = p * width, weight_panel(b, scales, zeros, p, g, form.bits, width)
            _many(x, w, shift(bias, j), shift(out, j), own, count, n, n - j, k, ending, form, tile)
        return OK
    for i in range(0, m, together):
        count = min(together, m - i)
        _begin(shift(a, i * k), own, count, together, k, blocks, size)
        for p in range(across * part // parts, across * (part + 1) // parts):
            j, w = p * width, weight_panel(b, scales, zeros, p, g, form.bits, width)
            sums, out, added = shift(own, together * (blocks * size + blocks)), shift(y, i * n + j), shift(bias, j)
            _few(own, w, sums, count, form, tile.vectors, tile.lanes)
            for row in range(count):
                for column in range(min(width, n - j)):
                    own_bias = like(y, 0) if null(bias) else added[column]
                    out[row * n + column] = sums[row * width + column] + own_bias
    return OK


@native
def _begin(a: Ptr, out: Ptr, count: int, rows: int, k: int, blocks: int, size: int) -> None:
    """out = a (count, k), with zeros as (rows, blocks * size), then the sums of its blocks (rows, blocks)."""
    depth = blocks * size
    for row in range(1 if count == 1 else rows):
        there = k if row < count else 0
        for i in range(there):
            out[row * depth + i] = a[row * k + i]
        for i in range(there, depth):
            out[row * depth + i] = like(out, 0)
        for block in range(blocks):
            total = like(out, 0)
            for i in range(size):
                total += out[row * depth + block * size + i]
            out[rows * depth + row * blocks + block] = total


@native(inline=False)
def _few(
    a: Ptr,
    w: WeightPanel,
    out: Ptr,
    count: int,
    form: CodeForm,
    vectors: Static,
    lanes: Static,
) -> None:
    """out (count, width) = a @ w for rows a from `_begin`: one row, or `together`, the first `count` of which count."""
    sums = shift(a, form.together * w.blocks * w.size)
    if count == 1 or form.together == 1:
        _sums(a, sums, w, out, form, 1, vectors, lanes)
    else:
        _sums(a, sums, w, out, form, form.together, vectors, lanes)


@native(inline=False)
def _many(
    a: Ptr,
    w: WeightPanel,
    bias: Ptr,
    y: Ptr,
    scratch: Ptr,
    m: int,
    n: int,
    left: int,
    k: int,
    ending: int,
    form: CodeForm,
    tile: Tile,
) -> None:
    """y (m, n)[:, :left] = a (m, k) @ w + bias, for many rows: pieces of the panel become numbers (depth, width) in scratch.

    ending: the mode of the last piece.
    """
    share = WORD // form.bits
    words_ = (k + share - 1) // share
    pieces, some = cut(words_, DEPTH // share)
    for piece in range(pieces):
        begin, end = piece * some, min((piece + 1) * some, words_)
        _unpack(w, scratch, begin, end, form, tile.vectors, tile.lanes)
        mode = (0 if piece == 0 else ACCUMULATE) + (ending if piece == pieces - 1 else 0)
        x, depth, f = LeftOperand(shift(a, begin * share), k, 0, 1), min(end * share, k) - begin * share, scratch
        last_steps = TileEpilogue(mode, bias, bias, 0.0, 0.0)
        panel(x, f, f, y, n, m, left, depth, last_steps, tile.rows, tile.vectors, tile.lanes)


@emitter("void(*f32,*f32,*u32,*f32,*T,i64,i64,*f32,static,static,static,static,static,static,static)")
def _sums(builder: Any, a: Any, sums_of_a: Any, w: Any, out: Any, form: CodeForm, rows: int, vectors: int, lanes: int) -> None:
    """out (rows, width) = a (rows, blocks * size) @ w; `sums_of_a` (rows, blocks)."""
    b, scales, zeros, blocks, size = w
    emit, share = Codes(builder, lanes, form.bits, bool(form.lookup)), WORD // form.bits
    count, chains, width = rows * vectors, 2 if rows * vectors < 8 else 1, vectors * lanes
    depth = builder.mul(blocks, size)

    def round_of(_: Any, values: Any) -> list[Any]:
        """Emit the k of a word, which go round the chains."""
        x, codes, sums = values[0], values[1], list(values[2:])
        emit.prefetch_codes(codes, vectors)
        held = [emit.load_codes(codes, j * lanes) for j in range(vectors)]
        for number in range(share):
            first = number % chains * count
            places = [emit.move(x, builder.add(emit.mul(depth, row), emit.integer(number))) for row in range(rows)]
            left = [emit.splat(builder.load(place)) for place in places]
            for j in range(vectors):
                factor = emit.code(held[j], number)
                for row in range(rows):
                    k = first + row * vectors + j
                    sums[k] = emit.fma(left[row], factor, sums[k])
            x = emit.after(x, *sums[first : first + count])
        return [emit.move(x, emit.integer(share)), emit.move(codes, emit.integer(width)), *sums]

    def block_of(number: Any, values: Any) -> list[Any]:
        start = [values[0], values[1], *[emit.zero] * (count * chains)]
        x, codes, *sums = emit.loop(emit.integer(0), size, share, start, round_of)[1]
        if chains == 2:
            sums = emit.add_all(sums[:count], sums[count:])
        scale, zero = values[2], values[3]
        factors = [emit.load(scale, j * lanes) for j in range(vectors)]
        away = [emit.away_from_middle(zero, j * lanes) for j in range(vectors)] if form.given else []
        totals = list(values[4:])
        for row in range(rows):
            at = builder.add(emit.mul(blocks, row), number)
            of_a = emit.splat(builder.fneg(builder.load(emit.move(sums_of_a, at)))) if form.given else None
            for j in range(vectors):
                k = row * vectors + j
                found = emit.fma(of_a, away[j], sums[k]) if form.given else sums[k]
                totals[k] = emit.fma(factors[j], found, totals[k])
        return [x, codes, emit.move(scale, emit.integer(width)), emit.move(zero, emit.integer(width)), *totals]

    values = [a, b, scales, zeros, *[emit.zero] * count]
    totals = emit.loop(emit.integer(0), blocks, 1, values, block_of)[1][4:]
    for k, total in enumerate(totals):
        emit.store(total, out, k * lanes)


@emitter("void(*u32,*f32,*T,i64,i64,*f32,i64,i64,static,static,static,static,static,static)")
def _unpack(builder: Any, w: Any, out: Any, begin: Any, end: Any, form: CodeForm, vectors: int, lanes: int) -> None:
    """out (share * (end - begin), width) = the weights of words `begin` to `end` of a panel."""
    emit, share = Codes(builder, lanes, form.bits, bool(form.lookup)), WORD // form.bits
    b, scales, zeros, _, size = w
    width, words_ = vectors * lanes, builder.sdiv(size, emit.integer(share))

    def round_of(number: Any, values: Any) -> list[Any]:
        block = emit.mul(builder.sdiv(number, words_), width)
        codes, target = emit.move(b, emit.mul(number, width)), values[0]
        for j in range(vectors):
            held, factor = emit.load_codes(codes, j * lanes), emit.load(emit.move(scales, block), j * lanes)
            away = emit.away_from_middle(emit.move(zeros, block), j * lanes) if form.given else emit.zero
            for k in range(share):
                value = builder.fmul(emit.sub(emit.code(held, k), away), factor)
                emit.store(value, target, k * width + j * lanes)
        return [emit.move(target, emit.integer(share * width))]

    emit.loop(begin, end, 1, [out], round_of)
