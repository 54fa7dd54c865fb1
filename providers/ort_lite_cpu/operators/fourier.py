"""DFT and STFT, in the precision of their tensors: one axis at a time, through strides."""

from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, STRICT, Ptr, Static, like, native, null, span
from ort_lite.shapes import equal, less, maximum, product
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.fourier import (
    PAIRS,
    bluestein,
    convolution_size,
    prepare_chirp,
    prepare_roots,
    smooth,
    transform_factors,
)
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import REAL, operator

MIXED, CHIRP = 6, 34
"""Numbers of scratch a part needs for each of n points: roots, signal, spare of n; those of m < 4 n, chirp of n, spectrum of m."""


class Signals(NamedTuple):
    """Positions of outer * inner signals in a tensor: signal (o, i) starts at element o * outer + i * inner."""

    length: int
    """Numbers of a signal."""
    outer: int
    inner: int
    step: int
    """Elements between two numbers."""
    components: int
    """Elements of a number: 1 if it is real, 2 if it is complex."""


class Transforms(NamedTuple):
    """The numbers of signals, outer * inner, and of points of the transform of each; numbers that it lacks are 0."""

    outer: int
    inner: int
    n: int


@native(fastmath=STRICT)
def load(x: Ptr, window: Ptr, work: Ptr, signal: int, base: int, n: int, source: Signals, inverse: int, half: int) -> Any:
    """work[signal:] (n complex numbers) = the signal at x[base], times the window, with zeros behind.

    half: the rest mirrors the first half. Returns the sum of the numbers' magnitudes, part by part.
    """
    total = like(work, 0)
    for k in range(n):
        mirrored = half != 0 and 2 * k > n
        at = n - k if mirrored else k
        re, im = like(work, 0), like(work, 0)
        if at < source.length:
            re = like(work, x[base + at * source.step])
            if source.components == 2:
                im = like(work, x[base + at * source.step + 1])
            if not null(window):
                factor = like(work, window[at])
                re, im = re * factor, im * factor
        if half != 0 and (k == 0 or 2 * k == n):
            im = like(work, 0)
        work[signal + 2 * k] = re
        # An inverse transform is that of the conjugates, conjugated.
        work[signal + 2 * k + 1] = im if mirrored == (inverse != 0) else -im
        total += abs(re) + abs(im)
    return total


@native(fastmath=STRICT)
@extents(
    x="walk(0, g.outer, s.outer, g.inner, s.inner, min(s.length, g.n), s.step, max(min(s.components, 2), 1), 1)",
    window="min(s.length, g.n)",
    y="walk(0, g.outer, t.outer, g.inner, t.inner, t.length, t.step, max(min(t.components, 2), 1), 1)",
    work="parts * max(room, g.n * CHIRP if chirp else g.n * MIXED + PAIRS)",
)
def fourier(
    x: Ptr,
    window: Ptr,
    y: Ptr,
    work: Ptr,
    g: Transforms,
    s: Signals,
    t: Signals,
    inverse: int,
    half: int,
    room: int,
    unit: float,
    chirp: Static,
    part: int,
    parts: int,
) -> int:
    """y (outer, inner, t.length) = the first numbers of the transforms of x (outer, inner, s.length), laid out as t and s say.

    That of a real signal is Hermitian to the bit: numbers behind the middle are conjugates of those before it, the middle one
    and the first are real. work: `room` numbers for each part, as many as `_emit` gives; t.length is at most n, see `_check`. Parts
    share the signals. There are two kernels, which compute the lengths of small factors, and, `chirp`, the others.

    A number in which all cancels is no 0 unless the signal is: its real part is `unit`, the rounding of the element type, times the
    sum of the signal's magnitudes. Models divide by these numbers, and products with rounded sines, which they are elsewhere, leave
    no zeros. So does no inverse transform: its zeros are samples.
    """
    outer, inner, n = g
    if smooth(n) == chirp:
        return OK
    m = convolution_size(n) if chirp else n
    roots = part * room
    signal, spare, spectrum = roots + 2 * m, roots + 4 * m, roots + 6 * m
    prepare_roots(work, roots, m)
    if chirp:
        prepare_chirp(work, n, m, roots, spectrum + 2 * m, spectrum, spare)
    scale = like(work, 1) / like(work, n) if inverse != 0 else like(work, 1)
    for row in span(outer * inner, part, parts):
        source = row // inner * s.outer + row % inner * s.inner
        total = load(x, window, work, signal, source, n, s, inverse, half)
        least = like(work, 0) if inverse != 0 else total * like(work, unit)
        if chirp:
            there = bluestein(work, n, m, signal, spare, roots, spectrum + 2 * m, spectrum)
        else:
            there = transform_factors(work, n, signal, spare, roots, spectrum)
        target = row // inner * t.outer + row % inner * t.inner
        for k in range(t.length):
            mirrored = s.components == 1 and 2 * k > n
            at = there + 2 * (n - k if mirrored else k)
            if work[at] == like(work, 0) and work[at + 1] == like(work, 0):
                work[at] = least
            y[target + k * t.step] = like(y, work[at] * scale)
            if t.components == 2:
                im = work[at + 1] * scale
                if s.components == 1 and (k == 0 or 2 * k == n):
                    im = like(work, 0)
                y[target + k * t.step + 1] = like(y, im if mirrored == (inverse != 0) else -im)
    return OK


