"""Products of bfloat16 by instructions that multiply pairs of k, or tiles, and add in float32.

A product of two bfloat16 is exact in float32, so that only the order of additions differs from float32 products of the same numbers,
and the bound of the error is the same. Measured against float64, the root mean square error of tiles is at most that of onnxruntime's
float32 product, for k from 64 to 8,192; that of vectors is up to 7% more for k = 8,192 (decision 0095). Numbers below 2 ** -126, of
operands and results, count as 0: such an operand adds an error of at most 2 ** -126 times the other factor. NaN and infinities are as
of float32. A bfloat16 result is rounded once, to nearest even.
Spec: Intel SDM, VDPBF16PS and TDPBF16PS.
"""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, shift
from ort_lite_cpu.kernels.gemm.amx import TileBlock, configure_tiles, end_tiles
from ort_lite_cpu.kernels.gemm.bfloat16_epilogue import Bfloat16Dots, Bfloat16Ending, Bfloat16Epilogue
from ort_lite_cpu.kernels.gemm.bfloat16_tile import Bfloat16Tile
from ort_lite_cpu.kernels.gemm.byte_dots import STRIP, dot_sums
from ort_lite_cpu.kernels.gemm.gemm import Batches, grid
from ort_lite_cpu.kernels.gemm.integer import block_rows
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, from_row

NEEDS = "avx512f,avx512bw,avx512bf16,amx-tile,amx-bf16|avx512f,avx512bw,avx512bf16"
"""The CPU features of the instructions that `bfloat16_tile` chooses among."""
STRIP_TILES = 4
"""The tiles of rows that meet a panel before the next panel does."""
LEFT = 1 << 19
"""The most elements in a block of rows that are copied: half of the second cache level of CPUs with AMX."""
PIECE, TILE_PIECE = 96, 256
"""The pairs of k in a sum, in vector registers and in tiles, which add fewer numbers one after the other.

Longer sums are sums of such: their error is at most that of float32 products, which are cut alike.
"""
PIECES = 22
"""The most such sums, which are longer for a large k: each addition of a piece rounds a number of the size of the result."""


class Bfloat16Product(NamedTuple):
    """The sizes of each product (m, n) over k. Rows of a are `lda` apart."""

    m: int
    n: int
    k: int
    lda: int
    size: int
    """Elements of scratch for each part."""


class TilePanel(NamedTuple):
    """A piece of a packed panel as bytes, whose sums start from 0."""

    b: Any
    depth: Any
    starts: Any = None


class Bfloat16Panel(NamedTuple):
    """A piece of a packed panel of a right operand."""

    b: Ptr
    depth: int


