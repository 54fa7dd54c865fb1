"""Cast and CastLike: between all native element types, as elementwise expressions."""

from ort_lite.dtypes import DType
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS, NARROW_INTEGERS, POWERS
from ort_lite_cpu.lowering.expression import Expression, define
from ort_lite_cpu.lowering.fuse import HALVES, value_type
from ort_lite_cpu.lowering.op import Op
from ort_lite_cpu.lowering.tensor import NATIVE_TYPES, Tensor
from ort_lite_cpu.registry import NARROW, NATIVE, operator


@operator("Cast", "CastLike", types=NATIVE | NARROW)
def cast(op: Op) -> None:
    """Floats become integers by truncation; what does not fit is defined as x86 defines it. NaN becomes True.

    Types narrower than 16 bits are converted by way of float32 or int32.
    """
    x = op.raw(0)
    target = op.info().dtype
    assert target is not None
    if target not in NATIVE | NARROW:
        raise op.reject(f"Cast to {target}")
    if x.dtype == target:
        op.pass_on(x)
        return
    tensor = converted(x, target, bool(op.attr("saturate", 1)), op.attr("round_mode", "up"))
    pending = tensor.pending
    assert pending is not None
    define(op, pending.formula, pending.operands)


def cast_formula(source: str, target: str) -> str:
    """A 16-bit float is rounded here and not where it is stored: what is fused with the Cast must see it rounded too."""
    if target == "bool":
        return "{0} != like({0}, 0)"
    if source == "bool":
        return f'select({{0}}, cast(1, "{value_type(target)}"), cast(0, "{value_type(target)}"))'
    text = "{0}" if value_type(source) == value_type(target) else f'cast({{0}}, "{value_type(target)}")'
    if target in HALVES:
        widen, narrow = HALVES[target]
        text = f"{widen}({narrow}({text}))"
    return text


def converted(x: Tensor, dtype: DType, saturate: bool = True, mode: str = "up") -> Tensor:
    """x as elements of another type, not computed yet. saturate, mode: of conversions to types narrower than 16 bits."""
    if x.dtype in NARROW and dtype != middle(x.dtype):
        return converted(converted(x, middle(x.dtype)), dtype, saturate, mode)
    if dtype in NARROW:
        x = converted(x, middle(dtype)) if x.dtype != middle(dtype) else x
    if x.dtype == POWERS:
        formula = "power_to_f32({0})"
    elif x.dtype in NARROW:
        formula = f'narrow_to_{NATIVE_TYPES[dtype]}({{0}}, "{x.dtype}")'
    elif dtype == POWERS:
        formula = f'f32_to_power({{0}}, "{mode}", {saturate})'
    elif dtype in NARROW_FLOATS:
        formula = f'f32_to_narrow({{0}}, "{dtype}", {saturate})'
    elif dtype in NARROW_INTEGERS:
        formula = f'i32_to_narrow({{0}}, "{dtype}")'
    else:
        formula = cast_formula(x.dtype, dtype)
    return Tensor(dtype, x.shape, pending=Expression(formula, (x,)))


def middle(dtype: DType) -> DType:
    """The type in which values of a narrow one are computed."""
    return "int32" if dtype in NARROW_INTEGERS else "float32"
