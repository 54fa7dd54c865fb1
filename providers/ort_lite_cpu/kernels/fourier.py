"""Discrete Fourier transforms of complex numbers: mixed radix for lengths of small factors, Bluestein's way for the others.

The mixed radix transform is pocketfft's, as NumPy and SciPy have it: the same factors in the same order (8 apart), the same order
of additions, products rounded before they are added. So it rounds as theirs does: where exact values cancel, the same is left.
"""

from typing import Any

from ort_lite.native.lang import STRICT, Ptr, cos, like, native, sin

HALF_PI = 1.5707963267948966
LARGEST = 47
"""Largest prime factor that the mixed radix transform takes: p numbers together take p * p products."""
PAIRS = 2 * LARGEST
"""Numbers that a butterfly keeps: sums and differences of LARGEST complex ones, half of each."""


def smooth(n: int) -> bool:
    """Return True if n has no prime factor above LARGEST."""
    p = 2
    while n > 1 and p <= LARGEST:
        while n > 1 and n % p == 0:
            n //= p
        p += 1
    return n <= 1


def convolution_size(n: int) -> int:
    """Return the power of two that Bluestein's transforms of n points take: 2 n - 1 or more, less than 4 n."""
    m = 1
    while m < 2 * n - 1:
        m *= 2
    return m


def factor(n: int) -> int:
    """Return the next radix for n remaining points: 2 if an odd number of twos is left, then 4s, then odd primes, smallest first."""
    twos, m = 0, n
    while m % 2 == 0:
        m //= 2
        twos += 1
    if twos > 0:
        return 2 if twos % 2 == 1 else 4
    p = 3
    while n % p != 0:
        p += 2
    return p


@native(fastmath=STRICT)
def prepare_roots(work: Ptr, at: int, n: int) -> None:
    """work[at + k] = exp(2 pi i k / n) for k < n, computed in float64; multiples of a quarter turn are exact."""
    for k in range(n):
        quarter = 4 * k // n
        angle = HALF_PI * float(4 * k - quarter * n) / float(n)
        c, s = cos(angle), sin(angle)
        re, im = (s, c) if quarter % 2 == 1 else (c, s)
        work[at + 2 * k] = like(work, -re if quarter in (1, 2) else re)
        work[at + 2 * k + 1] = like(work, -im if quarter in (2, 3) else im)


@native(fastmath=STRICT)
def rotate(work: Ptr, root: int, re: Any, im: Any, to: int) -> None:
    """work[to] = (re, im) times the conjugate of work[root]."""
    c, s = work[root], work[root + 1]
    work[to] = re * c + im * s
    work[to + 1] = im * c - re * s


@native(fastmath=STRICT)
def pass_two(work: Ptr, source: int, target: int, count: int, done: int, roots: int) -> None:
    """Compute butterflies of two: `count` numbers in each of `done` groups; steps of source and target as pocketfft's."""
    for k in range(done):
        for i in range(count):
            p, q = source + 2 * (i + count * 2 * k), source + 2 * (i + count * (2 * k + 1))
            out = target + 2 * (i + count * k)
            re, im = work[p] - work[q], work[p + 1] - work[q + 1]
            work[out], work[out + 1] = work[p] + work[q], work[p + 1] + work[q + 1]
            rotate(work, roots + 2 * i * done, re, im, out + 2 * count * done)


@native(fastmath=STRICT)
def pass_four(work: Ptr, source: int, target: int, count: int, done: int, roots: int) -> None:
    """Compute butterflies of four, like `pass_two`."""
    step, away = 2 * count, 2 * count * done
    for k in range(done):
        for i in range(count):
            p, out, turn = source + 2 * (i + count * 4 * k), target + 2 * (i + count * k), 2 * i * done
            q, r, s = p + step, p + 2 * step, p + 3 * step
            sum0, sum0i, less0, less0i = (
                work[p] + work[r],
                work[p + 1] + work[r + 1],
                work[p] - work[r],
                work[p + 1] - work[r + 1],
            )
            sum1, sum1i, less1, less1i = (
                work[q] + work[s],
                work[q + 1] + work[s + 1],
                work[q] - work[s],
                work[q + 1] - work[s + 1],
            )
            work[out], work[out + 1] = sum0 + sum1, sum0i + sum1i
            rotate(work, roots + turn, less0 + less1i, less0i - less1, out + away)
            rotate(work, roots + 2 * turn, sum0 - sum1, sum0i - sum1i, out + 2 * away)
            rotate(work, roots + 3 * turn, less0 - less1i, less0i + less1, out + 3 * away)