@native
@extents(
    a="walk(0, g.d0, g.a0, g.d1, g.a1, g.d2, g.a2, each.m, each.lda, each.k, 1)",
    b="walk(0, g.d0, g.b0, g.d1, g.b1, g.d2, g.b2, ceildiv(each.n, tile.vectors * tile.lanes) * ceildiv(each.k, 2 * tile.pairs)"
    " * tile.pairs * tile.vectors * tile.lanes * 2, 1)",
    bias="each.n if biased else 0",
    c="g.d0 * g.d1 * g.d2 * each.m * each.n",
    scratch="(parts - 1) * each.size + min(max(LEFT, tile.rows * 2 * (ceildiv(each.k, 2 * tile.pairs) + 1) * tile.pairs),"
    " ceildiv(each.m, tile.rows) * tile.rows * 2 * (ceildiv(each.k, 2 * tile.pairs) + 1) * tile.pairs)",
    sums="parts * STRIP_TILES * tile.rows * tile.vectors * tile.lanes",
)
def bfloat16_gemm(
    a: Ptr,
    b: Ptr,
    bias: Ptr,
    c: Ptr,
    scratch: Ptr,
    sums: Ptr,
    each: Bfloat16Product,
    g: Batches,
    biased: Static,
    tile: Bfloat16Tile,
    part: int,
    parts: int,
) -> int:
    """c (d0, d1, d2, m, n) = a (m, k) @ b (k, n) + bias (n,), a and b bfloat16, b packed; c is float32, or rounded to bfloat16.

    Matrix i of a begins at i . (a0, a1, a2), that of b at i . (b0, b1, b2). Tiles read rows of a from copies in scratch (parts, size),
    which do not lie a power of two apart; so do vectors if k is odd. Parts share blocks of rows and panels. Spec: ONNX MatMul-13.
    """
    m, n, k = each.m, each.n, each.k
    width, depth = tile.vectors * tile.lanes, (k + 2 * tile.pairs - 1) // (2 * tile.pairs) * tile.pairs
    across, share = (n + width - 1) // width, (m + parts - 1) // parts
    there = tile.amx == 0 and k % 2 == 0
    pitch = 2 * (depth + tile.pairs)
    block = block_rows(m, pitch, tile.rows, parts, LEFT)
    if there:
        block = max((share + tile.rows - 1) // tile.rows, 1) * tile.rows
    down = (m + block - 1) // block
    scratch, sums = shift(scratch, part * each.size), shift(sums, part * STRIP_TILES * tile.rows * width)
    first, last, left, right = grid(g.d0 * g.d1 * g.d2 * down, across, block, width, part, parts)
    some = max(STRIP // (depth * 4 * width + 1), 1)
    for number in range(first, last):
        i, top = number // down, number % down * block
        i0, i1, i2, count = i // g.d2 // g.d1, i // g.d2 % g.d1, i % g.d2, min(block, m - top)
        source, target = shift(a, i0 * g.a0 + i1 * g.a1 + i2 * g.a2 + top * each.lda), shift(c, (i * m + top) * n)
        matrix, rows = shift(b, i0 * g.b0 + i1 * g.b1 + i2 * g.b2), LeftOperand(source, each.lda, 0, 1)
        if not there:
            _copy_rows(source, each.lda, scratch, pitch, count, k)
            rows = LeftOperand(scratch, pitch, 0, 1)
        whole = count // tile.rows * tile.rows if tile.amx else count
        rest = from_row(rows, whole)
        for j in range(left, right, some):
            end = min(j + some, right)
            _strip(rows, matrix, bias, sums, target, whole, each, j, end, biased, tile)
            _strip(rest, matrix, bias, sums, shift(target, whole * n), count - whole, each, j, end, biased, tile)
    end_tiles(tile.amx)
    return OK


@native
def _copy_rows(x: Ptr, ldx: int, out: Ptr, pitch: int, m: int, k: int) -> None:
    """out (m, pitch) = x (m, k), rows `ldx` apart, with zeros at the ends."""
    for i in range(m):
        source, target = shift(x, i * ldx), shift(out, i * pitch)
        for p in range(k):
            target[p] = source[p]
        for p in range(k, pitch):
            target[p] = like(out, 0)


@native
def _strip(
    left: LeftOperand,
    b: Ptr,
    bias: Ptr,
    sums: Ptr,
    c: Ptr,
    m: int,
    each: Bfloat16Product,
    start: int,
    stop: int,
    biased: Static,
    tile: Bfloat16Tile,
) -> None:
    """c (m, n) = left (m, k) @ b + bias for the panels from `start` to `stop`, a few rows after the other.

    m is a multiple of the rows of tiles, or below. Sums over a piece of the depth are added to those before.
    """
    width, depth = tile.vectors * tile.lanes, (each.k + 2 * tile.pairs - 1) // (2 * tile.pairs) * tile.pairs
    n, some, slim = each.n, STRIP_TILES * tile.rows, each.m == 1
    most = max(TILE_PIECE if tile.amx and not slim else PIECE, depth // PIECES)
    pieces = max((depth + most - 1) // most, 1)
    size = ((depth + pieces - 1) // pieces + tile.pairs - 1) // tile.pairs * tile.pairs
    if m > 0:
        configure_tiles(min(m, tile.rows), tile.amx)
    for i in range(0, m, some):
        for p in range(start, stop):
            j, y = p * width, shift(c, i * n + p * width)
            for piece in range(pieces):
                begin = min(piece * size, depth)
                x = LeftOperand(shift(left.at, i * left.row + 2 * begin), left.row, 0, 1)
                right = Bfloat16Panel(shift(b, (j * depth + begin * width) * 2), min(size, depth - begin))
                end = Bfloat16Ending(shift(bias, j), sums, piece > 0, piece == pieces - 1)
                bfloat16_panel(x, right, end, y, n, min(some, m - i), n - j, slim, biased, tile)


@native(inline=False)
def bfloat16_panel(
    left: LeftOperand,
    right: Bfloat16Panel,
    end: Bfloat16Ending,
    c: Ptr,
    ldc: int,
    m: int,
    n: int,
    slim: int,
    biased: Static,
    tile: Bfloat16Tile,
) -> None:
    """c (m, n) = end(left (m, 2 * depth) @ one panel); rows of c `ldc` apart.

    A product of one row, `slim`, is computed in vector registers.
    """
    i, width = 0, tile.vectors * tile.lanes
    if tile.amx and slim:
        _tile(left, right, end, c, ldc, 1, n, 1, tile.vectors, tile.lanes, 0, biased)
        i = 1
    while m - i > tile.rows - tile.few:
        x, y = from_row(left, i), shift(c, i * ldc)
        own = Bfloat16Ending(end.bias, shift(end.sums, i * width), end.add, end.last)
        _tile(x, right, own, y, ldc, m - i, n, tile.rows, tile.vectors, tile.lanes, tile.amx, biased)
        i += tile.rows
    while i < m:
        x, y = from_row(left, i), shift(c, i * ldc)
        own = Bfloat16Ending(end.bias, shift(end.sums, i * width), end.add, end.last)
        _tile(x, right, own, y, ldc, m - i, n, tile.few, tile.vectors, tile.lanes, tile.amx, biased)
        i += tile.few


@emitter(
    "void(*u16,i64,i64,i64,*u16,i64,*f32,*f32,i64,i64,*T,i64,i64,i64,static,static,static,static,static)",
    needs=NEEDS,
)
def _tile(
    builder: Any,
    left: Any,
    right: Any,
    end: Any,
    c: Any,
    ldc: Any,
    m: Any,
    n: Any,
    rows: int,
    vectors: int,
    lanes: int,
    amx: int,
    biased: int,
) -> None:
    """c (min(m, rows), min(n, vectors * lanes)) = end(left @ right)."""
    emit = Bfloat16Dots(builder, lanes)
    epilogue = Bfloat16Epilogue(emit, end, c, ldc, n, vectors, biased)
    x = LeftOperand(emit.bytes(left.at), emit.mul(left.row, 2), emit.integer(0), emit.integer(1))
    panel = TilePanel(emit.bytes(right.b), right.depth)
    if amx:
        block = TileBlock(emit, x, panel, "tdpbf16ps")
        count = builder.select(builder.icmp_signed("<", m, emit.integer(rows)), m, emit.integer(rows))
        block.compute(count)
        block.store_tiles(count, block.buffer, emit.integer(4 * vectors * lanes))
        held = builder.bitcast(block.buffer, emit.element.as_pointer())
        epilogue.store_rows(count, lambda row, j: emit.load(emit.move(held, emit.mul(row, vectors * lanes)), j * lanes))
        return
    totals = dot_sums(emit, x, panel, [emit.zero] * vectors, rows)
    for i in range(rows):
        with builder.if_then(builder.icmp_signed("<", emit.integer(i), m)):
            epilogue.store(totals[i * vectors : (i + 1) * vectors], emit.integer(i))
