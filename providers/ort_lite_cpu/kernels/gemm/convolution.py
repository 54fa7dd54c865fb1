"""Convolution as a matrix product, channels last: rows are output pixels, gathered block by block, columns output channels.

A block of rows holds what its pixels see of the input, for one piece of the depth: a scratch that stays in the second cache
level and never holds the whole "im2col" matrix. The depth is ordered (kd, kh, kw, channel), so that what a pixel sees of one
input row is one run of memory where taps are neighbours.
"""

import math
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, like, native, shift
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.gemm import cut, depth_of, grid
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, ResultPlace, Window
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, TileEpilogue, mode_of, panel
from ort_lite_cpu.kernels.gemm.vectors import Vectors

BLOCK = 120
"""Output pixels that a block has at most."""
NARROW, WIDE = depth_of(3), depth_of(4)
"""Most of the depth that a piece has, for panels of fewer than four vectors and for those of four."""
LONG, MANY = 4, 4
"""Tiles that a row of pixels fills, and panels of output channels, from which on: a shorter row leaves the last of its tiles
half empty, so where panels are many a copy of the block, whose tiles go on in the next row, costs less. Panels of all parts count:
what a part has must not decide where tiles begin."""

SOME = 8
"""Blocks that a part has at least if parts share nothing but blocks: one more or less is an eighth."""


class DepthPiece(NamedTuple):
    """A piece of the depth: kernel lines r0 to r1 (number kd * kh + kh), of each run of taps and channels o0 to o1."""

    r0: int
    r1: int
    o0: int
    o1: int


class Block(NamedTuple):
    """Output pixels: rows (of all images and depths) top to bottom, of each begin to end."""

    top: int
    bottom: int
    begin: int
    end: int


