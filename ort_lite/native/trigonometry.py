"""Sine and cosine, which LLVM vectorises for f32. f64 calls the C library."""

from itertools import pairwise
from typing import Any

from ort_lite.native.marks import arithmetic

TWO_OVER_PI = (0x00000028, 0xBE60DB93, 0x91054A7F, 0x09D5F47D, 0x4D377036, 0xD8A5664F, 0x10E4107F)
"""26 zeros and the first 198 bits of 2 / pi."""
UNIT, UNIT_ERROR = 1.462918119976564e-09, -4.07094042765558e-17
"""pi / 2 * 2**-30, rounded to float32, and what it lacks."""


@arithmetic("F(F)")
def sin(x: Any) -> Any:
    """Return the sine; NaN for infinities. f32: within 1.6 ulp for all numbers, 2.5 without fused multiplication and addition."""
    if x.name != "f32":
        return x.libm("sin")
    quadrant, negative, angle = _reduce(x)
    return _of_quadrant(x, quadrant, negative, angle, x.bits())


@arithmetic("F(F)")
def cos(x: Any) -> Any:
    """Return the cosine; NaN for infinities. f32: within 1.6 ulp for all numbers, 2.5 without fused multiplication and addition."""
    if x.name != "f32":
        return x.libm("cos")
    quadrant, negative, angle = _reduce(x)
    return _of_quadrant(x, quadrant + 1, negative, angle, quadrant.const(0))


def _of_quadrant(x: Any, quadrant: Any, negative: Any, angle: Any, sign: Any) -> Any:
    """Return the sine of `angle`, of the negative angle where `negative` is -1, plus quarter turns. Bit 31 of `sign` flips the sign."""
    square = angle * angle
    sine = ((square * -1.9515295891e-4 + 8.3321608736e-3) * square - 1.6666654611e-1) * square * angle + angle
    cosine = (square * 2.443315711809948e-5 - 1.388731625493765e-3) * square + 4.166664568298827e-2
    cosine = cosine * square * square + (square * -0.5 + 1.0)
    odd = (quadrant & 1).differs(0)
    sign = sign ^ (quadrant << 30) ^ odd.choose(negative.const(0), negative)
    result = (odd.choose(cosine, sine).bits() ^ (sign & -(1 << 31))).from_bits()
    return ((x.bits() & 0x7FFFFFFF) > 0x7F7FFFFF).choose(x - x, result)


def _reduce(x: Any) -> tuple[Any, Any, Any]:
    """Return q, s and a <= pi / 4 with |x| = q * pi / 2 + a, or - a where s is -1, not 0; q is modulo 4.

    |x| * 2 / pi is a product of integers: the 24 bits of x and 96 bits of 2 / pi, without those above that are multiples of 4 quarter
    turns. So the reduction is exact for the largest numbers too, without a branch, which would keep loops from becoming vectors.
    Source: Payne and Hanek, Radian reduction for trigonometric functions, 1983.
    """
    magnitude = x.bits() & 0x7FFFFFFF
    small = magnitude < 0x3F000000  # |x| < 0.5
    exponent = (magnitude >> 23) - 126
    mantissa = ((magnitude & 0x7FFFFF) | 0x800000).to("u32")
    largest = exponent > 127
    mantissa = small.choose(mantissa.const(0), largest.choose(mantissa << 1, mantissa))
    high, middle, low = _window(exponent.largest(0).smallest(127).to("u32"))
    product = _wide(mantissa, middle) + (_wide(mantissa, low) >> 32)
    high = (mantissa * high + (product >> 32).to("u32")).to("i32")  # 2 bits of the quarter turn, 30 of its fraction
    low = product.to("u32").to("i32")
    quadrant = (high + (1 << 29)) >> 30
    fraction = (high << 2) >> 2
    negative = fraction >> 31
    fraction, low = fraction ^ negative, (low ^ negative).to("u32")
    rest = ((fraction & 31) << 26) | (low >> 6).to("i32")  # so that both are converted without rounding much
    angle = (fraction & -32).to("f32")
    angle = angle * UNIT + (angle * UNIT_ERROR + rest.to("f32") * (UNIT * 2.0**-26))
    return quadrant, negative, small.choose(magnitude.from_bits(), angle)


def _window(start: Any) -> tuple[Any, Any, Any]:
    """Return 96 bits of 2 / pi from bit `start` on, at most 127: the words are chosen by its bits 6 and 5."""
    words = [start.const(word) for word in TWO_OVER_PI]
    for step in (2, 1):
        far = (start & (32 * step)).differs(0)
        words = [far.choose(there, here) for here, there in zip(words, words[step:], strict=False)]
    count = start & 31
    high, middle, low = (here.intrinsic("fshl", there, count) for here, there in pairwise(words))
    return high, middle, low


def _wide(a: Any, b: Any) -> Any:
    """Return the product of two u32 in 64 bits."""
    return a.to("u64") * b.to("u64")
