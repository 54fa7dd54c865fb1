"""Floating-point functions that LLVM vectorises for f32. f64 calls the C library where accuracy requires it."""

import math
from collections.abc import Callable
from typing import Any

from ort_lite.native.marks import arithmetic


def _polynomial(x: Any, *coefficients: float) -> Any:
    """Evaluate a polynomial by Horner's method, highest power first."""
    result = x.const(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


@arithmetic("F(F)")
def _exp_by_factors(x: Any) -> Any:
    return _exp_f32(x, _scale_by_factors) if x.name == "f32" else x.libm("exp")


@arithmetic("F(F)", needs="avx512f", otherwise=_exp_by_factors)
def exp(x: Any) -> Any:
    """Return e**x. f32: within 1.2 ulp, including denormal results."""
    return _exp_f32(x, _scale_by_instruction) if x.name == "f32" else x.libm("exp")


Scale = Callable[[Any, Any], Any]
"""A function of a number in [sqrt(1/2), sqrt(2)] and of n + 254 + 0x4B400000, an integer: the number times 2**n, rounded once."""


def _exp_f32(x: Any, scale: Scale, negative: bool = False) -> Any:
    """Compute 2**n * e**r with |r| <= ln(2) / 2 and a minimax fit of e**r (error 4e-9). NaN passes the comparisons."""
    if not negative:
        x = (x > 90.0).choose(x.const(90.0), x)
    x = (x < -105.0).choose(x.const(-105.0), x)
    # Adding 1.5 * 2**23 leaves the nearest integer in the low bits: no conversion, defined for NaN too.
    magic = 12582912.0 + 2 * 127  # includes the exponent bias of two powers of two
    shifted = x * 1.44269504 + magic
    n = shifted - magic
    r = x - n * 0.693359375 - n * -2.12194440e-4
    return scale(
        _polynomial(r, 1.38189394e-3, 8.36870354e-3, 4.16682884e-2, 1.66665211e-1, 0.49999994, 1.0, 1.0), shifted.bits()
    )


def _scale_by_factors(e: Any, whole: Any) -> Any:
    half = whole >> 1  # two factors, neither of which overflows, so that a denormal result is rounded once
    return e * (half << 23).from_bits() * ((whole - half) << 23).from_bits()


def _scale_by_instruction(e: Any, whole: Any) -> Any:
    """Compute by `vscalefps`: on Zen 4, the exponential takes 0.85 of the time."""
    return e.scale(whole - (0x4B400000 + 254))


@arithmetic("F(F)")
def log(x: Any) -> Any:
    """Return the natural logarithm: -inf at 0, NaN below. f32: within 1 ulp."""
    return _log_f32(x) if x.name == "f32" else x.libm("log")


def _log_f32(x: Any) -> Any:
    """Compute log(m) + n ln(2) with m in [sqrt(1/2), sqrt(2))."""
    tiny = x < 1.17549435e-38
    normal = tiny.choose(x * 8388608.0, x)
    bits = normal.bits() - 0x3F3504F3  # sqrt(1/2): the remaining exponent is that of x / m
    n = (bits >> 23).to("f32") - tiny.choose(x.const(23.0), 0.0)
    m = ((bits & 0x7FFFFF) + 0x3F3504F3).from_bits() - 1.0
    p = _polynomial(
        m,
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
    square = m * m
    result = n * 0.693359375 + (m + (p * m * square + n * -2.12194440e-4 - square * 0.5))
    result = x.equals(math.inf).choose(x, result)
    result = (x >= 0.0).choose(result, math.nan)
    return x.equals(0.0).choose(x.const(-math.inf), result)


@arithmetic("F(F)")
def log1p(x: Any) -> Any:
    """Return the natural logarithm of 1 + x: -inf at -1, NaN below. f32: within 1.5 ulp."""
    return _log1p_f32(x) if x.name == "f32" else x.libm("log1p")


def _log1p_f32(x: Any) -> Any:
    """Compute log(u) + (x - (u - 1)) / u with u = 1 + x: the second term is what rounding u has lost."""
    u = x + 1.0
    result = _log_f32(u) + (x - (u - 1.0)) / u
    result = u.equals(1.0).choose(x, result)
    result = (x < math.inf).choose(result, x)  # so NaN stays the one that came
    return u.equals(0.0).choose(x.const(-math.inf), result)


@arithmetic("F(F)")
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent. f32: within 5 ulp, 3 for |x| < 1; never beyond 1."""
    return _tanh_f32(x) if x.name == "f32" else x.libm("tanh")


def _tanh_f32(x: Any) -> Any:
    """Compute x * P(x**2) / Q(x**2), a minimax fit on [-8, 8] (error 2e-9); P(0) = Q(0) = 1 keeps small x exact."""
    y = (x > 8.0).choose(x.const(8.0), x)
    y = (y < -8.0).choose(x.const(-8.0), y)
    s = y * y
    p = _polynomial(
        s,
        -1.1650242624814195e-13,
        6.396911449635027e-11,
        -2.2377176775526438e-08,
        1.165754963376252e-05,
        3.1508019747620276e-03,
        1.3125637120705447e-01,
        1.0,
    )
    q = _polynomial(s, 2.6150696099924676e-04, 2.4680724578187388e-02, 4.6458969231060687e-01, 1.0)
    return y * (p / q)


@arithmetic("F(F)")
def erf(x: Any) -> Any:
    """Return the error function. f32: within 2 ulp."""
    return _erf_f32(x) if x.name == "f32" else x.libm("erf")


_SIGN = -(1 << 31)


def _erf_f32(x: Any) -> Any:
    """Compute, for t = |x|, the larger of t + t * P(t**2), a fit up to 0.95, and 1 - Q(t)**4, where Q fits erfc**(1/4) up to 4.

    Beyond its range each fit is too small, so the larger of the two is erf; comparing with 0.95 and choosing would cost more. Q is
    a polynomial about 1.5: there, the rounding errors of Horner's method are less than the decrease of Q from one number to the
    next, so erf never decreases.
    """
    t = x.intrinsic("fabs")
    t = (t > 4.0).choose(x.const(4.0), t)  # where erf is 1 in f32; keeps NaN
    near = _polynomial(
        t * t,
        -5.81142725e-4,
        4.95586265e-3,
        -2.67394874e-2,
        1.12810135e-1,
        -3.76124114e-1,
        1.28379136e-1,
    )
    near = near * t + t
    root = _polynomial(
        t - 1.5,
        -2.64598384e-5,
        -7.31183682e-5,
        1.225685e-3,
        -1.57065515e-3,
        -1.24905137e-2,
        3.29470113e-2,
        6.93291426e-2,
        -3.76384616e-1,
        4.29075241e-1,
    )
    square = root * root
    far = 1.0 - square * square
    # Not by copysign: for an x from f64 and a result converted to f16, LLVM calls compiler-rt.
    return ((near > far).choose(near, far).bits() ^ (x.bits() & _SIGN)).from_bits()


@arithmetic("F(F)")
def _sigmoid_by_factors(x: Any) -> Any:
    return _sigmoid(x, _scale_by_factors)


@arithmetic("F(F)", needs="avx512f", otherwise=_sigmoid_by_factors)
def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e**-x), accurate at both ends because the exponential never overflows."""
    return _sigmoid(x, _scale_by_instruction)


def _sigmoid(x: Any, scale: Scale) -> Any:
    e = -x.intrinsic("fabs")
    e = _exp_f32(e, scale, negative=True) if x.name == "f32" else e.libm("exp")
    return (x < 0.0).choose(e, 1.0) / (e + 1.0)


def _intrinsic(name: str, text: str) -> Callable[[Any], Any]:
    @arithmetic("F(F)")
    def function(x: Any) -> Any:
        return x.intrinsic(name)

    function.__doc__ = text
    return function


sqrt = _intrinsic("sqrt", "Square root; NaN below 0.")
floor = _intrinsic("floor", "Largest integer that is not above x.")
ceil = _intrinsic("ceil", "Smallest integer that is not below x.")
trunc = _intrinsic("trunc", "x without its fraction.")
rint = _intrinsic("rint", "Nearest integer, halves to even.")
fabs = _intrinsic("fabs", "|x|.")


@arithmetic("F(F,F)")
def copysign(x: Any, y: Any) -> Any:
    """Return |x| with the sign of y."""
    return x.intrinsic("copysign", y)


@arithmetic("F(F,F,F)")
def fma(x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z, fused if the target can."""
    return x.intrinsic("fmuladd", y, z)


@arithmetic("F(F,F)")
def fmin(x: Any, y: Any) -> Any:
    """Return the smaller number; NaN if either is NaN, as numpy.minimum."""
    return x.smallest(y)


@arithmetic("F(F,F)")
def fmax(x: Any, y: Any) -> Any:
    """Return the larger number; NaN if either is NaN, as numpy.maximum."""
    return x.largest(y)


@arithmetic("b1(F)")
def isnan(x: Any) -> Any:
    """Return True for NaN."""
    return x.differs(x)


@arithmetic("b1(F)")
def isinf(x: Any) -> Any:
    """Return True for inf and -inf."""
    return x.intrinsic("fabs").equals(math.inf)


@arithmetic("u32(f32)", "u64(f64)")
def bits(x: Any) -> Any:
    """Return the bit pattern of a float."""
    return x.bits()


@arithmetic("f32(u32)", "f64(u64)")
def from_bits(x: Any) -> Any:
    """Return the float with a bit pattern."""
    return x.from_bits()