@native(fastmath=STRICT)
def pass_odd(work: Ptr, source: int, target: int, count: int, done: int, roots: int, p: int, n: int, pairs: int) -> None:
    """Compute butterflies of an odd number p, like `pass_two`; `pairs` has room for p - 1 complex numbers."""
    half, step, away = (p - 1) // 2, 2 * count, 2 * count * done
    for k in range(done):
        for i in range(count):
            first, out = source + 2 * (i + count * p * k), target + 2 * (i + count * k)
            re, im = work[first], work[first + 1]
            total, totali = re, im
            for j in range(half):
                a, b, pair = first + (j + 1) * step, first + (p - 1 - j) * step, pairs + 4 * j
                work[pair], work[pair + 1] = work[a] + work[b], work[a + 1] + work[b + 1]
                work[pair + 2], work[pair + 3] = work[a] - work[b], work[a + 1] - work[b + 1]
                total += work[pair]
                totali += work[pair + 1]
            work[out], work[out + 1] = total, totali
            for u in range(1, half + 1):
                even, eveni, odd, oddi = re, im, like(work, 0), like(work, 0)
                for j in range(half):
                    root, pair = roots + 2 * ((j + 1) * u % p * (n // p)), pairs + 4 * j
                    even += work[root] * work[pair]
                    eveni += work[root] * work[pair + 1]
                    odd += work[root + 1] * work[pair + 3]
                    oddi += work[root + 1] * work[pair + 2]
                turn = 2 * i * done
                rotate(work, roots + u * turn, even + odd, eveni - oddi, out + u * away)
                rotate(work, roots + (p - u) * turn, even - odd, eveni + oddi, out + (p - u) * away)


@native(fastmath=STRICT, inline=False)
def transform_factors(work: Ptr, n: int, signal: int, spare: int, roots: int, pairs: int) -> int:
    """Transform n complex numbers at work[signal], by way of as many at work[spare]. Returns the one that has the result."""
    done = 1
    while done < n:
        p = factor(n // done)
        count = n // done // p
        if p == 2:
            pass_two(work, signal, spare, count, done, roots)
        elif p == 4:
            pass_four(work, signal, spare, count, done, roots)
        else:
            pass_odd(work, signal, spare, count, done, roots, p, n, pairs)
        signal, spare = spare, signal
        done *= p
    return signal


def prepare_chirp(work: Ptr, n: int, m: int, roots: int, chirp: int, spectrum: int, spare: int) -> int:
    """work[chirp + k] = exp(-pi i k^2 / n) for k < n; work[spectrum:] = the transform of its inverse."""
    for k in range(2 * m):
        work[spectrum + k] = 0.0
    for k in range(n):
        angle = 2.0 * HALF_PI * float(k * k % (2 * n)) / float(n)
        re, im = cos(angle), sin(angle)
        work[chirp + 2 * k], work[chirp + 2 * k + 1] = re, -im
        work[spectrum + 2 * k], work[spectrum + 2 * k + 1] = re, im
        if k > 0:
            work[spectrum + 2 * (m - k)], work[spectrum + 2 * (m - k) + 1] = re, im
    if transform_factors(work, m, spectrum, spare, roots, 0) == spare:
        for k in range(2 * m):
            work[spectrum + k] = work[spare + k]
    return 0


def multiply(work: Ptr, a: int, b: int, count: int) -> int:
    """a[k] *= b[k] for complex numbers."""
    for k in range(count):
        re = work[a + 2 * k] * work[b + 2 * k] - work[a + 2 * k + 1] * work[b + 2 * k + 1]
        work[a + 2 * k + 1] = work[a + 2 * k] * work[b + 2 * k + 1] + work[a + 2 * k + 1] * work[b + 2 * k]
        work[a + 2 * k] = re
    return 0


def bluestein(work: Ptr, n: int, m: int, signal: int, spare: int, roots: int, chirp: int, spectrum: int) -> int:
    """Transform n complex numbers like `transform_factors`, for any n: a convolution with the chirp, by transforms of m points.

    `signal` and `spare` have room for m.
    """
    multiply(work, signal, chirp, n)
    for k in range(2 * n, 2 * m):
        work[signal + k] = 0.0
    there = transform_factors(work, m, signal, spare, roots, 0)
    multiply(work, there, spectrum, m)
    for k in range(m):  # the inverse transform: that of the conjugates, conjugated
        work[there + 2 * k + 1] = -work[there + 2 * k + 1]
    there = transform_factors(work, m, there, signal + spare - there, roots, 0)
    for k in range(n):
        work[there + 2 * k] /= m
        work[there + 2 * k + 1] /= -m
    multiply(work, there, chirp, n)
    return there
