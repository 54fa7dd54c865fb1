"""DFT and STFT: a radix-2 transform in float64 for lengths that are powers of two, Bluestein's by way of it for the others."""

from ort_lite.native.lang import OK, Ptr, cast, cos, like, native, null, sin, span
from ort_lite.shapes import Dim, product
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.tensor import Tensor

PI = 3.141592653589793
SCRATCH = 28
"""float64 a part has for each of n points; it needs 5 m + 2 n for radix-2 transforms of m < 4 n: roots, chirp, spectrum, signal."""


def power_of_two(n: int) -> int:
    """The length of the radix-2 transforms that one of n points needs: n itself, or twice n rounded up."""
    m = 1
    while m < n:
        m *= 2
    if m == n:
        return n
    while m < 2 * n - 1:
        m *= 2
    return m


def fft(work: Ptr, at: int, m: int, roots: int) -> int:
    """m complex numbers at work[at], transformed in place, for m a power of two; roots: exp(-2 pi i k / m), k < m / 2."""
    j = 0
    for i in range(1, m):
        bit = m // 2
        while j & bit:
            j ^= bit
            bit //= 2
        j ^= bit
        if i < j:
            p, q = at + 2 * i, at + 2 * j
            work[p], work[q] = work[q], work[p]
            work[p + 1], work[q + 1] = work[q + 1], work[p + 1]
    half = 1
    while half < m:
        stride = m // (2 * half)
        for block in range(m // (2 * half)):
            first = at + 4 * half * block
            for k in range(half):
                c, s = work[roots + 2 * k * stride], work[roots + 2 * k * stride + 1]
                p, q = first + 2 * k, first + 2 * (k + half)
                re = work[q] * c - work[q + 1] * s
                im = work[q] * s + work[q + 1] * c
                work[q], work[q + 1] = work[p] - re, work[p + 1] - im
                work[p], work[p + 1] = work[p] + re, work[p + 1] + im
        half *= 2
    return 0


def prepare(work: Ptr, n: int, m: int, roots: int, chirp: int, spectrum: int) -> int:
    """Tables of a transform of n points by radix-2 ones of m: roots and, where m is not n, the chirp and its spectrum."""
    for k in range(m // 2):
        work[roots + 2 * k] = cos(2.0 * PI * k / m)
        work[roots + 2 * k + 1] = -sin(2.0 * PI * k / m)
    if m == n:
        return 0
    for k in range(2 * m):
        work[spectrum + k] = 0.0
    for k in range(n):
        angle = PI * (k * k % (2 * n)) / n
        re, im = cos(angle), sin(angle)
        work[chirp + 2 * k], work[chirp + 2 * k + 1] = re, -im
        work[spectrum + 2 * k], work[spectrum + 2 * k + 1] = re, im
        if k > 0:
            work[spectrum + 2 * (m - k)], work[spectrum + 2 * (m - k) + 1] = re, im
    fft(work, spectrum, m, roots)
    return 0


def multiply(work: Ptr, a: int, b: int, count: int) -> int:
    """a[k] *= b[k] for complex numbers."""
    for k in range(count):
        re = work[a + 2 * k] * work[b + 2 * k] - work[a + 2 * k + 1] * work[b + 2 * k + 1]
        work[a + 2 * k + 1] = work[a + 2 * k] * work[b + 2 * k + 1] + work[a + 2 * k + 1] * work[b + 2 * k]
        work[a + 2 * k] = re
    return 0


def transform(work: Ptr, n: int, m: int, roots: int, chirp: int, spectrum: int, signal: int) -> int:
    """The n complex numbers at work[signal], with room for m, become their discrete Fourier transform."""
    if m == n:
        return fft(work, signal, n, roots)
    multiply(work, signal, chirp, n)
    for k in range(2 * n, 2 * m):
        work[signal + k] = 0.0
    fft(work, signal, m, roots)
    multiply(work, signal, spectrum, m)
    for k in range(m):  # the inverse transform: that of the conjugates, conjugated
        work[signal + 2 * k + 1] = -work[signal + 2 * k + 1]
    fft(work, signal, m, roots)
    for k in range(n):
        work[signal + 2 * k] /= m
        work[signal + 2 * k + 1] /= -m
    multiply(work, signal, chirp, n)
    return 0


def load(
    x: Ptr, window: Ptr, work: Ptr, signal: int, n: int, base: int, given: int, step: int, parts: int, inverse: int, half: int
) -> int:
    """n complex numbers to work[signal] from `given` ones of 1 or 2 parts, zeros behind; half: the rest mirrors the first half."""
    for k in range(n):
        mirrored = half != 0 and 2 * k > n
        at = n - k if mirrored else k
        re, im = 0.0, 0.0
        if at < given:
            re = cast(x[base + at * step], "f64")
            if parts == 2:
                im = cast(x[base + at * step + 1], "f64")
            if not null(window):
                factor = cast(window[at], "f64")
                re, im = re * factor, im * factor
        if half != 0 and (k == 0 or 2 * k == n):
            im = 0.0
        work[signal + 2 * k] = re
        # An inverse transform is that of the conjugates, conjugated.
        work[signal + 2 * k + 1] = im if mirrored == (inverse != 0) else -im
    return 0


@native
def fourier(
    x: Ptr, window: Ptr, y: Ptr, work: Ptr, outer: int, inner: int, n: int, given: int, bins: int,
    x_outer: int, x_inner: int, x_step: int, x_parts: int, y_outer: int, y_inner: int, y_step: int, y_parts: int,
    inverse: int, half: int, room: int, part: int, parts: int,
) -> int:  # fmt: skip
    """The first `bins` numbers of the transform of n points for each of outer * inner signals, through the given strides.

    work: `room` float64 for each part. Parts share the signals.
    """
    m = power_of_two(n)
    roots = part * room
    chirp = roots + m
    spectrum = chirp + 2 * n
    signal = spectrum + 2 * m
    prepare(work, n, m, roots, chirp, spectrum)
    scale = 1.0 / n if inverse != 0 else 1.0
    for row in span(outer * inner, part, parts):
        source = row // inner * x_outer + row % inner * x_inner
        load(x, window, work, signal, n, source, given, x_step, x_parts, inverse, half)
        transform(work, n, m, roots, chirp, spectrum, signal)
        target = row // inner * y_outer + row % inner * y_inner
        for k in range(bins):
            y[target + k * y_step] = like(y, work[signal + 2 * k] * scale)
            if y_parts == 2:
                im = work[signal + 2 * k + 1] * scale
                y[target + k * y_step + 1] = like(y, -im if inverse != 0 else im)
    return OK


def _emit(op: Op, x: Tensor, window: Tensor | None, y: Tensor, n: Dim, outer: Dim, inner: Dim, *rest: Dim) -> None:
    room = n * SCRATCH + 8
    work = op.temporary("float64", (op.options.threads, room))
    types = [x.native, x.native if window is None else window.native, y.native, "f64"]
    op.emit(fourier, [x, window, y, work], outer, inner, n, *rest, room, types=types, work=outer * inner * n * 64)


@operator("DFT", since=17, types=REAL)
def dft(op: Op) -> None:
    """One axis of (..., n, ..., 1 or 2), real or complex. O(n log n) for any n. Spec: ONNX DFT-20."""
    x, y = op.input(0), op.output(0)
    rank = len(x.shape)
    axis = (op.numbers(2)[0] if op.has(2) else -2) if op.version >= 20 else op.attr("axis", 1)
    axis %= rank
    inverse, half = op.attr("inverse", 0), op.attr("onesided", 0)
    n: Dim = y.shape[axis]
    if op.has(1):
        [n] = op.contents(1)
    elif half and not inverse:
        n = x.shape[axis]
    inner, outer = product(x.shape[axis + 1 : -1]), product(x.shape[:axis])
    cx, cy = x.shape[-1], y.shape[-1]
    x_strides = (x.shape[axis] * inner * cx, cx, inner * cx, cx)
    y_strides = (y.shape[axis] * inner * cy, cy, inner * cy, cy)
    _emit(op, x, None, y, n, outer, inner, x.shape[axis], y.shape[axis], *x_strides, *y_strides, inverse, int(inverse and half))


@operator("STFT", since=17, types=REAL)
def stft(op: Op) -> None:
    """(B, samples, 1 or 2) -> (B, frames, bins, 2), each frame times the window. Spec: ONNX STFT-17."""
    x, y = op.input(0), op.output(0)
    window = op.optional(2)
    [step] = op.contents(1)
    batch, samples, parts = x.shape if len(x.shape) == 3 else (*x.shape, 1)
    _, frames, bins, _ = y.shape
    n: Dim = samples
    if op.has(3):
        [n] = op.contents(3)
    elif window is not None:
        n = window.shape[0]
    x_strides = (samples * parts, step * parts, parts, parts)
    _emit(op, x, window, y, n, batch, frames, n, bins, *x_strides, frames * bins * 2, bins * 2, 2, 2, 0, 0)