@native
@extents(
    x="n * id_ * ih * iw * c",
    w="groups * ceildiv(outputs, vectors * lanes) * kd * kh * kw * channels * vectors * lanes",
    bias="o",
    residual="walk(0, n * od * oh * ow, ldy, o, 1)",
    y="walk(at, n * od * oh * ow, ldy, o, 1)",
    scratch="parts * min(BLOCK, n * od * oh * ow) * select(less(vectors, 4), NARROW, WIDE)",
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
    rows: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y[at:] (n, od, oh, ow, o) = kind(clip(conv(x (n, id, ih, iw, c), w) + bias (o,) + residual, low, high)), w from `filters`.

    Pixels of y and of the residual lie `place.ldy` apart; scratch is (parts, min(BLOCK, pixels), depth).
    A block is some whole rows of output pixels, or a part of one; parts share blocks and panels. Spec: ONNX Conv-22.
    """
    width = vectors * lanes
    across = max((g.outputs + width - 1) // width, 1)
    scratch, y = shift(scratch, part * min(BLOCK, g.n * g.od * g.oh * g.ow) * depth_of(vectors)), shift(y, place.at)
    lines = window.kd * window.kh
    chunks, length = cut(g.ow, BLOCK)
    all_rows = g.n * g.od * g.oh
    heights = max(cut(all_rows, max(BLOCK // max(g.ow, 1), 1))[1], 1)  # blocks alike: parts that have as many take as long
    first, last, left, right = _share((all_rows + heights - 1) // heights * chunks, g.groups * across, part, parts)
    for number in range(first, last):
        top, begin = number // chunks * heights, number % chunks * length
        block = Block(top, min(top + heights, all_rows), begin, min(begin + length, g.ow))
        for group in range(left // across, (right + across - 1) // across):
            p0, p1 = max(left - group * across, 0), min(right - group * across, across)
            j, count = group * g.outputs + p0 * width, min(p1 * width, g.outputs) - p0 * width
            factors = shift(w, (group * across + p0) * lines * window.kw * g.channels * width)
            own = shift(x, group * g.channels)
            _block(
                own,
                factors,
                bias,
                residual,
                y,
                scratch,
                j,
                count,
                g,
                window,
                place,
                block,
                act.low,
                act.high,
                rows,
                vectors,
                lanes,
            )
            if kind != "":
                for row in range(block.top, block.bottom):
                    activate(
                        shift(y, (row * g.ow + begin) * place.ldy + j),
                        place.ldy,
                        block.end - begin,
                        count,
                        act.alpha,
                        act.beta,
                        kind,
                    )
    return OK


@native
def _share(blocks: int, panels: int, part: int, parts: int) -> tuple[int, int, int, int]:
    """As `grid`, but where parts have blocks enough each takes all panels of some.

    The last panel of a group may be narrow, and what pixels see is copied again by each part that takes panels of its own.
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
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """Output channels j to j + count of a block, piece by piece of the depth.

    A piece is some whole runs, or a part of one; where taps are no neighbours, some whole taps, or a part of one.
    """
    width = vectors * lanes
    lines, run, deep = window.kd * window.kh, window.kw * g.channels, depth_of(vectors)
    ldw = lines * run * width
    if _neighbours(g, window):
        cuts, most = cut(run, deep)
        stacks, some = cut(lines, max(deep // max(run, 1), 1))
    elif g.channels <= deep:
        cuts, most = cut(window.kw, max(deep // max(g.channels, 1), 1))
        stacks, some, most = lines, 1, most * g.channels
    else:
        cuts, most = cut(g.channels, deep)
        stacks, some, cuts = lines, 1, cuts * window.kw
    # Pixels from `west` to `east` of a row see no padding at its sides: what they see is read in place.
    west = min(max((window.pw + window.sw - 1) // window.sw, 0), g.ow)
    room = g.iw + window.pw - (window.kw - 1) * window.dw - 1
    east = min(room // window.sw + 1, g.ow) if room >= 0 else 0
    clips = low > -math.inf or high < math.inf
    for step in range(stacks * cuts):
        r0, o0 = step // cuts * some, step % cuts * most
        if g.channels > deep and not _neighbours(g, window):
            o0 = step % cuts // (cuts // window.kw) * g.channels + step % (cuts // window.kw) * most
            piece = DepthPiece(r0, r0 + 1, o0, min(o0 + most, (o0 // g.channels + 1) * g.channels))
        else:
            piece = DepthPiece(r0, min(r0 + some, lines), o0, min(o0 + most, run))
        mode = mode_of(step == 0, step == stacks * cuts - 1, bias, residual, clips)
        b = shift(w, (r0 * run + o0) * width)
        after = (piece.r1 - piece.r0) * (piece.o1 - piece.o0) * width if step + 1 < stacks * cuts else 0
        added, other, out = shift(bias, j), shift(residual, j), shift(y, j)
        if window.kd == 1 and east - west >= rows * (LONG if g.outputs >= MANY * width else 1):
            inside = Block(block.top, block.bottom, max(block.begin, west), min(block.end, east))
            _in_place(
                x, b, added, other, out, count, ldw, g, window, place, inside, piece, mode, low, high, rows, vectors, lanes
            )
            for column in range(block.begin, block.end):
                if column < west or column >= east:
                    edge = Block(block.top, block.bottom, column, column + 1)
                    _gather(
                        x,
                        b,
                        after,
                        added,
                        other,
                        out,
                        scratch,
                        count,
                        ldw,
                        g,
                        window,
                        place,
                        edge,
                        piece,
                        mode,
                        low,
                        high,
                        rows,
                        vectors,
                        lanes,
                    )
        else:
            _gather(
                x,
                b,
                after,
                added,
                other,
                out,
                scratch,
                count,
                ldw,
                g,
                window,
                place,
                block,
                piece,
                mode,
                low,
                high,
                rows,
                vectors,
                lanes,
            )


@native(inline=False)
def _in_place(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    n: int,
    ldw: int,
    g: ConvolutionShape,
    window: Window,
    place: ResultPlace,
    block: Block,
    piece: DepthPiece,
    mode: int,
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """n output channels of a block whose pixels see no padding at the sides; what they see above and below is left out."""
    width = vectors * lanes
    count = block.end - block.begin
    tap, taps = piece.o0 // g.channels, 1
    depth, inner = piece.o1 - piece.o0, piece.o0 - tap * g.channels
    line = window.dh * g.iw * g.c
    if not _neighbours(g, window) and depth > g.channels:
        taps, depth = depth // g.channels, g.channels
    for p in range((n + width - 1) // width):
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
            at = (row * g.ow + block.begin) * place.ldy + p * width
            step, lines = line, r1 - r0
            if _neighbours(g, window):
                start += piece.o0
            else:
                step, lines, start = window.dw * g.c, taps * lines, start + tap * window.dw * g.c + inner
            a, pixel = shift(x, start), window.sw * g.c
            b = shift(w, p * ldw + (r0 - piece.r0) * window.kw * g.channels * width)
            out, added, other, m, n_ = shift(y, at), shift(bias, p * width), shift(residual, at), count, n - p * width
            panel(
                LeftOperand(a, pixel, step, lines),
                b,
                b,
                out,
                place.ldy,
                m,
                n_,
                depth,
                TileEpilogue(mode, added, other, low, high),
                rows,
                vectors,
                lanes,
            )


@native
def _neighbours(g: ConvolutionShape, window: Window) -> bool:
    """Whether what a pixel sees of one input row is one run of memory."""
    return window.dw == 1 and g.channels == g.c


@native(inline=False)
def _gather(
    x: Ptr,
    w: Ptr,
    after: int,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    scratch: Ptr,
    n: int,
    ldw: int,
    g: ConvolutionShape,
    window: Window,
    place: ResultPlace,
    block: Block,
    piece: DepthPiece,
    mode: int,
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """n output channels of a block, which is whole rows, a part of one, or a column, by way of a copy of what its pixels see.

    after: from this piece's filters to the next one's, whose first panel comes into the cache with the last one here; 0 if none.
    """
    width = vectors * lanes
    depth = (piece.r1 - piece.r0) * (piece.o1 - piece.o0)
    ldy = g.ow * place.ldy if block.end - block.begin == 1 else place.ldy
    gather(x, scratch, g, window, block, piece, lanes)
    at, count = (block.top * g.ow + block.begin) * place.ldy, (block.bottom - block.top) * (block.end - block.begin)
    for p in range((n + width - 1) // width):
        factors, out, some = shift(w, p * ldw), shift(y, at + p * width), n - p * width
        added, other = shift(bias, p * width), shift(residual, at + p * width)
        soon, m = shift(factors, ldw) if some > width else shift(w, after if after > 0 else p * ldw), count
        panel(
            LeftOperand(scratch, depth, 0, 1),
            factors,
            soon,
            out,
            ldy,
            m,
            some,
            depth,
            TileEpilogue(mode, added, other, low, high),
            rows,
            vectors,
            lanes,
        )


@native(inline=False)
def gather(x: Ptr, out: Ptr, g: ConvolutionShape, window: Window, block: Block, piece: DepthPiece, lanes: Static) -> None:
    """out (pixels, r1 - r0, o1 - o0): what the pixels of a block see, zeros for padding."""
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
    """y[i] = x[i]; the two do not overlap. The last vector of a short run is copied in part twice: cheaper than a tail."""
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
    emit = Vectors(builder, x.type.pointee, lanes)
    emit.store(emit.load(x, 0), y, 0)
