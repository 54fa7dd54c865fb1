"""Conversions between f32 and float16 or bfloat16, which kernels see as u16. They round to nearest even and keep NaN."""

from typing import Any

from ort_lite.native.marks import arithmetic, emitter

# Features with which LLVM's half type compiles to instructions instead of calls of compiler-rt.
_HARDWARE = "f16c|neon"


@arithmetic("f32(u16)")
def _widen_f16(h: Any) -> Any:
    """Widen float16 using integers: exponent and mantissa move in place, a multiplication by 2**112 corrects the exponent."""
    u = h.to("u32")
    magnitude = (u & 0x7FFF) << 13
    scaled = (magnitude.from_bits() * 2.0**112).bits().to("u32")
    special = (u & 0x7FFF) >= 0x7C00
    quiet = (u & 0x3FF).differs(0).choose(u.const(0x400000), 0)
    result = special.choose(magnitude | 0x7F800000 | quiet, scaled)
    return (result | ((u & 0x8000) << 16)).from_bits()


@arithmetic("u16(f32)")
def _narrow_f16(x: Any) -> Any:
    """Narrow to float16 using integers.

    Results below 2**-14 are rounded by adding 0.5, whose unit in the last place is that of float16's denormals.
    """
    u = x.bits().to("u32")
    sign, magnitude = (u >> 16) & 0x8000, u & 0x7FFFFFFF
    odd = (magnitude >> 13) & 1
    normal = (magnitude + (0xFFF - (112 << 23)) + odd) >> 13
    normal = (magnitude >= 0x477FF000).choose(u.const(0x7C00), normal)
    denormal = (magnitude.from_bits() + 0.5).bits().to("u32") - 0x3F000000
    result = (magnitude < 0x38800000).choose(denormal, normal)
    nan = ((magnitude >> 13) & 0x3FF) | 0x7E00
    return ((magnitude > 0x7F800000).choose(nan, result) | sign).to("u16")


@emitter("f32(u16)", needs=_HARDWARE, otherwise=_widen_f16)
def f16_to_f32(builder: Any, h: Any) -> Any:
    """Convert float16 bits to f32, exactly."""
    from llvmlite import ir

    return builder.fpext(builder.bitcast(h, ir.HalfType()), ir.FloatType())


@emitter("u16(f32)", needs=_HARDWARE, otherwise=_narrow_f16)
def f32_to_f16(builder: Any, x: Any) -> Any:
    """Convert f32 to float16 bits, rounding to nearest even; NaN stays, and too large numbers become inf."""
    from llvmlite import ir

    return builder.bitcast(builder.fptrunc(x, ir.HalfType()), ir.IntType(16))


@arithmetic("f32(u16)")
def bf16_to_f32(h: Any) -> Any:
    """Convert bfloat16 bits to f32, exactly."""
    return (h.to("u32") << 16).from_bits()


@arithmetic("u16(f32)")
def f32_to_bf16(x: Any) -> Any:
    """Convert f32 to bfloat16 bits, rounding to nearest even; NaN stays."""
    u = x.bits().to("u32")
    rounded = (u + ((u >> 16) & 1) + 0x7FFF) >> 16
    return x.differs(x).choose((u >> 16) | 0x40, rounded).to("u16")
