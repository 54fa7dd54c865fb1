"""Convolution of planes, channels first: a vector holds neighbouring pixels of one output channel.

For few channels, which fill no vector channels last. A block of lines is copied once, with zeros for padding and, for a stride of s
along a line, as s lines of every s-th pixel. Then what neighbouring outputs see through a tap are neighbours in memory: a product of
matrices whose right operand is read in place, at an offset for each tap and channel. Every element is one chain of multiply-adds
in the order (kd, kh, kw, channel).
"""

import math
from typing import Any

from ort_lite.native.cpu import Target
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, emitter, native, shift, span
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.convolution import copy_run
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.microkernel import BIAS, CLIP, RESIDUAL, Tile, mode_of
from ort_lite_cpu.kernels.gemm.vectors import Vectors

_WIDE = {8: 3, 4: 6, 2: 8, 1: 8}
_FUSED = {4: 3, 2: 4, 1: 8}
_NARROW = {4: 2, 2: 4, 1: 6}
"""Vectors of a tile by its rows: sums, operands and, where nothing fuses, a product fit the registers."""
_COSTS = {8: 1.0, 4: 1.15, 2: 2.0, 1: 4.0}
"""Of a product, by the rows of a tile: pixels lie anywhere, and vectors across two lines of the cache load slowly."""


def pixel_tile(native_type: str, target: Target, outputs: int) -> Tile:
    """The tile for so many output channels a group: rows are channels, vectors hold pixels."""
    lanes = target.vector_bytes // (4 if native_type == "f32" else 8)
    shapes = _WIDE if target.vector_registers == 32 else _FUSED if target.has_fma else _NARROW
    rows = min(shapes, key=lambda rows: (products(outputs, rows), rows))
    return Tile(rows, shapes[rows], lanes)


