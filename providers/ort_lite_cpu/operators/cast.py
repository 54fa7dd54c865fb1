"""Cast and CastLike: between all native element types, as elementwise expressions."""

from ort_lite.dtypes import DType
from ort_lite_cpu.elementwise.expression import Expression, define
from ort_lite_cpu.elementwise.fuse import value_type
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import NATIVE, operator
from ort_lite_cpu.tensor import Tensor


@operator("Cast", "CastLike", types=NATIVE)
def cast(op: Op) -> None:
    """Floats become integers by truncation; what does not fit is defined as x86 defines it. NaN becomes True."""
    x = op.raw(0)
    target = op.info().dtype
    assert target is not None
    if target not in NATIVE:
        raise op.reject(f"Cast to {target}")
    if x.dtype == target:
        op.pass_on(x)
        return
    define(op, cast_formula(x.dtype, target), [x])


def cast_formula(source: str, target: str) -> str:
    if target == "bool":
        return "{0} != like({0}, 0)"
    if source == "bool":
        return f'select({{0}}, cast(1, "{value_type(target)}"), cast(0, "{value_type(target)}"))'
    return "{0}" if value_type(source) == value_type(target) else f'cast({{0}}, "{value_type(target)}")'


def converted(x: Tensor, dtype: DType) -> Tensor:
    """x as elements of another type, not computed yet."""
    return Tensor(dtype, x.shape, pending=Expression(cast_formula(x.dtype, dtype), (x,)))
