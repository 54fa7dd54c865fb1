"""Types of a byte or less as their bits in u8: conversions from and to f32 and i32. Those below 8 bits use the low ones."""

from typing import Any

from ort_lite.native.lang import arithmetic

NARROW_FLOATS = {
    # mantissa bits, exponent bias, largest finite code, code above it, code of NaN, sign bit
    "float8_e4m3fn": (3, 7, 0x7E, 0x7F, 0x7F, 0x80),
    "float8_e4m3fnuz": (3, 8, 0x7F, 0x80, 0x80, 0x80),
    "float8_e5m2": (2, 15, 0x7B, 0x7C, 0x7E, 0x80),
    "float8_e5m2fnuz": (2, 16, 0x7F, 0x80, 0x80, 0x80),
    "float6_e2m3fn": (3, 1, 0x1F, 0x1F, 0x20, 0x20),
    "float6_e3m2fn": (2, 3, 0x1F, 0x1F, 0x20, 0x20),
    "float4_e2m1fn": (1, 1, 0x07, 0x07, 0x08, 0x08),
}
NARROW_INTEGERS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
POWERS = "float8_e8m0fnu"
"""Powers of two from 2**-127 on, and NaN (255)."""


@arithmetic("f32(u8,static)")
def narrow_to_f32(code: Any, name: str) -> Any:
    """Return the exact value. `name` is one of NARROW_FLOATS."""
    mantissa, bias, largest, above, nan, sign = NARROW_FLOATS[name]
    u = code.to("u32")
    magnitude = u & (sign - 1)
    normal = ((magnitude << (23 - mantissa)) + ((127 - bias) << 23)).from_bits()
    small = magnitude.to("f32") * 2.0 ** (1 - bias - mantissa)
    value = (magnitude >= (1 << mantissa)).choose(normal, small)
    if above == largest + 1 == 0x7C:
        special = (u.const(0x7F800000) | (magnitude > above).choose(u.const(0x400000), 0)).from_bits()
        value = (magnitude >= above).choose(special, value)
    elif above != largest:
        value = ((u if nan == sign else magnitude).equals(nan)).choose(value.const(float("nan")), value)
    return (value.bits().to("u32") | ((u & sign) << (32 - sign.bit_length()))).from_bits()


@arithmetic("u8(f32,static,static)")
def f32_to_narrow(x: Any, name: str, saturate: bool) -> Any:
    """Round to nearest even. Too large numbers become the largest one, or, without `saturate`, infinity or NaN."""
    mantissa, bias, largest, above, nan, sign = NARROW_FLOATS[name]
    u = x.bits().to("u32")
    magnitude = u & 0x7FFFFFFF
    drop = 23 - mantissa
    normal = ((magnitude + ((1 << (drop - 1)) - 1) + ((magnitude >> drop) & 1)) >> drop) - ((127 - bias) << mantissa)
    # Adding 2**23 times the unit of the smallest numbers leaves the rounded count of units in the low bits.
    unit = 2.0 ** (24 - bias - mantissa)
    small = (magnitude.from_bits() + unit).bits().to("u32") - u.const((24 - bias - mantissa + 127) << 23)
    code = (magnitude < ((128 - bias) << 23)).choose(small, normal)
    code = (code > largest).choose(u.const(largest if saturate else above), code)
    code = (magnitude > 0x7F800000).choose(u.const(nan), code)
    negative = (u >> (32 - sign.bit_length())) & sign
    if nan == 0x80:  # no negative zero: its code is NaN's
        negative = code.equals(0).choose(u.const(0), negative)
    elif nan == sign:
        negative = (magnitude > 0x7F800000).choose(u.const(0), negative)
    return (code | negative).to("u8")


@arithmetic("f32(u8)")
def power_to_f32(code: Any) -> Any:
    """Return 2**(code - 127); NaN for 255."""
    u = code.to("u32")
    value = u.equals(0).choose(u.const(0x00400000), u << 23)
    return u.equals(255).choose(u.const(0x7FC00000), value).from_bits()


@arithmetic("u8(f32,static,static)")
def f32_to_power(x: Any, mode: str, saturate: bool) -> Any:
    """Return the magnitude's power of two, rounded "up", "down" or to "nearest". Spec: ONNX Cast-25, FLOAT8E8M0."""
    magnitude = x.bits().to("u32") & 0x7FFFFFFF
    exponent, rest = magnitude >> 23, magnitude & 0x7FFFFF
    tiny = exponent.equals(0)
    one = magnitude.const(1)
    if mode == "up":
        exponent = exponent + (rest > tiny.choose(magnitude.const(0x400000), 0)).choose(one, 0)
    elif mode == "nearest":
        exponent = exponent + (rest > tiny.choose(magnitude.const(0x5FFFFF), 0x3FFFFF)).choose(one, 0)
    code = (exponent > 254).choose(magnitude.const(254 if saturate else 255), exponent)
    if not saturate:
        code = (magnitude < 0x400000).choose(magnitude.const(255), code)
    return (magnitude > 0x7F800000).choose(magnitude.const(255), code).to("u8")


@arithmetic("i32(u8,static)")
def narrow_to_i32(code: Any, name: str) -> Any:
    """Return the exact value. `name` is one of NARROW_INTEGERS."""
    bits = NARROW_INTEGERS[name]
    value = code.to("i32") & ((1 << bits) - 1)
    middle = 1 << (bits - 1)
    return value if name[0] == "u" else (value ^ middle) - middle


@arithmetic("f32(u8,static,static)")
def field_to_f32(code: Any, at: int, bits: int) -> Any:
    """Return the unsigned integer of `bits` bits that begins at bit `at`."""
    return ((code.to("u32") >> at) & ((1 << bits) - 1)).to("i32").to("f32")


@arithmetic("u8(i32,static)")
def i32_to_narrow(x: Any, name: str) -> Any:
    """Return the low bits."""
    return (x & ((1 << NARROW_INTEGERS[name]) - 1)).to("u8")


@arithmetic("u8(f32,f32,static)")
def quantize_narrow(x: Any, zero: Any, name: str) -> Any:
    """Return x, rounded half to even, plus `zero`, saturated to the integer type of that name; NaN becomes its smallest value."""
    bits = NARROW_INTEGERS[name]
    low = 0.0 if name[0] == "u" else -float(1 << (bits - 1))
    least, most = low - zero, low + float((1 << bits) - 1) - zero
    bounded = (x > least).choose(x, least)
    bounded = (bounded < most).choose(bounded, most)
    whole = (bounded.intrinsic("rint") + zero).to("i32")
    return (whole & ((1 << bits) - 1)).to("u8")