def products(outputs: int, rows: int) -> float:
    """What a product costs with each of so many outputs, by tiles of that many rows: 1 for each of those that make full tiles."""
    return -(-outputs // rows) * rows * _COSTS[rows]


@native
@extents(
    x="n * c * id_ * ih * iw",
    w="groups * ceildiv(outputs, rows) * kd * kh * kw * channels * rows",
    bias="o",
    residual="n * o * od * oh * ow",
    y="n * o * od * oh * ow",
    table="parts * kd * kh * kw * channels",
    scratch="parts * channels * kd * ((heights - 1) * sh + (kh - 1) * dh + 1) * sw * (across * lanes + (kw - 1) * dw // sw)",
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
    heights: int,
    across: int,
    act: ActivationParameters,
    kind: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, o, od, oh, ow) = kind(clip(conv(x (n, c, id, ih, iw), w) + bias (o,) + residual, low, high)).

    w: `pack.filters` of `rows` columns. A block is `heights` lines of `across` vectors of pixels; parts share blocks and groups. table
    (parts, taps * c / groups) and scratch are filled here. Spec: ONNX Conv-22.
    """
    length, lines, depth = (
        across * lanes,
        (heights - 1) * window.sh + (window.kh - 1) * window.dh + 1,
        window.kd * window.kh * window.kw * g.channels,
    )
    wide, panels, plane = length + (window.kw - 1) * window.dw // window.sw, (g.outputs + rows - 1) // rows, g.od * g.oh * g.ow
    table = shift(table, part * depth)
    scratch = shift(scratch, part * g.channels * window.kd * lines * window.sw * wide)
    _offsets(table, g, window, lines * window.sw * wide, window.sw * wide, wide)
    mode = mode_of(True, True, bias, residual, act.low > -math.inf or act.high < math.inf)
    tall, chunks = (g.oh + heights - 1) // heights, (g.ow + length - 1) // length
    for job in span(g.n * g.groups * g.od * tall * chunks, part, parts):
        begin, top, deep = job % chunks * length, job // chunks % tall * heights, job // (chunks * tall) % g.od
        image = job // (chunks * tall * g.od)
        bottom, end = min(top + heights, g.oh), min(begin + length, g.ow)
        used = (bottom - top - 1) * window.sh + (window.kh - 1) * window.dh + 1
        source = shift(x, image * g.channels * g.id_ * g.ih * g.iw)
        need = (end - begin + lanes - 1) // lanes * lanes + (window.kw - 1) * window.dw // window.sw
        _spread(
            source,
            scratch,
            g,
            window,
            deep * window.sd - window.pd,
            top * window.sh - window.ph,
            used,
            begin * window.sw - window.pw,
            lines,
            wide,
            need,
            lanes,
        )
        filters, added = shift(w, image % g.groups * panels * depth * rows), shift(bias, image % g.groups * g.outputs)
        for row in range(top, bottom):
            at = image * g.outputs * plane + (deep * g.oh + row) * g.ow + begin
            seen, out, other = shift(scratch, (row - top) * window.sh * window.sw * wide), shift(y, at), shift(residual, at)
            _line(
                seen, table, filters, depth, out, plane, g.outputs, end - begin, mode, added, other, act.low, act.high,
                rows, vectors, lanes,
            )  # fmt: skip
            if kind != "":
                activate(out, plane, g.outputs, end - begin, act.alpha, act.beta, kind)
    return OK


@native(inline=False)
def _offsets(table: Ptr, g: ConvolutionShape, window: Window, plane: int, line: int, wide: int) -> None:
    """table[k]: where the pixels that the first output of a block sees through tap and channel k begin in the scratch."""
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
    """out (channels, kd, lines, sw, wide): `used` lines of the image from (deep, top, left) on, zeros for padding.

    Element (.., phase, q) is pixel left + phase + q * sw of its line; of each, `need` elements are written, a vector at least.
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
    """y[q] = x[column + q * step] for q < need, zeros where x, of iw pixels, has none."""
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
    """Zeros for y[first:last], by whole vectors: others of the `count` elements, lanes at least, are overwritten as well."""
    i = first
    while i < last:
        _clear_vector(shift(y, min(i, count - lanes)), lanes)
        i += lanes


@emitter("void(*F,static)")
def _clear_vector(builder: Any, y: Any, lanes: int) -> None:
    emit = Vectors(builder, y.type.pointee, lanes)
    emit.store(emit.zero, y, 0)


@native(inline=False)
def _line(
    b: Ptr,
    table: Ptr,
    w: Ptr,
    k: int,
    y: Ptr,
    plane: int,
    n: int,
    m: int,
    mode: int,
    bias: Ptr,
    residual: Ptr,
    low: float,
    high: float,
    rows: Static,
    vectors: Static,
    lanes: Static,
) -> None:
    """m pixels of a line of n output channels, which lie `plane` apart. The last tiles have half the vectors, or one."""
    i = 0
    while i < m:
        some = (m - i + lanes - 1) // lanes
        some = vectors if some >= vectors else vectors - vectors // 2 if some >= vectors - vectors // 2 else 1
        for p in range(0, n, rows):
            at, filters, added, count = p * plane + i, shift(w, p * k), shift(bias, p), min(n - p, rows)
            seen, out, other = shift(b, i), shift(y, at), shift(residual, at)
            if some == vectors:
                tile(seen, table, filters, k, out, plane, count, m - i, mode, added, other, low, high, rows, vectors, 1, lanes)
            elif some > 1:
                tile(seen, table, filters, k, out, plane, count, m - i, mode, added, other, low, high, rows, vectors, 2, lanes)
            else:
                tile(seen, table, filters, k, out, plane, count, m - i, mode, added, other, low, high, rows, 1, 1, lanes)
        i += some * lanes


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
    mode: Any,
    bias: Any,
    residual: Any,
    low: Any,
    high: Any,
    rows: int,
    whole: int,
    cut: int,
    lanes: int,
) -> None:
    """y[i * plane + q] for i < min(n, rows) and q < m: the sums over p < k of w[p * rows + i] * b[table[p] + q].

    The tile has whole / cut vectors, rounded up, of which the last may be written in part.
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
    limits = emit.splat(low), emit.splat(high)

    def finish(i: int, j: int, mask: Any) -> None:
        at, values = j * lanes, [sums[i * vectors + j]]
        out, other = (emit.move(pointer, emit.mul(plane, i)) for pointer in (y, residual))
        added = emit.move(bias, emit.integer(i))
        values = emit.when(emit.bit(mode, BIAS), values, lambda v: emit.add_all(v, [emit.splat(builder.load(added))]))
        values = emit.when(emit.bit(mode, RESIDUAL), values, lambda v: emit.add_all(v, [emit.load(other, at, mask)]))
        values = emit.when(emit.bit(mode, CLIP), values, lambda v: [emit.clip(v[0], *limits)])
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
