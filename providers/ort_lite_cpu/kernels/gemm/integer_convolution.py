"""Convolution of 8-bit integers as a matrix product, channels last: the input of a block of output pixels is gathered in a scratch.

The depth is ordered (kd, kh, kw, channel), as in `convolution`. Padding is the zero point, which widened is 0. Bytes that are
multiplied as bytes are not widened.
"""

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, shift, span
from ort_lite_cpu.kernels.gemm.amx import configure_tiles, end_tiles
from ort_lite_cpu.kernels.gemm.byte_dots import (
    DotPanel,
    ProductShape,
    RightMatrix,
    as_sums,
    dot_panel,
    dot_rows,
    flip_bytes,
    sum_less,
    take_off,
    whole_rows,
)
from ort_lite_cpu.kernels.gemm.byte_tile import BLOCK, PARTIAL, DotTile, quads
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.integer import CAPACITY, block_rows, integer_panel, widen, zero_point
from ort_lite_cpu.kernels.gemm.integer_epilogue import Ending, Rescaling
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, Tile


def filter_matrices(weight: Array, groups: int) -> Array:
    """Return (O, C / groups, *kernel) as (groups, taps * C / groups, O / groups)."""
    outputs, channels = weight.shape[:2]
    grouped = weight.reshape(groups, outputs // groups, channels, -1)
    return grouped.transpose(0, 3, 2, 1).reshape(groups, -1, outputs // groups)


_ROWS = 64
"""The rows of bytes that are copied together: a cache line."""


def _turn(matrix: Array) -> Array:
    """Return the transpose, copied a block of rows at a time: NumPy takes four times as long for large matrices of bytes."""
    out = np.empty(matrix.shape[::-1], matrix.dtype)
    for at in range(0, len(matrix), _ROWS):
        out[:, at : at + _ROWS] = matrix[at : at + _ROWS].T
    return out


def line_quads(weight: Array, tile: DotTile) -> Array:
    """Return (O, C, kh, kw), int8, as quads of (kh * (kw * C), O), where each line of taps takes whole steps of the tile."""
    outputs, channels, lines, taps = weight.shape
    turned = _turn(weight.astype(np.int8, copy=False).reshape(outputs, -1)).reshape(channels, lines * taps, outputs)
    matrix = turned.swapaxes(0, 1).reshape(lines, taps * channels, outputs)
    deep = taps * channels + -taps * channels % (4 * tile.quads)
    padded = np.zeros((lines, deep, outputs), np.int8)
    padded[:, : taps * channels] = matrix
    return quads(padded.reshape(-1, outputs), tile)


class LeftBytes(NamedTuple):
    """The bytes of an image, and the scratch for its pixels."""

    flip: int
    """128 for int8, 0 for uint8."""
    size: int
    """The elements of scratch that each part has."""
    zeros: int
    """1 if there are zero points of columns to be subtracted, else 0."""


@native
@extents(
    x="g.n * g.id_ * g.ih * g.iw * g.c",
    zero="1",
    w="g.groups * ceildiv(g.outputs, tile.vectors * tile.lanes) * ceildiv(window.kd * window.kh * window.kw * g.channels, 2)"
    " * tile.vectors * tile.lanes * 2",
    y="g.n * g.od * g.oh * g.ow * g.o",
    scratch="(parts - 1) * size"
    " + min(max(CAPACITY, tile.rows * 2 * ceildiv(window.kd * window.kh * window.kw * g.channels, 2)),"
    " ceildiv(g.n * g.od * g.oh * g.ow, tile.rows) * tile.rows * 2 * ceildiv(window.kd * window.kh * window.kw * g.channels, 2))",
)
def integer_conv(
    x: Ptr,
    zero: Ptr,
    w: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: ConvolutionShape,
    window: Window,
    flip: int,
    size: int,
    tile: Tile,
    madd: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, od, oh, ow, o), int32, = conv(x (n, id, ih, iw, c) - zero, w), w = `pairs` of `filter_matrices`.

    Scratch is (parts, size), see `scratch_size`. Parts share blocks of pixels and panels. Strides and dilations are positive, c and o
    multiples of groups. Spec: ONNX ConvInteger-10.
    """
    width, depth = tile.vectors * tile.lanes, window.kd * window.kh * window.kw * g.channels
    across, half, pixels = (g.outputs + width - 1) // width, (depth + 1) // 2, g.n * g.od * g.oh * g.ow
    block = block_rows(pixels, 2 * half, tile.rows, parts, CAPACITY)
    away = zero_point(zero, 0, flip)
    scratch = shift(scratch, part * size)
    first, last, left, right = grid((pixels + block - 1) // block, g.groups * across, 1, 0, part, parts)
    for number in range(first, last):
        top = number * block
        count = min(block, pixels - top)
        for group in range(left // across, (right + across - 1) // across):
            _gather(shift(x, group * g.channels), scratch, g, window, top, count, 2 * half, away, flip, 0, False)
            for p in range(max(left - group * across, 0), min(right - group * across, across)):
                panel, some = shift(w, (group * across + p) * half * width * 2), g.outputs - p * width
                corner = shift(y, top * g.o + group * g.outputs + p * width)
                integer_panel(scratch, panel, corner, g.o, count, some, half, tile.rows, tile.vectors, tile.lanes, madd)
    return OK


@native
@extents(
    x="g.n * g.id_ * g.ih * g.iw * g.c",
    zero="1",
    w="g.groups * ceildiv(g.outputs, tile.vectors * tile.lanes) * tile.vectors * tile.lanes * 4"
    " * ceildiv(window.kd * window.kh * window.kw * g.channels, 4 * tile.quads) * tile.quads",
    starts="(1 + left.zeros) * g.groups * ceildiv(g.outputs, tile.vectors * tile.lanes) * tile.vectors * tile.lanes",
    factors="(g.o if out.spread else 1) if out.form else 0",
    y="g.n * g.od * g.oh * g.ow * g.o",
    scratch="(parts - 1) * left.size + tile.amx * PARTIAL"
    " + min(max(BLOCK, tile.rows * (64 * tile.amx"
    " + 4 * ceildiv(window.kd * window.kh * window.kw * g.channels, 4 * tile.quads) * tile.quads)),"
    " ceildiv(g.n * g.od * g.oh * g.ow, tile.rows) * tile.rows * (64 * tile.amx"
    " + 4 * ceildiv(window.kd * window.kh * window.kw * g.channels, 4 * tile.quads) * tile.quads))",
)
def dot_conv(
    x: Ptr,
    zero: Ptr,
    w: Ptr,
    starts: Ptr,
    factors: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: ConvolutionShape,
    window: Window,
    left: LeftBytes,
    out: Rescaling,
    tile: DotTile,
    part: int,
    parts: int,
) -> int:
    """y (n, od, oh, ow, o) = out(conv(x (n, id, ih, iw, c), w) + starts (groups, outputs)), w = `quads` of `filter_matrices`.

    x is padded with `zero`. If `left.zeros`, zero points of the columns of w are behind the starts, and are subtracted from sums of
    int32. For the rest see `integer_conv`. Spec: ONNX ConvInteger-10.
    """
    width, steps = tile.vectors * tile.lanes, 4 * tile.quads
    depth = (window.kd * window.kh * window.kw * g.channels + steps - 1) // steps * tile.quads
    across, pixels = (g.outputs + width - 1) // width, g.n * g.od * g.oh * g.ow
    row_bytes, point = 4 * depth + 64 * tile.amx, zero_point(zero, 0, left.flip) - tile.middle
    block = block_rows(pixels, row_bytes, tile.rows, parts, BLOCK)
    scratch = shift(scratch, part * left.size)
    held = shift(scratch, tile.amx * PARTIAL)
    first, last, begin, stop = grid((pixels + block - 1) // block, g.groups * across, 1, 0, part, parts)
    for number in range(first, last):
        top = number * block
        count = min(block, pixels - top)
        for group in range(begin // across, (stop + across - 1) // across):
            source, turn = shift(x, group * g.channels), left.flip ^ tile.middle
            _gather(source, held, g, window, top, count, row_bytes, 0, turn, point, True)
            at, column, corner = group * across * width, group * g.outputs, shift(y, top * g.o + group * g.outputs)
            scales = shift(factors, column * out.spread)
            w_ = RightMatrix(shift(w, at * depth * 4), shift(starts, at), scales, factors, as_sums(scratch))
            i, j = max(begin - group * across, 0), min(stop - group * across, across)
            rows, shape = LeftOperand(held, row_bytes, 0, 1), ProductShape(g.outputs, g.o, depth)
            dot_rows(rows, w_, corner, count, i, j, shape, out, tile)
            away = shift(starts, (g.groups * across * width) + at)
            for row in range(count if left.zeros else 0):
                total = sum_less(shift(held, row * row_bytes), 4 * depth, point + tile.middle, tile.middle)
                take_off(shift(corner, row * g.o), away, like(y, total), i * width, min(j * width, g.outputs))
    end_tiles(tile.amx)
    return OK


@native
@extents(x="g.n * g.ih * g.iw * g.c", zero="1", out="g.n * h * w * g.c")
def pad_image(
    x: Ptr,
    zero: Ptr,
    out: Ptr,
    g: ConvolutionShape,
    window: Window,
    h: int,
    w: int,
    flip: int,
    middle: Static,
    part: int,
    parts: int,
) -> int:
    """out (n, h, w, c) = x (n, ih, iw, c) as bytes for a `DotTile` with that `middle`, zero points around it."""
    blank, pitch, left = zero_point(zero, 0, flip) - middle, w * g.c, min(window.pw, w) * g.c
    right = max(min(window.pw + g.iw, w) * g.c, left)
    for line in span(g.n * h, part, parts):
        row, target = line % h - window.ph, shift(out, line * pitch)
        if 0 <= row < g.ih:
            _fill(target, 0, left, blank)
            flip_bytes(shift(x, (line // h * g.ih + row) * g.iw * g.c), shift(target, left), right - left, flip ^ middle)
            _fill(target, right, pitch, blank)
        else:
            _fill(target, 0, pitch, blank)
    return OK


ROWS = 8
"""The number of rows of an image that meet one panel of filters one after the other."""


@native
@extents(
    x="g.n * max((g.oh - 1) * window.sh + (window.kh - 1) * window.dh + 1, 0) * max((g.ow - 1) * window.sw + window.kw, 0) * g.c"
    " + tile.rows * window.sw * g.c + 4 * tile.quads",
    w="ceildiv(g.o, tile.vectors * tile.lanes) * window.kh * ceildiv(window.kw * g.c, 4 * tile.quads) * tile.quads"
    " * tile.vectors * tile.lanes * 4",
    starts="ceildiv(g.o, tile.vectors * tile.lanes) * tile.vectors * tile.lanes",
    factors="(g.o if out.spread else 1) if out.form else 0",
    y="g.n * g.oh * g.ow * g.o",
)
def dot_conv_lines(
    x: Ptr,
    w: Ptr,
    starts: Ptr,
    factors: Ptr,
    y: Ptr,
    g: ConvolutionShape,
    window: Window,
    out: Rescaling,
    tile: DotTile,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, o) = out(conv(x, w) + starts (o,)), x from `pad_image`, w from `line_quads`, without groups.

    The input of the taps of a line is one run of memory, and that of the next pixel begins `sw` pixels further: nothing is gathered.
    Tiles of pixels end with their line, and read up to `rows` pixels beyond it, which are not stored. Spec: ONNX ConvInteger-10.
    """
    width, depth = tile.vectors * tile.lanes, (window.kw * g.c + 4 * tile.quads - 1) // (4 * tile.quads) * tile.quads
    line = window.kh * depth * 4
    across, pitch = (g.o + width - 1) // width, ((g.ow - 1) * window.sw + window.kw) * g.c
    h = (g.oh - 1) * window.sh + (window.kh - 1) * window.dh + 1
    first, last, begin, stop = grid(g.n * g.oh, across, window.sh * pitch, line * width, part, parts)
    whole = whole_rows(g.ow, tile)
    for top in range(first, last, ROWS):
        bottom = min(top + ROWS, last)
        for pixel in range(0, g.ow, whole if whole > 0 else max(g.ow, 1)):
            count = whole if pixel < whole else g.ow - pixel
            configure_tiles(tile.rows if pixel < whole else count, tile.amx)
            for p in range(begin, stop):
                j = p * width
                right = DotPanel(shift(w, j * line), shift(starts, j), depth, starts, 0, starts)
                end = Ending(shift(factors, j * out.spread), factors, out.spread, out.zero)
                for row in range(top, bottom):
                    source = shift(x, (row // g.oh * h + row % g.oh * window.sh) * pitch + pixel * window.sw * g.c)
                    seen = LeftOperand(source, window.sw * g.c, window.dh * pitch, window.kh)
                    target = shift(y, (row * g.ow + pixel) * g.o + j)
                    dot_panel(seen, right, end, target, g.o, count, g.o - j, out.form, tile)
    end_tiles(tile.amx)
    return OK


@native(inline=False)
def _gather(
    x: Ptr,
    out: Ptr,
    g: ConvolutionShape,
    window: Window,
    top: int,
    count: int,
    depth: int,
    away: int,
    flip: int,
    blank: int,
    narrow: Static,
) -> None:
    """out (count, depth) = the input of the output pixels from `top` on, (kd, kh, kw, channels), `blank` behind it and for padding.

    If `narrow`, bytes are copied, their highest bit flipped if `flip` is 128; else they are widened, less `away`.
    """
    run = window.kw * g.channels
    pixel = 0
    while pixel < count:
        row, first = (top + pixel) // g.ow, (top + pixel) % g.ow
        h, d, batch = row % g.oh * window.sh - window.ph, row // g.oh % g.od * window.sd - window.pd, row // (g.oh * g.od)
        last = min(g.ow, first + count - pixel)
        for i in range(window.kd):
            for j in range(window.kh):
                di, hi = d + i * window.dd, h + j * window.dh
                inside = 0 <= di < g.id_ and 0 <= hi < g.ih
                source = shift(x, ((batch * g.id_ + di) * g.ih + hi) * g.iw * g.c)
                target = shift(out, pixel * depth + (i * window.kh + j) * run)
                for column in range(first, last):
                    _line(source, target, g, window, column * window.sw - window.pw, inside, away, flip, blank, narrow)
                    target = shift(target, depth)
        used = window.kd * window.kh * run
        for p in range(pixel, pixel + last - first):
            _fill(shift(out, p * depth), used, depth, blank)
        pixel += last - first


@native
def _line(
    x: Ptr,
    out: Ptr,
    g: ConvolutionShape,
    window: Window,
    w: int,
    inside: bool,
    away: int,
    flip: int,
    blank: int,
    narrow: Static,
) -> None:
    """out (kw, channels) = the input in a line of x of a pixel whose first tap is at w, `blank` for padding."""
    run = window.kw * g.channels
    if not inside:
        _fill(out, 0, run, blank)
    elif window.dw == 1 and g.channels == g.c:
        left = min(max(-w, 0), window.kw)
        right = max(min(g.iw - w, window.kw), left)
        _fill(out, 0, left * g.c, blank)
        _take(shift(x, (w + left) * g.c), shift(out, left * g.c), (right - left) * g.c, away, flip, narrow)
        _fill(out, right * g.c, run, blank)
    else:
        for tap in range(window.kw):
            wi = w + tap * window.dw
            if wi < 0 or wi >= g.iw:
                _fill(out, tap * g.channels, (tap + 1) * g.channels, blank)
            else:
                _take(shift(x, wi * g.c), shift(out, tap * g.channels), g.channels, away, flip, narrow)


@native
def _take(x: Ptr, out: Ptr, count: int, away: int, flip: int, narrow: Static) -> None:
    """out (count,) = x, flipped if `narrow`, else widened less `away`."""
    if narrow:
        flip_bytes(x, out, count, flip)
    else:
        widen(x, out, count, away, flip)


@native
def _fill(out: Ptr, first: int, last: int, value: int) -> None:
    """out[first:last] = value."""
    for i in range(first, last):
        out[i] = like(out, value)
