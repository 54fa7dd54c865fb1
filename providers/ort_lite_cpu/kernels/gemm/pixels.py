"""Convolution of planes, channels first: a vector holds neighbouring pixels of one output channel.

It serves few channels, which fill no vector channels last. A block of lines is copied once, with zeros for padding and, for a stride
of s along a line, as s lines of every s-th pixel. Then neighbouring outputs read neighbours in memory through a tap: it is a product
of matrices whose right operand is read in place, at an offset for each tap and channel. Every element is one chain of multiply-adds
in the order (kd, kh, kw, channel).
"""

from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, emitter, native, shift, span
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.convolution import copy_run
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, Tile, TileEpilogue, add_and_clip, further, mode_of
from ort_lite_cpu.kernels.gemm.vectors import Vectors

_WIDE = {8: 3, 4: 6, 2: 8, 1: 8}
_FUSED = {4: 3, 2: 4, 1: 8}
_NARROW = {4: 2, 2: 4, 1: 6}
"""The vectors of a tile by its rows: sums, operands and, without fused multiply-adds, a product fit the registers."""
_COSTS = {8: 1.0, 4: 1.15, 2: 2.0, 1: 4.0}
"""The cost of a product by the rows of a tile: pixels lie anywhere, and vectors across two cache lines load slowly."""

BLOCK = 1 << 15
"""The approximate number of image elements in a block, which stay in the second cache level."""


class PixelBlocks(NamedTuple):
    """The sizes of blocks, `heights` lines of `across` vectors of pixels, and of their tiles, rows (channels) x vectors of pixels."""

    heights: int
    across: int
    rows: StaticInt
    vectors: StaticInt
    lanes: StaticInt


def pixel_tile(native_type: str, target: Target, outputs: int) -> Tile:
    """Return the tile for this many output channels per group: its rows are channels, its vectors hold pixels."""
    lanes = target.vector_bytes // (4 if native_type == "f32" else 8)
    shapes = _WIDE if target.vector_registers == 32 else _FUSED if target.has_fma else _NARROW
    rows = min(shapes, key=lambda rows: (products(outputs, rows), rows))
    return Tile(rows, shapes[rows], lanes)