def _emit(op: NodeLowering, x: Tensor, window: Tensor | None, y: Tensor, sizes: tuple[Dim, ...], **others: Any) -> None:
    """Emit `fourier` for the sizes (outer, inner, n); `others`: its other parameters. If n is open, the run chooses the kernel.

    Bluestein's transform is computed in float64.
    """
    outer, inner, n = sizes
    record: Any = sizes
    unit = float(np.finfo(to_numpy(x.dtype)).eps) / 2
    for chirp in (False, True):
        if isinstance(n, int) and smooth(n) == chirp:
            continue
        room = n * CHIRP if chirp else n * MIXED + PAIRS
        work = op.temporary("float64" if chirp else x.dtype, (op.options.threads, room))
        cost = outer * inner * n * 64
        op.emit(
            fourier,
            [x, window, y, work],
            g=Transforms(*record),
            **others,
            room=room,
            unit=unit,
            chirp=chirp,
            slices=1,
            work=cost,
        )


def _check(op: NodeLowering, n: Dim, bins: Dim) -> None:
    op.require(1 - less(n, maximum(bins, 0)), "a transform of {0} points has no {1} numbers", n, bins)


@operator("DFT", since=17, types=REAL)
def dft(op: NodeLowering) -> None:
    """Transform one axis of (..., n, ..., 1 or 2), real or complex. O(n log n) for any n. Spec: ONNX DFT-20."""
    x, y = op.input(0), op.output(0)
    rank = len(x.shape)
    axis = (op.numbers(2)[0] if op.has(2) else -2) if op.version >= 20 else op.attr("axis", 1)
    axis %= rank
    if axis == rank - 1:
        raise op.reject(f"axis {axis} is that of real and imaginary parts")
    inverse, half = op.attr("inverse", 0), op.attr("onesided", 0)
    n: Dim = y.shape[axis]
    if op.has(1):
        n = op.scalar(1)
    elif half and not inverse:
        n = x.shape[axis]
    inner, outer = product(x.shape[axis + 1 : -1]), product(x.shape[:axis])
    cx, cy = x.shape[-1], y.shape[-1]
    _check(op, n, y.shape[axis])
    given, bins = x.shape[axis], y.shape[axis]
    source: Any = (given, given * inner * cx, cx, inner * cx, cx)
    target: Any = (bins, bins * inner * cy, cy, inner * cy, cy)
    half = int(inverse and half)
    _emit(op, x, None, y, (outer, inner, n), s=Signals(*source), t=Signals(*target), inverse=inverse, half=half)


@operator("STFT", since=17, types=REAL)
def stft(op: NodeLowering) -> None:
    """Transform (B, samples, 1 or 2) to (B, frames, bins, 2), each frame times the window. Spec: ONNX STFT-17."""
    x, y = op.input(0), op.output(0)
    window = op.optional(2)
    step = op.scalar(1)
    batch, samples, parts = x.shape if len(x.shape) == 3 else (*x.shape, 1)
    _, frames, bins, _ = y.shape
    n: Dim = samples
    if op.has(3):
        n = op.scalar(3)
    elif window is not None:
        n = window.shape[0]
    _check(op, n, bins)
    op.require(1 - less(samples, n), "a frame of {0} does not fit into {1} samples", n, samples)
    if window is not None:
        op.require(equal(window.shape[0], n), "a window of {0} for frames of {1}", window.shape[0], n)
    source: Any = (n, samples * parts, step * parts, parts, parts)
    target: Any = (bins, frames * bins * 2, bins * 2, 2, 2)
    _emit(op, x, window, y, (batch, frames, n), s=Signals(*source), t=Signals(*target), inverse=0, half=0)
