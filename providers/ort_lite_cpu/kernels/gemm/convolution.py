"""Convolution as a matrix product, channels last: rows are output pixels, gathered block by block, and columns output channels.

A block of rows holds the input that its pixels read, for one piece of the depth. This scratch stays in the second cache level and
never holds the whole "im2col" matrix. The depth is ordered (kd, kh, kw, channel), so that the input of a pixel in one row is one
run of memory where taps are neighbours.
"""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, shift
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.gemm import cut, depth_of, grid
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, ResultPlace, Window
from ort_lite_cpu.kernels.gemm.microkernel import ACCUMULATE, LeftOperand, Tile, TileEpilogue, further, mode_of, panel
from ort_lite_cpu.kernels.gemm.vectors import Vectors

BLOCK = 120
"""The most output pixels in a block."""
NARROW, WIDE = depth_of(3), depth_of(4)
"""The most depth of a piece, for panels of fewer than four vectors and for those of four."""
LONG, MANY = 4, 4
"""The fewest tiles in a row of pixels that is read in place if there are MANY panels of output channels.

A shorter row leaves its last tile half empty. With many panels a copy of the block costs less, because its tiles go on in the next
row. The panels of all parts count: where tiles begin must not depend on the parts."""
SOME = 8
"""The fewest blocks per part if parts share only blocks: one more or less is an eighth."""


class DepthPiece(NamedTuple):
    """A piece of the depth: kernel lines r0 to r1 (line kd * kh + kh), and in each line taps and channels o0 to o1."""

    r0: int
    r1: int
    o0: int
    o1: int


class PieceOperands(NamedTuple):
    """The operands of n output channels and a piece of the depth. Panels of w lie `ldw` elements apart, and pixels of y `ldy`.

    scratch has room for the input of a block.
    """

    x: Ptr
    w: Ptr
    y: Ptr
    scratch: Ptr
    n: int
    ldw: int
    ldy: int


class Block(NamedTuple):
    """A block of output pixels: rows top to bottom, counted over all images and depths, and in each row pixels begin to end."""

    top: int
    bottom: int
    begin: int
    end: int


