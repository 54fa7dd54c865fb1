"""Conversions between element types, as expressions: of the operator Cast, and wherever a kernel asks for another type."""

from ort_lite.dtypes import DType
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS, NARROW_INTEGERS, POWERS
from ort_lite_cpu.lowering.tensor import Expression, Tensor
from ort_lite_cpu.types import NARROW_TYPES, NATIVE_TYPES, value_type


def _formula(source: str, target: str) -> str:
    if target == "bool":
        return "{0} != like({0}, 0)"
    if source == "bool":
        return f'select({{0}}, cast(1, "{value_type(target)}"), cast(0, "{value_type(target)}"))'
    return "{0}" if value_type(source) == value_type(target) else f'cast({{0}}, "{value_type(target)}")'


def convert(x: Tensor, dtype: DType, saturate: bool = True, mode: str = "up") -> Tensor:
    """x as elements of another type, not computed yet. saturate, mode: of conversions to types narrower than 16 bits."""
    if x.dtype in NARROW_TYPES and dtype != _middle(x.dtype):
        return convert(convert(x, _middle(x.dtype)), dtype, saturate, mode)
    if dtype in NARROW_TYPES:
        x = convert(x, _middle(dtype)) if x.dtype != _middle(dtype) else x
    if x.dtype == POWERS:
        formula = "power_to_f32({0})"
    elif x.dtype in NARROW_TYPES:
        formula = f'narrow_to_{NATIVE_TYPES[dtype]}({{0}}, "{x.dtype}")'
    elif dtype == POWERS:
        formula = f'f32_to_power({{0}}, "{mode}", {saturate})'
    elif dtype in NARROW_FLOATS:
        formula = f'f32_to_narrow({{0}}, "{dtype}", {saturate})'
    elif dtype in NARROW_INTEGERS:
        formula = f'i32_to_narrow({{0}}, "{dtype}")'
    else:
        formula = _formula(x.dtype, dtype)
    return Tensor(dtype, x.shape, pending=Expression(formula, (x,)))


def _middle(dtype: DType) -> DType:
    """The type in which values of a narrow one are computed."""
    return "int32" if dtype in NARROW_INTEGERS else "float32"
