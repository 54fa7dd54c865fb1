"""Convolution of 8-bit integers as a matrix product, channels last: what a block of output pixels sees is gathered in a scratch.

The depth is ordered (kd, kh, kw, channel), as in `convolution`. Padding is the zero point, which widened is 0. Where bytes are
multiplied, they are gathered as they are.
"""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, like, native, null, shift, span
from ort_lite_cpu.kernels.gemm.byte_dots import dot_panel, flip_bytes, quads, sum_less, take_off
from ort_lite_cpu.kernels.gemm.gemm import grid
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window
from ort_lite_cpu.kernels.gemm.integer import CAPACITY, block_rows, integer_panel, widen, zero_point  # noqa: F401  in extents


def filter_matrices(weight: Array, groups: int) -> Array:
    """(O, C / groups, *kernel) -> (groups, taps * C / groups, O / groups)."""
    outputs, channels = weight.shape[:2]
    grouped = weight.reshape(groups, outputs // groups, channels, -1)
    return grouped.transpose(0, 3, 2, 1).reshape(groups, -1, outputs // groups)


def line_quads(weight: Array, width: int) -> Array:
    """(O, C, kh, kw), int8 -> quads of (kh * (kw * C), O), where each line of taps takes whole words."""
    outputs, channels, lines, taps = weight.shape
    matrix = weight.transpose(2, 3, 1, 0).reshape(lines, taps * channels, outputs)
    padded = np.zeros((lines, -(-taps * channels // 4) * 4, outputs), np.int8)
    padded[:, : taps * channels] = matrix
    return quads(padded.reshape(-1, outputs), width)


@native
@extents(
    x="n * id_ * ih * iw * c",
    zero="1",
    w="groups * ceildiv(outputs, vectors * lanes) * ceildiv(kd * kh * kw * channels, 2) * vectors * lanes * 2",
    y="n * od * oh * ow * o",
    scratch="(parts - 1) * size + min(max(CAPACITY, rows * 2 * ceildiv(kd * kh * kw * channels, 2)),"
    " ceildiv(n * od * oh * ow, rows) * rows * 2 * ceildiv(kd * kh * kw * channels, 2))",
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
    rows: Static,
    vectors: Static,
    lanes: Static,
    madd: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, od, oh, ow, o), int32, = conv(x (n, id, ih, iw, c) - zero, w), w from `integer_filters`.

    Scratch (parts, size), see `scratch_size`. Parts share blocks of pixels and panels. Strides and
    dilations are positive, c and o multiples of groups: the lowering of ConvInteger. Spec: ONNX ConvInteger-10.
    """
    width, depth = vectors * lanes, window.kd * window.kh * window.kw * g.channels
    across, half, pixels = (g.outputs + width - 1) // width, (depth + 1) // 2, g.n * g.od * g.oh * g.ow
    block = block_rows(pixels, 2 * half, rows, parts)
    away = zero_point(zero, 0, flip)
    scratch = shift(scratch, part * size)
    first, last, left, right = grid((pixels + block - 1) // block, g.groups * across, 1, 0, part, parts)
    for number in range(first, last):
        top = number * block
        count = min(block, pixels - top)
        for group in range(left // across, (right + across - 1) // across):
            _gather(shift(x, group * g.channels), scratch, g, window, top, count, 2 * half, away, flip, 0, False)
            for p in range(max(left - group * across, 0), min(right - group * across, across)):
                panel = shift(w, (group * across + p) * half * width * 2)
                corner = shift(y, top * g.o + group * g.outputs + p * width)
                integer_panel(scratch, panel, corner, g.o, count, g.outputs - p * width, half, rows, vectors, lanes, madd)
    return OK


@native
@extents(
    x="n * id_ * ih * iw * c",
    zero="1",
    w="groups * ceildiv(outputs, vectors * lanes) * ceildiv(kd * kh * kw * channels, 4) * vectors * lanes * 4",
    sums="groups * ceildiv(outputs, vectors * lanes) * vectors * lanes",
    away="groups * ceildiv(outputs, vectors * lanes) * vectors * lanes",
    y="n * od * oh * ow * o",
    scratch="(parts - 1) * size + min(max(CAPACITY, rows * 4 * ceildiv(kd * kh * kw * channels, 4)),"
    " ceildiv(n * od * oh * ow, rows) * rows * 4 * ceildiv(kd * kh * kw * channels, 4))",
)
def dot_conv(
    x: Ptr,
    zero: Ptr,
    w: Ptr,
    sums: Ptr,
    away: Ptr,
    y: Ptr,
    scratch: Ptr,
    g: ConvolutionShape,
    window: Window,
    flip: int,
    size: int,
    rows: Static,
    vectors: Static,
    lanes: Static,
    dot: Static,
    signed: Static,
    part: int,
    parts: int,
) -> int:
    """As `integer_conv`, of bytes that are multiplied as such: w from `quads`, sums of its columns, its zero points `away`, or null.

    Spec: ONNX ConvInteger-10.
    """
    width, depth, middle = vectors * lanes, (window.kd * window.kh * window.kw * g.channels + 3) // 4, 128 if signed else 0
    across, pixels = (g.outputs + width - 1) // width, g.n * g.od * g.oh * g.ow
    block = block_rows(pixels, 4 * depth, rows, parts)
    point = zero_point(zero, 0, flip) - middle
    scratch = shift(scratch, part * size)
    first, last, left, right = grid((pixels + block - 1) // block, g.groups * across, 1, 0, part, parts)
    for number in range(first, last):
        top = number * block
        count = min(block, pixels - top)
        for group in range(left // across, (right + across - 1) // across):
            _gather(shift(x, group * g.channels), scratch, g, window, top, count, 4 * depth, 0, flip ^ middle, point, True)
            for p in range(max(left - group * across, 0), min(right - group * across, across)):
                at, inside = (group * across + p) * width, g.outputs - p * width
                panel, corner = shift(w, at * depth * 4), shift(y, top * g.o + group * g.outputs + p * width)
                start, lda = shift(sums, at), 4 * depth
                dot_panel(scratch, lda, 0, 1, panel, start, point, corner, g.o, count, inside, depth, rows, vectors, lanes, dot)
                for row in range(0 if null(away) else count):
                    total = like(y, sum_less(shift(scratch, row * 4 * depth), 4 * depth, point + middle, middle))
                    take_off(shift(corner, row * g.o), shift(away, at), total, 0, min(inside, width))
    return OK


@native
@extents(x="n * ih * iw * c", zero="1", out="n * h * w * c")
def pad_image(
    x: Ptr,
    zero: Ptr,
    out: Ptr,
    n: int,
    c: int,
    ih: int,
    iw: int,
    h: int,
    w: int,
    ph: int,
    pw: int,
    flip: int,
    signed: Static,
    part: int,
    parts: int,
) -> int:
    """out (n, h, w, c) = x (n, ih, iw, c), zero points around it, ph and pw in front, as bytes are multiplied: see `byte_dots`."""
    middle = 128 if signed else 0
    blank, pitch, left = zero_point(zero, 0, flip) - middle, w * c, min(pw, w) * c
    right = max(min(pw + iw, w) * c, left)
    for line in span(n * h, part, parts):
        row, target = line % h - ph, shift(out, line * pitch)
        if 0 <= row < ih:
            _fill(target, 0, left, blank)
            flip_bytes(shift(x, (line // h * ih + row) * iw * c), shift(target, left), right - left, flip ^ middle)
            _fill(target, right, pitch, blank)
        else:
            _fill(target, 0, pitch, blank)
    return OK


ROWS = 8
"""Rows of an image that meet one panel of filters after the other."""


@native
@extents(
    x="n * max((oh - 1) * sh + (kh - 1) * dh + 1, 0) * max((ow - 1) * sw + kw, 0) * c + rows * sw * c + 4",
    zero="1",
    w="ceildiv(o, vectors * lanes) * kh * ceildiv(kw * c, 4) * vectors * lanes * 4",
    sums="ceildiv(o, vectors * lanes) * vectors * lanes",
    y="n * oh * ow * o",
)
def dot_conv_lines(
    x: Ptr,
    zero: Ptr,
    w: Ptr,
    sums: Ptr,
    y: Ptr,
    n: int,
    c: int,
    o: int,
    oh: int,
    ow: int,
    kh: int,
    kw: int,
    sh: int,
    sw: int,
    dh: int,
    flip: int,
    rows: Static,
    vectors: Static,
    lanes: Static,
    dot: Static,
    signed: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, oh, ow, o), int32, = conv(x - zero, w), x from `pad_image`, w from `line_quads`, without groups.

    What the taps of a line see lies side by side, for the next pixel `sw` further: nothing is gathered. Tiles of pixels end with
    their line, and read up to `rows` pixels behind it, which are not stored. Spec: ONNX ConvInteger-10.
    """
    width, depth, middle = vectors * lanes, (kw * c + 3) // 4, 128 if signed else 0
    across, pitch, h = (o + width - 1) // width, ((ow - 1) * sw + kw) * c, (oh - 1) * sh + (kh - 1) * dh + 1
    point = zero_point(zero, 0, flip) - middle
    first, last, left, right = grid(n * oh, across, sh * pitch, kh * depth * 4 * width, part, parts)
    for top in range(first, last, ROWS):
        for p in range(left, right):
            panel, start, inside = shift(w, p * kh * depth * width * 4), shift(sums, p * width), o - p * width
            for row in range(top, min(top + ROWS, last)):
                source = shift(x, (row // oh * h + row % oh * sh) * pitch)
                target = shift(y, row * ow * o + p * width)
                line = dh * pitch
                dot_panel(
                    source, sw * c, line, kh, panel, start, point, target, o, ow, inside, depth, rows, vectors, lanes, dot
                )
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
    """out (count, depth): what the output pixels from `top` on see, (kd, kh, kw, channels), and behind it and around the image `blank`.

    narrow: bytes, whose highest bit is flipped if `flip` is 128; else they are widened, less `away`.
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
    """out (kw, channels): what a pixel whose first tap is at w sees of a line of x."""
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
    if narrow:
        flip_bytes(x, out, count, flip)
    else:
        widen(x, out, count, away, flip)


@native
def _fill(out: Ptr, first: int, last: int, value: int) -> None:
    for i in range(first, last):
        out[i] = like(out, value)
