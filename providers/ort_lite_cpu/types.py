"""Element types as kernels see them."""

from ort_lite.dtypes import DType

NATIVE_TYPES: dict[DType, str] = {
    "float32": "f32", "float64": "f64", "float16": "u16", "bfloat16": "u16", "bool": "u8",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64",
}  # fmt: skip
"""Element type -> pointer type of kernels; 16-bit floats travel as integers and are widened by helpers."""

_NARROW_TYPES_NAMES = """
float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn int4
uint4 int2 uint2
"""
NARROW_TYPES = tuple(_NARROW_TYPES_NAMES.split())
"""Element types that are bits in a byte to kernels: moved, and converted by Cast, QuantizeLinear and DequantizeLinear."""

POINTER_TYPES = NATIVE_TYPES | dict.fromkeys(NARROW_TYPES, "u8")

WIDTHS = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
"""Pointer type -> bytes of an element."""

HALVES = {"float16": ("f16_to_f32", "f32_to_f16"), "bfloat16": ("bf16_to_f32", "f32_to_bf16")}
"""16-bit floats -> the helpers of kernels that widen and narrow them."""

PARTS: dict[DType, DType] = {"complex64": "float32", "complex128": "float64"}
"""Element types of real and imaginary parts."""

BITS: dict[int, DType] = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
"""Bytes of an element -> the type as which kernels move it."""


def value_type(dtype: DType) -> str:
    """The type in which values are computed: 16-bit floats as f32."""
    return "f32" if dtype in HALVES else POINTER_TYPES[dtype]
