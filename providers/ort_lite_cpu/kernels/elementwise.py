"""Globals of generated elementwise kernels: the native language and the formulas that it lacks."""

from typing import Any

from ort_lite.native.lang import (
    OK,
    STRICT,
    Ptr,
    acos,
    acosh,
    arithmetic,
    asin,
    asinh,
    atan,
    atanh,
    bf16_to_f32,
    cast,
    ceil,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
    fabs,
    floor,
    fma,
    fmax,
    fmin,
    fmod_trunc,
    iabs,
    idiv,
    ifloormod,
    imax,
    imin,
    imod,
    isinf,
    isnan,
    like,
    log,
    log1p,
    native,
    power,
    rint,
    select,
    shl,
    shr,
    sigmoid,
    sin,
    sinh,
    span,
    sqrt,
    tan,
    tanh,
    wadd,
    wmul,
    wneg,
    wsub,
)
from ort_lite_cpu.kernels.access import fetch, put
from ort_lite_cpu.kernels.narrow import (
    f32_to_narrow,
    f32_to_power,
    i32_to_narrow,
    narrow_to_f32,
    narrow_to_i32,
    power_to_f32,
    quantize_narrow,
)


def ipower(base: Any, exponent: Any) -> Any:
    """Return base**n by squaring, wrapping; a negative exponent gives what C's truncated 1 / base**n gives."""
    if exponent < 0:
        return select(
            base == like(base, 1),
            like(base, 1),
            select(base == like(base, -1), like(base, 1 - 2 * (exponent & 1)), like(base, 0)),
        )
    result = like(base, 1)
    factor = base
    while exponent > 0:
        if exponent & 1:
            result = wmul(result, factor)
        factor = wmul(factor, factor)
        exponent = exponent >> 1
    return result


@native(fastmath=STRICT)
def fmod_floor(a: Any, b: Any) -> Any:
    """Remainder with the sign of b, as Python's %; NaN for b = 0. Spec: ONNX Mod-13, fmod=0."""
    rest = fmod_trunc(a, b)
    crossed = (rest < like(rest, 0)) != (b < like(b, 0))
    return select(rest == like(rest, 0), copysign(like(rest, 0), b), select(crossed, rest + b, rest))


def sign(x: Any) -> Any:
    """Return -1, 0 or 1; NaN for NaN."""
    return select(x > like(x, 0), like(x, 1), select(x < like(x, 0), like(x, -1), x))


@arithmetic("f32(f32,f32,f32,f32)")
def divide(x: Any, divisor: Any, inverse: Any, rest: Any) -> Any:
    """Return x / divisor, rounded once, for |x| <= 2 ** 17 * divisor, to which x is limited; NaN becomes the lower limit.

    `inverse` is 1 / divisor rounded to float32, `rest` what that is short of. The first quotient is off by less than a unit in the last
    place, so that its remainder is exact, and a product of that with the inverse corrects it. The divisor is in [2 ** -60, 2 ** 60]
    and products are fused with sums: no intermediate is rounded to a denormal that counts. Quicker than a division by 5 times.
    Source: Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990.
    """
    limit = divisor * 131072.0
    x = (x > -limit).choose(x, -limit)
    x = (x < limit).choose(x, limit)
    quotient = x.intrinsic("fma", inverse, x * rest)
    remainder = (-quotient).intrinsic("fma", divisor, x)
    return remainder.intrinsic("fma", inverse, quotient)


@arithmetic("@2(f32,A,static)")
def quantize(x: Any, zero: Any, name: str) -> Any:
    """Return x, rounded half to even, plus `zero`, saturated to the 8- or 16-bit type of that name; NaN becomes its smallest value."""
    bits = int(name[1:])
    low = 0 if name[0] == "u" else -(1 << (bits - 1))
    least, most = float(low) - zero.to("f32"), float(low + (1 << bits) - 1) - zero.to("f32")
    bounded = (x > least).choose(x, least)
    bounded = (bounded < most).choose(bounded, most)
    # Adding 1.5 * 2**23 leaves the rounded integer in the low bits: quicker than rounding and then converting.
    whole = (bounded + 12582912.0).bits() - 0x4B400000
    return (whole + zero.to("i32")).to(name)


__all__ = [
    "OK", "STRICT", "Ptr", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bf16_to_f32", "cast", "ceil", "copysign", "cos",
    "cosh", "divide", "erf", "exp", "f16_to_f32", "f32_to_bf16", "f32_to_f16", "f32_to_narrow", "f32_to_power", "fabs", "fetch",
    "floor", "fma", "fmax", "fmin", "fmod_floor", "fmod_trunc", "i32_to_narrow", "iabs", "idiv", "ifloormod", "imax", "imin", "imod",
    "ipower", "isinf", "isnan", "like", "log", "log1p", "narrow_to_f32", "narrow_to_i32", "native", "power", "power_to_f32",
    "put", "quantize", "quantize_narrow", "rint", "select", "shl", "shr", "sigmoid", "sign", "sin", "sinh", "span",
    "sqrt", "tan", "tanh", "wadd", "wmul", "wneg", "wsub",
]  # fmt: skip