@native
@extents(
    x="g.n * g.id_ * g.ih * g.iw * g.c",
    w="g.groups * ceildiv(g.outputs, tile.vectors * tile.lanes) * window.kd * window.kh * window.kw * g.channels"
    " * tile.vectors * tile.lanes",
    bias="g.o",
    residual="walk(0, g.n * g.od * g.oh * g.ow, place.ldy, g.o, 1)",
    y="walk(place.at, g.n * g.od * g.oh * g.ow, place.ldy, g.o, 1)",
    scratch="parts * min(BLOCK, g.n * g.od * g.oh * g.ow) * select(less(tile.vectors, 4), NARROW, WIDE)",
)
def conv(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: ConvolutionShape,
    window: Window,
    place: ResultPlace,
    act: ActivationParameters,
    kind: Static,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """y[at:] (n, od, oh, ow, o) = kind(clip(conv(x (n, id, ih, iw, c), w) + bias (o,) + residual, low, high)), w from `filters`.

    Pixels of y and of the residual lie `place.ldy` elements apart; scratch is (parts, min(BLOCK, pixels), depth).
    A block is some whole rows of output pixels, or part of one. Parts share blocks and panels. Spec: ONNX Conv-22.
    """
    width = tile.vectors * tile.lanes
    across = max((g.outputs + width - 1) // width, 1)
    scratch, y = shift(scratch, part * min(BLOCK, g.n * g.od * g.oh * g.ow) * depth_of(tile.vectors)), shift(y, place.at)
    lines = window.kd * window.kh
    chunks, length = cut(g.ow, BLOCK)
    all_rows = g.n * g.od * g.oh
    heights = max(cut(all_rows, max(BLOCK // max(g.ow, 1), 1))[1], 1)  # equal blocks: parts with as many take as long
    first, last, left, right = _share((all_rows + heights - 1) // heights * chunks, g.groups * across, part, parts)
    for number in range(first, last):
        top, begin = number // chunks * heights, number % chunks * length
        block = Block(top, min(top + heights, all_rows), begin, min(begin + length, g.ow))
        for group in range(left // across, (right + across - 1) // across):
            p0, p1 = max(left - group * across, 0), min(right - group * across, across)
            j, count = group * g.outputs + p0 * width, min(p1 * width, g.outputs) - p0 * width
            factors = shift(w, (group * across + p0) * lines * window.kw * g.channels * width)
            own = shift(x, group * g.channels)
            _block(own, factors, bias, residual, y, scratch, j, count, g, window, place, block, act, tile)
            if kind != "":
                for row in range(block.top, block.bottom):
                    out = shift(y, (row * g.ow + begin) * place.ldy + j)
                    activate(out, place.ldy, block.end - begin, count, act.alpha, act.beta, kind)
    return OK


@native
def _share(blocks: int, panels: int, part: int, parts: int) -> tuple[int, int, int, int]:
    """Return `grid`, or all panels of some blocks if there are SOME blocks for each part.

    The last panel of a group may be narrow, and each part that has panels of its own copies the input of its pixels again.
    """
    if blocks >= SOME * parts:
        return blocks * part // parts, blocks * (part + 1) // parts, 0, panels
    return grid(blocks, panels, 1, 0, part, parts)


@native(inline=False)
def _block(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    j: int,
    count: int,
    g: ConvolutionShape,
    window: Window,
    place: ResultPlace,
    block: Block,
    act: ActivationParameters,
    tile: Tile,
) -> None:
    """Compute output channels j to j + count of a block, piece by piece of the depth.

    A piece is some whole lines, or part of one. Where taps are not neighbours, it is some whole taps, or part of one.
    """
    width = tile.vectors * tile.lanes
    lines, run, deep = window.kd * window.kh, window.kw * g.channels, depth_of(tile.vectors)
    ldw = lines * run * width
    if _neighbours(g, window):
        cuts, most = cut(run, deep)
        stacks, some = cut(lines, max(deep // max(run, 1), 1))
    elif g.channels <= deep:
        together = 1 if window.dw * 2 >= g.iw else max(deep // max(g.channels, 1), 1)  # far apart, few pixels see each
        cuts, most = cut(window.kw, together)
        stacks, some, most = lines, 1, most * g.channels
    else:
        cuts, most = cut(g.channels, deep)
        stacks, some, cuts = lines, 1, cuts * window.kw
    # Pixels from `west` to `east` of a row see no padding at its sides: their input is read in place.
    west = min(max((window.pw + window.sw - 1) // window.sw, 0), g.ow)
    room = g.iw + window.pw - (window.kw - 1) * window.dw - 1
    east = min(room // window.sw + 1, g.ow) if room >= 0 else 0
    for step in range(stacks * cuts):
        r0, o0 = step // cuts * some, step % cuts * most
        if g.channels > deep and not _neighbours(g, window):
            o0 = step % cuts // (cuts // window.kw) * g.channels + step % (cuts // window.kw) * most
            piece = DepthPiece(r0, r0 + 1, o0, min(o0 + most, (o0 // g.channels + 1) * g.channels))
        else:
            piece = DepthPiece(r0, min(r0 + some, lines), o0, min(o0 + most, run))
        mode = mode_of(step == 0, step == stacks * cuts - 1, bias, residual, act.low, act.high)
        b = shift(w, (r0 * run + o0) * width)
        after = (piece.r1 - piece.r0) * (piece.o1 - piece.o0) * width if step + 1 < stacks * cuts else 0
        end = TileEpilogue(mode, shift(bias, j), shift(residual, j), act.low, act.high)
        on = PieceOperands(x, b, shift(y, j), scratch, count, ldw, place.ldy)
        if window.kd == 1 and east - west >= tile.rows * (LONG if g.outputs >= MANY * width else 1):
            inside = Block(block.top, block.bottom, max(block.begin, west), min(block.end, east))
            _in_place(on, g, window, inside, piece, end, tile)
            for column in range(block.begin, block.end):
                if column < west or column >= east:
                    edge = Block(block.top, block.bottom, column, column + 1)
                    _gather(on, after, g, window, edge, piece, end, tile)
        elif piece.r1 - piece.r0 == 1 and piece.o0 // g.channels == (piece.o1 - 1) // g.channels and window.kd == 1:
            _gather_tap(on, after, g, window, block, piece, end, tile)
        else:
            _gather(on, after, g, window, block, piece, end, tile)


@native(inline=False)
def _in_place(
    on: PieceOperands, g: ConvolutionShape, window: Window, block: Block, piece: DepthPiece, end: TileEpilogue, tile: Tile
) -> None:
    """Compute a block whose pixels see no padding at the sides; lines above and below the image are skipped."""
    width = tile.vectors * tile.lanes
    count = block.end - block.begin
    tap, taps = piece.o0 // g.channels, 1
    depth, inner = piece.o1 - piece.o0, piece.o0 - tap * g.channels
    line = window.dh * g.iw * g.c
    if not _neighbours(g, window) and depth > g.channels:
        taps, depth = depth // g.channels, g.channels
    for p in range((on.n + width - 1) // width):
        for row in range(block.top, block.bottom):
            h, d, batch = row % g.oh * window.sh - window.ph, row // g.oh % g.od * window.sd - window.pd, row // (g.oh * g.od)
            r0, r1 = piece.r0, piece.r1
            if d < 0 or d >= g.id_:
                r1 = r0
            while r0 < r1 and h + r0 * window.dh < 0:
                r0 += 1
            while r0 < r1 and h + (r1 - 1) * window.dh >= g.ih:
                r1 -= 1
            start = (((batch * g.id_ + d) * g.ih + h) * g.iw + block.begin * window.sw - window.pw) * g.c + r0 * line
            at = (row * g.ow + block.begin) * on.ldy + p * width
            step, lines = line, r1 - r0
            if _neighbours(g, window):
                start += piece.o0
            else:
                step, lines, start = window.dw * g.c, taps * lines, start + tap * window.dw * g.c + inner
            b, some = shift(on.w, p * on.ldw + (r0 - piece.r0) * window.kw * g.channels * width), on.n - p * width
            seen = LeftOperand(shift(on.x, start), window.sw * g.c, step, lines)
            own = further(end, p * width, at)
            panel(seen, b, b, shift(on.y, at), on.ldy, count, some, depth, own, tile.rows, tile.vectors, tile.lanes)


@native
def _neighbours(g: ConvolutionShape, window: Window) -> bool:
    """Return True if the input of a pixel in one row is one run of memory."""
    return window.dw == 1 and g.channels == g.c


@native(inline=False)
def _gather(
    on: PieceOperands,
    after: int,
    g: ConvolutionShape,
    window: Window,
    block: Block,
    piece: DepthPiece,
    end: TileEpilogue,
    tile: Tile,
) -> None:
    """Compute a block (whole rows, part of one, or a column) from a copy of the input that its pixels read.

    after: elements from this piece's filters to the next one's, whose first panel is prefetched with the last one here; 0 if none.
    """
    width = tile.vectors * tile.lanes
    depth = (piece.r1 - piece.r0) * (piece.o1 - piece.o0)
    ldy = g.ow * on.ldy if block.end - block.begin == 1 else on.ldy
    gather(on.x, on.scratch, g, window, block, piece, tile.lanes)
    at, count = (block.top * g.ow + block.begin) * on.ldy, (block.bottom - block.top) * (block.end - block.begin)
    for p in range((on.n + width - 1) // width):
        factors, out, some, j = shift(on.w, p * on.ldw), shift(on.y, at + p * width), on.n - p * width, p * width
        soon = shift(factors, on.ldw) if some > width else shift(on.w, after if after > 0 else p * on.ldw)
        seen = LeftOperand(on.scratch, depth, 0, 1)
        own = further(end, j, at + j)
        panel(seen, factors, soon, out, ldy, count, some, depth, own, tile.rows, tile.vectors, tile.lanes)


@native
def _seeing(size: int, count: int, stride: int, pad: int, tap: int) -> tuple[int, int]:
    """Return the outputs, of `count` along an axis, for which a tap, that far from the first one, is inside an image of `size`."""
    first = min(max((pad - tap + stride - 1) // stride, 0), count)
    room = size - 1 + pad - tap
    return first, max(min(room // stride + 1, count), first) if room >= 0 else first


@native(inline=False)
def _gather_tap(
    on: PieceOperands,
    after: int,
    g: ConvolutionShape,
    window: Window,
    block: Block,
    piece: DepthPiece,
    end: TileEpilogue,
    tile: Tile,
) -> None:
    """Compute `_gather` for a piece of one tap: only for the pixels that see it, where others see padding alone."""
    tap = piece.o0 // g.channels
    low, high = _seeing(g.ih, g.oh, window.sh, window.ph, piece.r0 * window.dh)
    left, right = _seeing(g.iw, g.ow, window.sw, window.pw, tap * window.dw)
    left, right = max(left, block.begin), min(right, block.end)
    if low == 0 and high == g.oh and left == block.begin and right == block.end:
        _gather(on, after, g, window, block, piece, end, tile)
        return
    bare = TileEpilogue(ACCUMULATE, end.bias, end.residual, end.low, end.high)
    if end.mode & ACCUMULATE == 0:
        _finish(on, g, block, TileEpilogue(0, end.bias, end.residual, end.low, end.high), tile)
    row = block.top
    while row < block.bottom and left < right:
        image = row // g.oh * g.oh
        top, bottom = max(row, image + low), min(block.bottom, image + high)
        row = image + g.oh
        if right - left == block.end - block.begin and top < bottom:
            inside = Block(top, bottom, left, right)
            _gather(on, 0, g, window, inside, piece, bare, tile)
        elif bottom - top > right - left:
            for column in range(left, right):
                inside = Block(top, bottom, column, column + 1)
                _gather(on, 0, g, window, inside, piece, bare, tile)
        else:
            for line in range(top, bottom):
                inside = Block(line, line + 1, left, right)
                _gather(on, 0, g, window, inside, piece, bare, tile)
    if end.mode > ACCUMULATE:
        last = TileEpilogue(end.mode | ACCUMULATE, end.bias, end.residual, end.low, end.high)
        _finish(on, g, block, last, tile)


@native(inline=False)
def _finish(on: PieceOperands, g: ConvolutionShape, block: Block, end: TileEpilogue, tile: Tile) -> None:
    """Apply the last steps to a block, without products; without ACCUMULATE the result is 0 before."""
    width, count = tile.vectors * tile.lanes, block.end - block.begin
    for p in range((on.n + width - 1) // width):
        for row in range(block.top, block.bottom):
            at = (row * g.ow + block.begin) * on.ldy + p * width
            own = further(end, p * width, at)
            some, none = on.n - p * width, LeftOperand(on.w, 0, 0, 0)
            panel(none, on.w, on.w, shift(on.y, at), on.ldy, count, some, 1, own, tile.rows, tile.vectors, tile.lanes)


@native(inline=False)
def gather(x: Ptr, out: Ptr, g: ConvolutionShape, window: Window, block: Block, piece: DepthPiece, lanes: Static) -> None:
    """out (pixels, r1 - r0, o1 - o0) = the input that the pixels of a block read, zeros for padding."""
    at, first, last = 0, piece.o0 // g.channels, (piece.o1 - 1) // g.channels + 1
    for row in range(block.top, block.bottom):
        h, d, batch = row % g.oh * window.sh - window.ph, row // g.oh % g.od * window.sd - window.pd, row // (g.oh * g.od)
        for column in range(block.begin, block.end):
            for line in range(piece.r0, piece.r1):
                di, hi = d + line // window.kh * window.dd, h + line % window.kh * window.dh
                source = ((batch * g.id_ + di) * g.ih + hi) * g.iw
                for tap in range(first, last):
                    begin, end = max(piece.o0 - tap * g.channels, 0), min(piece.o1 - tap * g.channels, g.channels)
                    w = column * window.sw - window.pw + tap * window.dw
                    if di >= 0 and di < g.id_ and hi >= 0 and hi < g.ih and w >= 0 and w < g.iw:
                        copy_run(shift(out, at), shift(x, (source + w) * g.c + begin), end - begin, lanes)
                    else:
                        for i in range(at, at + end - begin):
                            out[i] = like(out, 0)
                    at += end - begin


@native
def copy_run(y: Ptr, x: Ptr, count: int, lanes: Static) -> None:
    """y (count,) = x (count,), which do not overlap. The last vector may copy some elements again, which is cheaper than a tail."""
    if count >= lanes:
        i = 0
        while i + lanes <= count:
            _copy_vector(shift(y, i), shift(x, i), lanes)
            i += lanes
        if i < count:
            _copy_vector(shift(y, count - lanes), shift(x, count - lanes), lanes)
    else:
        for i in range(count):
            y[i] = x[i]


@emitter("void(*F,*F,static)")
def _copy_vector(builder: Any, y: Any, x: Any, lanes: int) -> None:
    """y (lanes,) = x (lanes,)."""
    emit = Vectors(builder, x.type.pointee, lanes)
    emit.store(emit.load(x, 0), y, 0)
