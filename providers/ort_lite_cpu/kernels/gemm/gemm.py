"""Blocked matrix products over the register tile, whose bits do not depend on how parts share rows and panels of columns."""

from typing import NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, shift, span, wadd, wmul
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.few_rows import StridedProduct, few_rows
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, Tile, TileEpilogue, mode_of, panel, widen_panel
from ort_lite_cpu.kernels.gemm.pack import pack_panel

DEPTH = 384
"""The most of K in one pass: a panel of that depth and the rows that meet it fit the first cache level."""
WIDE = 2 * DEPTH
"""The most of K in one pass over constant panels that are wide: those are read from the second cache level in any case."""
BLOCK = 240
"""The approximate number of rows in a block: so many rows and DEPTH columns fit the second cache level."""
KEPT = 1 << 18
"""The most elements of a b that stays in the second cache level: reading them again costs less than reading rows again."""


@native
def cut(k: int, depth: int) -> tuple[int, int]:
    """Return (number of pieces, size of a piece) of a depth of k; one empty piece for k = 0."""
    pieces = max((k + depth - 1) // depth, 1)
    return pieces, (k + pieces - 1) // pieces


@native
def depth_of(vectors: int) -> int:
    """Return the most of K in one pass over constant panels."""
    return DEPTH if vectors < 4 else WIDE


@native
def grid(rows: int, columns: int, height: int, width: int, part: int, parts: int) -> tuple[int, int, int, int]:
    """Return this part's first and last row, first and last column, of a grid that all parts share as evenly as they can.

    If several ways are equally even, up to a 64th, the one that reads the least twice wins: each cut through the columns reads all
    rows again, `height` each; each cut through the rows reads all columns again, `width` each.
    """
    best, least, across = rows * columns + 1, 0, 1
    for cuts in range(1, parts + 1):
        if parts % cuts == 0:
            down = parts // cuts
            most = ((rows + down - 1) // down) * ((columns + cuts - 1) // cuts)
            again = rows * height * cuts + columns * width * down
            slack = most >> 6
            if most + slack < best or (most <= best + slack and again < least):
                best, least, across = most, again, cuts
    down = parts // across
    i, j = part // across, part % across
    return rows * i // down, rows * (i + 1) // down, columns * j // across, columns * (j + 1) // across


@native
@extents(
    a="m * k", b="ceildiv(n, tile.vectors * tile.lanes) * k * tile.vectors * tile.lanes", bias="n", residual="m * n", c="m * n"
)
def gemm(
    a: Ptr,
    b: Ptr,
    bias: Ptr,
    residual: Ptr,
    c: Ptr,
    m: int,
    n: int,
    k: int,
    act: ActivationParameters,
    kind: Static,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """c (m, n) = kind(clip(a (m, k) @ b + bias (n,) + residual (m, n), low, high)), b from `pack.panels`.

    c may be the residual's memory where one pass takes all of k. Spec: ONNX MatMul-13, Gemm-13.
    """
    return _gemm(GemmOperands(a, b, bias, residual, c, c), m, n, k, act, kind, tile, False, part, parts)


@native
@extents(
    a="m * k",
    b="ceildiv(n, tile.vectors * tile.lanes) * k * tile.vectors * tile.lanes",
    bias="n",
    residual="m * n",
    c="m * n",
    scratch="parts * WIDE * tile.vectors * tile.lanes",
)
def float16_gemm(
    a: Ptr,
    b: Ptr,
    bias: Ptr,
    residual: Ptr,
    c: Ptr,
    scratch: Ptr,
    m: int,
    n: int,
    k: int,
    act: ActivationParameters,
    kind: Static,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """c = the product that `gemm` computes, bit for bit, for a b of bits of float16; scratch (parts, WIDE, vectors * lanes).

    A panel that several tiles of rows read is widened once for each block of rows. Spec: ONNX MatMul-13, Gemm-13.
    """
    wide = shift(scratch, part * WIDE * tile.vectors * tile.lanes)
    return _gemm(GemmOperands(a, b, bias, residual, c, wide), m, n, k, act, kind, tile, True, part, parts)


class GemmOperands(NamedTuple):
    """The operands of a product with a packed matrix; `wide` is room for a piece of a panel that is widened."""

    a: Ptr
    b: Ptr
    bias: Ptr
    residual: Ptr
    c: Ptr
    wide: Ptr


@native
def _gemm(
    x: GemmOperands,
    m: int,
    n: int,
    k: int,
    act: ActivationParameters,
    kind: Static,
    tile: Tile,
    half: Static,
    part: int,
    parts: int,
) -> int:
    """Compute this part of `gemm`, or of `float16_gemm` if `half`.

    For each block of rows, each piece of the depth and each panel: the panel stays in the first cache level, the block in the second.
    """
    width = tile.vectors * tile.lanes
    again = 2 * width if k * n > KEPT else 0
    first, last, left, right = grid((m + tile.rows - 1) // tile.rows, (n + width - 1) // width, tile.rows, again, part, parts)
    last = min(last * tile.rows, m)
    pieces, size = cut(k, depth_of(tile.vectors) if m > tile.rows else k)
    block = max(BLOCK // tile.rows, 1) * tile.rows
    for i in range(first * tile.rows, last, block):
        count = min(block, last - i)
        for piece in range(pieces):
            start = piece * size
            depth = min(size, k - start)
            mode = mode_of(piece == 0, piece == pieces - 1, x.bias, x.residual, act.low, act.high)
            for p in range(left, right):
                j = p * width
                at = i * n + j
                row, factors = LeftOperand(shift(x.a, i * k + start), k, 0, 1), shift(x.b, (p * k + start) * width)
                y, end = shift(x.c, at), TileEpilogue(mode, shift(x.bias, j), shift(x.residual, at), act.low, act.high)
                soon = shift(factors, k * width if p + 1 < right else 0)
                once = count > tile.rows
                if half and once:
                    widen_panel(row, factors, x.wide, soon, y, n, count, n - j, depth, end, tile.rows, tile.vectors, tile.lanes)
                else:
                    panel(row, factors, soon, y, n, count, n - j, depth, end, tile.rows, tile.vectors, tile.lanes)
        if kind != "":
            activate(
                shift(x.c, i * n + left * width), n, count, min(right * width, n) - left * width, act.alpha, act.beta, kind
            )
    return OK


class Batches(NamedTuple):
    """The matrices (d0, d1, d2) of a result, and the steps of both operands from one to the next."""

    d0: int
    d1: int
    d2: int
    a0: int
    a1: int
    a2: int
    b0: int
    b1: int
    b2: int


@native
@extents(
    a="walk(0, g.d0, g.a0, g.d1, g.a1, g.d2, g.a2, each.m, each.lda, each.k, 1)",
    b="walk(0, g.d0, g.b0, g.d1, g.b1, g.d2, g.b2, each.n if transposed else each.k, each.ldb,"
    " each.k if transposed else each.n, 1)",
    bias="each.n",
    residual="g.d0 * g.d1 * g.d2 * each.m * each.n",
    c="g.d0 * g.d1 * g.d2 * each.m * each.n",
    scratch="parts * DEPTH * tile.vectors * tile.lanes",
)
def matmul(
    a: Ptr,
    b: Ptr,
    bias: Ptr,
    residual: Ptr,
    c: Ptr,
    scratch: Ptr,
    each: StridedProduct,
    act: ActivationParameters,
    g: Batches,
    transposed: Static,
    kind: Static,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """c (d0, d1, d2, m, n) = kind(clip(scale * a @ b + bias (n,) + residual, low, high)) for a b that is not packed.

    a[i] is (m, k) at i . (a0, a1, a2), rows `lda` apart; b[i] is (k, n), or (n, k) if transposed, at i . (b0, b1, b2), rows
    `ldb` apart. Panels are packed into `scratch` (parts, DEPTH, vectors * lanes) just before they are used. Products of at most
    `few` rows read b in place instead. Spec: ONNX MatMul-13.
    """
    m, n, k = each.m, each.n, each.k
    width = tile.vectors * tile.lanes
    across = max((n + width - 1) // width, 1)
    down = (m + tile.rows - 1) // tile.rows
    columns = g.d0 * g.d1 * g.d2 * across  # they are packed as well
    first, last, left, right = grid(down, columns, tile.rows, 2 * width, part, parts)
    top, bottom = first * tile.rows, min(last * tile.rows, m)
    pieces, size = cut(k, DEPTH)
    factors, count = shift(scratch, part * DEPTH * width), bottom - top
    for batch in range(left // across, (right + across - 1) // across):
        i2, i1, i0 = batch % g.d2, batch // g.d2 % g.d1, batch // g.d2 // g.d1
        x = shift(a, i0 * g.a0 + i1 * g.a1 + i2 * g.a2 + top * each.lda)
        w = shift(b, i0 * g.b0 + i1 * g.b1 + i2 * g.b2)
        out = (batch * m + top) * n
        begin, end = max(left - batch * across, 0) * width, min(min(right - batch * across, across) * width, n)
        if m <= each.few:
            mode = mode_of(True, True, bias, residual, act.low, act.high)
            own = StridedProduct(count, n, k, each.lda, each.ldb, each.scale, each.few)
            few_end = TileEpilogue(mode, bias, shift(residual, out), act.low, act.high)
            few_rows(x, w, shift(c, out), own, begin, end, few_end, transposed)
        else:
            for j in range(begin, end, width):
                for piece in range(pieces):
                    start = piece * size
                    depth = min(size, k - start)
                    mode = mode_of(piece == 0, piece == pieces - 1, bias, residual, act.low, act.high)
                    source, some = shift(w, j * each.ldb + start if transposed else start * each.ldb + j), min(n - j, width)
                    pack_panel(source, each.ldb, transposed, some, depth, each.scale, factors, tile.vectors, tile.lanes)
                    row, f, y = LeftOperand(shift(x, start), each.lda, 0, 1), factors, shift(c, out + j)
                    last_steps = TileEpilogue(mode, shift(bias, j), shift(residual, out + j), act.low, act.high)
                    panel(row, f, f, y, n, count, n - j, depth, last_steps, tile.rows, tile.vectors, tile.lanes)
        if kind != "":
            activate(shift(c, out + begin), n, count, end - begin, act.alpha, act.beta, kind)
    return OK


@native
@extents(
    a="walk(0, g.d0, g.a0, g.d1, g.a1, g.d2, g.a2, m * k, 1)",
    b="walk(0, g.d0, g.b0, g.d1, g.b1, g.d2, g.b2, k * n, 1)",
    c="g.d0 * g.d1 * g.d2 * m * n",
)
def integer_matmul(a: Ptr, b: Ptr, c: Ptr, m: int, n: int, k: int, g: Batches, part: int, parts: int) -> int:
    """c (d0, d1, d2, m, n) = a @ b for integers, which wrap; a[i] (m, k), b[i] (k, n) as of `matmul`. Spec: ONNX MatMul-13."""
    for row in span(g.d0 * g.d1 * g.d2 * m, part, parts):
        batch, i = row // m, row % m
        i2, i1, i0 = batch % g.d2, batch // g.d2 % g.d1, batch // g.d2 // g.d1
        x = i0 * g.a0 + i1 * g.a1 + i2 * g.a2 + i * k
        w = i0 * g.b0 + i1 * g.b1 + i2 * g.b2
        for j in range(n):
            c[row * n + j] = like(c, 0)
        for p in range(k):
            factor = a[x + p]
            for j in range(n):
                c[row * n + j] = wadd(c[row * n + j], wmul(factor, b[w + p * n + j]))
    return OK


@native
@extents(x="walk(0, m, row, n, column)", y="m * n")
def scale_by(x: Ptr, y: Ptr, m: int, n: int, row: int, column: int, factor: float, part: int, parts: int) -> int:
    """y (m, n) = factor * x, x broadcast by its strides `row` and `column`."""
    for i in span(m, part, parts):
        for j in range(n):
            y[i * n + j] = x[i * row + j * column] * like(y, factor)
    return OK
