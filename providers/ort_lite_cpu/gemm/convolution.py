"""Convolution as a matrix product, channels last: rows are output pixels, gathered block by block, columns output channels.

A block of rows holds what its pixels see of the input, for one piece of the depth: a scratch that stays in the second cache
level and never holds the whole "im2col" matrix. The depth is ordered (kd, kh, kw, channel), so that what a pixel sees of one
input row is one run of memory where taps are neighbours.
"""

import math
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.lang import OK, Ptr, Static, emitted, like, native, shift, span
from ort_lite_cpu.gemm.activation import activate
from ort_lite_cpu.gemm.gemm import DEPTH, cut, grid
from ort_lite_cpu.gemm.microkernel import Vectors, mode_of, panel
from ort_lite_cpu.gemm.pack import panels


def filters(weight: Array, groups: int, width: int) -> Array:
    """(O, C / groups, *kernel) -> panels (groups, ceil(O / groups / width), taps * C / groups, width)."""
    outputs, channels = weight.shape[:2]
    grouped = weight.reshape(groups, outputs // groups, channels, -1)
    return panels(np.ascontiguousarray(grouped.transpose(0, 3, 2, 1)).reshape(groups, -1, outputs // groups), width)


@native
def pack_filters(
    w: Ptr, out: Ptr, groups: int, outputs: int, channels: int, taps: int, width: int, part: int, parts: int
) -> int:
    """As `filters`, at run time; outputs and channels are those of one group."""
    across = (outputs + width - 1) // width
    depth = taps * channels
    for job in span(groups * across, part, parts):
        group, j = job // across, job % across * width
        count = min(outputs - j, width)
        for k in range(depth):
            target = (job * depth + k) * width
            source = ((group * outputs + j) * channels + k % channels) * taps + k // channels
            for i in range(count):
                out[target + i] = w[source + i * depth]
            for i in range(count, width):
                out[target + i] = like(out, 0)
    return OK


@native
def conv(
    x: Ptr, w: Ptr, bias: Ptr, residual: Ptr, y: Ptr, scratch: Ptr, n: int, c: int, id_: int, ih: int, iw: int,
    o: int, od: int, oh: int, ow: int, kd: int, kh: int, kw: int, sd: int, sh: int, sw: int, pd: int, ph: int, pw: int,
    dd: int, dh: int, dw: int, groups: int, block: int, low: float, high: float, alpha: float, beta: float,
    kind: Static, rows: Static, vectors: Static, lanes: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """y (n, od, oh, ow, o) = kind(clip(conv(x (n, id, ih, iw, c), w) + bias (o,) + residual, low, high)), w from `filters`.

    k: kernel, s: stride, p: padding in front, d: dilation. scratch (parts, block, DEPTH), block a multiple of `rows`.
    Spec: ONNX Conv-22.
    """
    width = vectors * lanes
    channels, outputs = c // groups, o // groups
    across = (outputs + width - 1) // width
    pixels = n * od * oh * ow
    first, last, left, right = grid((pixels + rows - 1) // rows, groups * across, part, parts)
    last = min(last * rows, pixels)
    clips = low > -math.inf or high < math.inf
    scratch = shift(scratch, part * block * DEPTH)
    run, lines = kw * channels, kd * kh
    # A piece of the depth is some whole runs, or a part of one.
    cuts, most = cut(run, DEPTH)
    stacks, some = cut(lines, max(DEPTH // max(run, 1), 1))
    pieces = stacks * cuts
    for i in range(first * rows, last, block):
        count = min(block, last - i)
        for group in range(left // across, (right + across - 1) // across):
            for piece in range(pieces):
                r0, o0 = piece // cuts * some, piece % cuts * most
                r1, o1 = min(r0 + some, lines), min(o0 + most, run)
                depth = (r1 - r0) * (o1 - o0)
                gather(
                    shift(x, group * channels), scratch, i, count, c, id_, ih, iw, od, oh, ow, kh, kw,
                    sd, sh, sw, pd, ph, pw, dd, dh, dw, channels, r0, r1, o0, o1, lanes,
                )  # fmt: skip
                mode = mode_of(piece == 0, piece == pieces - 1, bias, residual, clips)
                for p in range(max(left - group * across, 0), min(right - group * across, across)):
                    j = group * outputs + p * width
                    at = i * o + j
                    source = ((group * across + p) * lines * run + r0 * run + o0) * width
                    panel(
                        scratch, depth, shift(w, source), shift(y, at), o, count, outputs - p * width, depth,
                        mode, shift(bias, j), shift(residual, at), low, high, rows, vectors, lanes,
                    )  # fmt: skip
        if kind != "":
            j = left // across * outputs + left % across * width
            end = right // across * outputs + right % across * width
            activate(shift(y, i * o + j), o, count, end - j, alpha, beta, kind)
    return OK


@native(inline=False)
def gather(
    x: Ptr, out: Ptr, first: int, count: int, c: int, id_: int, ih: int, iw: int, od: int, oh: int, ow: int, kh: int, kw: int,
    sd: int, sh: int, sw: int, pd: int, ph: int, pw: int, dd: int, dh: int, dw: int, channels: int,
    r0: int, r1: int, o0: int, o1: int, lanes: Static,
) -> None:  # fmt: skip
    """out (count, r1 - r0, o1 - o0): what output pixels from `first` on see in kernel lines r0 to r1, of each run o0 to o1.

    Pixels of one output row go together, line by line: those that see no padding are plain copies.
    """
    size = o1 - o0
    depth = (r1 - r0) * size
    i = 0
    while i < count:
        pixel = first + i
        w, h, d, batch = pixel % ow, pixel // ow % oh, pixel // (ow * oh) % od, pixel // (ow * oh * od)
        some = min(ow - w, count - i)
        for line in range(r0, r1):
            target = shift(out, i * depth + (line - r0) * size)
            di, hi = d * sd - pd + line // kh * dd, h * sh - ph + line % kh * dh
            row = shift(x, ((batch * id_ + di) * ih + hi) * iw * c)
            if di < 0 or di >= id_ or hi < 0 or hi >= ih:
                for q in range(some):
                    _zero(shift(target, q * depth), size)
            elif dw == 1 and channels == c:
                _gather_runs(row, target, depth, some, iw * c, (w * sw - pw) * c + o0, sw * c, size, lanes)
            else:
                for q in range(some):
                    _gather_taps(row, shift(target, q * depth), c, iw, (w + q) * sw - pw, dw, channels, o0, o1, lanes)
        i += some


@native
def _gather_runs(x: Ptr, out: Ptr, depth: int, count: int, end: int, begin: int, step: int, size: int, lanes: Static) -> None:
    """out (count, depth)[q, :size] = x[begin + q * step:][:size], zeros before 0 and from `end` on."""
    left = min((-begin + step - 1) // step, count) if begin < 0 else 0
    right = (end - size - begin) // step + 1 if end >= size + begin else 0
    right = min(max(right, left), count)
    for q in range(left):
        _clipped(x, shift(out, q * depth), end, begin + q * step, size, lanes)
    for q in range(left, right):
        copy_run(shift(out, q * depth), shift(x, begin + q * step), size, lanes)
    for q in range(right, count):
        _clipped(x, shift(out, q * depth), end, begin + q * step, size, lanes)


@native(inline=False)
def _clipped(x: Ptr, out: Ptr, end: int, begin: int, size: int, lanes: Static) -> None:
    before = min(max(-begin, 0), size)
    inside = min(max(end - begin, before), size)
    _zero(out, before)
    copy_run(shift(out, before), shift(x, begin + before), inside - before, lanes)
    _zero(shift(out, inside), size - inside)


@native
def _gather_taps(
    x: Ptr, out: Ptr, c: int, iw: int, start: int, dw: int, channels: int, o0: int, o1: int, lanes: Static
) -> None:
    """out = elements o0 to o1 of what one pixel sees of a line whose taps are apart, or hold other groups' channels too."""
    for tap in range(o0 // channels, (o1 + channels - 1) // channels):
        begin, end = max(o0, tap * channels), min(o1, (tap + 1) * channels)
        w = start + tap * dw
        target = shift(out, begin - o0)
        if w < 0 or w >= iw:
            _zero(target, end - begin)
        else:
            copy_run(target, shift(x, w * c + begin - tap * channels), end - begin, lanes)


@native
def _zero(y: Ptr, count: int) -> None:
    for i in range(count):
        y[i] = like(y, 0)


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


@emitted("void(*F,*F,static)")
def _copy_vector(builder: Any, y: Any, x: Any, lanes: int) -> None:
    emit = Vectors(builder, x.type.pointee, lanes)
    emit.store(emit.load(x, 0), y, 0)