def products(outputs: int, rows: int) -> float:
    """Return the cost of a product with each of the outputs, in tiles of that many rows; an output in full tiles of 8 costs 1."""
    return -(-outputs // rows) * rows * _COSTS[rows]


@native
@extents(
    x="g.n * g.c * g.id_ * g.ih * g.iw",
    w="g.groups * ceildiv(g.outputs, cut.rows) * window.kd * window.kh * window.kw * g.channels * cut.rows",
    bias="g.o",
    residual="g.n * g.o * g.od * g.oh * g.ow",
    y="g.n * g.o * g.od * g.oh * g.ow",
    table="parts * window.kd * window.kh * window.kw * g.channels",
    scratch="parts * g.channels * window.kd * ((cut.heights - 1) * window.sh + (window.kh - 1) * window.dh + 1) * window.sw"
    " * (cut.across * cut.lanes + (window.kw - 1) * window.dw // window.sw)",
)
def conv_pixels(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    table: Ptr,
    scratch: Ptr,
    g: ConvolutionShape,
    window: Window,
    cut: PixelBlocks,
    act: ActivationParameters,
    kind: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, o, od, oh, ow) = kind(clip(conv(x (n, c, id, ih, iw), w) + bias (o,) + residual, low, high)).

    w: `pack.filters` of `cut.rows` columns. Parts share blocks and groups. The kernel fills table (parts, taps * c / groups) and
    scratch. Spec: ONNX Conv-22.
    """
    length, lines = cut.across * cut.lanes, (cut.heights - 1) * window.sh + (window.kh - 1) * window.dh + 1
    depth, plane = window.kd * window.kh * window.kw * g.channels, g.od * g.oh * g.ow
    wide, panels = length + (window.kw - 1) * window.dw // window.sw, (g.outputs + cut.rows - 1) // cut.rows
    table = shift(table, part * depth)
    scratch = shift(scratch, part * g.channels * window.kd * lines * window.sw * wide)
    _offsets(table, g, window, lines * window.sw * wide, window.sw * wide, wide)
    mode = mode_of(True, True, bias, residual, act.low, act.high)
    tall, chunks = (g.oh + cut.heights - 1) // cut.heights, (g.ow + length - 1) // length
    for job in span(g.n * g.groups * g.od * tall * chunks, part, parts):
        begin, top, deep = job % chunks * length, job // chunks % tall * cut.heights, job // (chunks * tall) % g.od
        image = job // (chunks * tall * g.od)
        bottom, end = min(top + cut.heights, g.oh), min(begin + length, g.ow)
        used = (bottom - top - 1) * window.sh + (window.kh - 1) * window.dh + 1
        source = shift(x, image * g.channels * g.id_ * g.ih * g.iw)
        need = (end - begin + cut.lanes - 1) // cut.lanes * cut.lanes + (window.kw - 1) * window.dw // window.sw
        d, h, left = deep * window.sd - window.pd, top * window.sh - window.ph, begin * window.sw - window.pw
        _spread(source, scratch, g, window, d, h, used, left, lines, wide, need, cut.lanes)
        group = image % g.groups
        filters, added = shift(w, group * panels * depth * cut.rows), shift(bias, group * g.outputs)
        for row in range(top, bottom):
            at = image * g.outputs * plane + (deep * g.oh + row) * g.ow + begin
            seen, out, count = shift(scratch, (row - top) * window.sh * window.sw * wide), shift(y, at), end - begin
            last = TileEpilogue(mode, added, shift(residual, at), act.low, act.high)
            _line(seen, table, filters, depth, out, plane, g.outputs, count, last, cut)
            if kind != "":
                activate(out, plane, g.outputs, count, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _offsets(table: Ptr, g: ConvolutionShape, window: Window, plane: int, line: int, wide: int) -> None:
    """table[k] = the element of the scratch at which the pixels begin that the first output of a block reads, for tap and channel k."""
    k = 0
    for d in range(window.kd):
        for i in range(window.kh):
            for j in range(window.kw):
                tap = d * plane + i * window.dh * line + j * window.dw % window.sw * wide + j * window.dw // window.sw
                for channel in range(g.channels):
                    table[k] = channel * window.kd * plane + tap
                    k += 1


@native(inline=False)
def _spread(
    x: Ptr,
    out: Ptr,
    g: ConvolutionShape,
    window: Window,
    deep: int,
    top: int,
    used: int,
    left: int,
    lines: int,
    wide: int,
    need: int,
    lanes: Static,
) -> None:
    """out (channels, kd, lines, sw, wide) = `used` lines of the image from (deep, top, left) on, zeros for padding.

    Element (.., phase, q) is pixel left + phase + q * sw of its line. Of each line `need` elements are written, at least a vector.
    """
    for plane in range(g.channels * window.kd):
        d = deep + plane % window.kd * window.dd
        source, to = shift(x, (plane // window.kd * g.id_ + d) * g.ih * g.iw), shift(out, plane * lines * window.sw * wide)
        first_line, last_line = min(max(-top, 0), used), max(min(g.ih - top, used), 0)
        if d < 0 or d >= g.id_:
            first_line = used
        for i in range(used):
            for phase in range(window.sw):
                column, line = left + phase, shift(to, (i * window.sw + phase) * wide)
                if i < first_line or i >= last_line:
                    _clear(line, 0, need, need, lanes)
                else:
                    _copy(shift(source, (top + i) * g.iw), line, g.iw, column, window.sw, need, lanes)


@native
def _copy(x: Ptr, y: Ptr, iw: int, column: int, step: int, need: int, lanes: Static) -> None:
    """y[q] = x[column + q * step] for q < need, zeros beyond the `iw` pixels of x."""
    first, last = 0, min((iw - column + step - 1) // step if column < iw else 0, need)
    if column < 0:
        first = min((step - 1 - column) // step, need)
    last = max(first, last)
    _clear(y, 0, first, need, lanes)
    _clear(y, last, need, need, lanes)
    if step == 1:
        copy_run(shift(y, first), shift(x, column + first), last - first, lanes)
    elif step == 2:
        for q in range(first, last):
            y[q] = x[column + 2 * q]
    else:
        for q in range(first, last):
            y[q] = x[column + q * step]


@native
def _clear(y: Ptr, first: int, last: int, count: int, lanes: Static) -> None:
    """y[first:last] = 0 by whole vectors, which overwrite others of the `count` elements as well; count is at least `lanes`."""
    i = first
    while i < last:
        _clear_vector(shift(y, min(i, count - lanes)), lanes)
        i += lanes


@emitter("void(*F,static)")
def _clear_vector(builder: Any, y: Any, lanes: int) -> None:
    """y (lanes,) = 0."""
    emit = Vectors(builder, y.type.pointee, lanes)
    emit.store(emit.zero, y, 0)


@native(inline=False)
def _line(b: Ptr, table: Ptr, w: Ptr, k: int, y: Ptr, ldy: int, n: int, m: int, end: TileEpilogue, cut: PixelBlocks) -> None:
    """y (n, m) = end(w (n, k) @ b), rows `ldy` apart: m pixels of a line of n output channels; element (p, q) is b[table[p] + q].

    The last tiles have half the vectors, or one.
    """
    i = 0
    while i < m:
        some = (m - i + cut.lanes - 1) // cut.lanes
        half = cut.vectors - cut.vectors // 2
        some = cut.vectors if some >= cut.vectors else half if some >= half else 1
        for p in range(0, n, cut.rows):
            at, filters, count = p * ldy + i, shift(w, p * k), min(n - p, cut.rows)
            seen, out = shift(b, i), shift(y, at)
            own = further(end, p, at)
            if some == cut.vectors:
                tile(seen, table, filters, k, out, ldy, count, m - i, own, cut.rows, cut.vectors, 1, cut.lanes)
            elif some > 1:
                tile(seen, table, filters, k, out, ldy, count, m - i, own, cut.rows, cut.vectors, 2, cut.lanes)
            else:
                tile(seen, table, filters, k, out, ldy, count, m - i, own, cut.rows, 1, 1, cut.lanes)
        i += some * cut.lanes


@emitter("void(*F,*i64,*F,i64,*F,i64,i64,i64,i64,*F,*F,F,F,static,static,static,static)")
def tile(
    builder: Any,
    b: Any,
    table: Any,
    w: Any,
    k: Any,
    y: Any,
    plane: Any,
    n: Any,
    m: Any,
    end: Any,
    rows: int,
    whole: int,
    cut: int,
    lanes: int,
) -> None:
    """y[i * plane + q] = end(sum over p < k of w[p * rows + i] * b[table[p] + q]), for i < min(n, rows) and q < m.

    The tile has whole / cut vectors, rounded up. The last one may be written in part.
    """
    vectors = -(-whole // cut)
    emit = Vectors(builder, y.type.pointee, lanes)

    def step(at: Any, values: Any) -> list[Any]:
        factor, sums = values[0], list(values[1:])
        seen = emit.move(b, builder.load(emit.move(table, at)))
        pixels = [emit.load(seen, j * lanes) for j in range(vectors)]
        for i in range(rows):
            left, row = emit.splat(builder.load(factor)), slice(i * vectors, (i + 1) * vectors)
            sums[row] = [emit.fma(left, *pair) for pair in zip(pixels, sums[row], strict=True)]
            factor = emit.after(emit.move(factor, emit.integer(1)), *sums[row])
        return [factor, *sums]

    sums = emit.loop(emit.integer(0), k, 1, [w, *[emit.zero] * (rows * vectors)], step)[1][1:]
    limits = emit.splat(end.low), emit.splat(end.high)

    def finish(i: int, j: int, mask: Any) -> None:
        at, values = j * lanes, [sums[i * vectors + j]]
        out, other = (emit.move(pointer, emit.mul(plane, i)) for pointer in (y, end.residual))
        added = emit.move(end.bias, emit.integer(i))
        values = emit.when(emit.bit(end.mode, BIAS), values, lambda v: emit.add_all(v, [emit.splat(builder.load(added))]))
        values = add_and_clip(emit, values, end.mode, limits, lambda: [emit.load(other, at, mask)])
        emit.store(values[0], out, at, mask)

    final = vectors - 1
    for i in range(rows):
        with builder.if_then(builder.icmp_signed("<", emit.integer(i), n)):
            for j in range(final):
                finish(i, j, None)
            with builder.if_else(builder.icmp_signed(">=", m, emit.integer(vectors * lanes))) as (full, part):
                with full:
                    finish(i, final, None)
                with part:
                    finish(i, final, emit.mask(builder.sub(m, emit.integer(final * lanes))))
