"""Cast and CastLike: between all native element types, as elementwise expressions."""

from ort_lite.dtypes import DType
from ort_lite_cpu.lowering.conversion import convert
from ort_lite_cpu.lowering.expression import define
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Expression, Tensor
from ort_lite_cpu.registry import NARROW, NATIVE, operator


@operator("Cast", "CastLike", types=NATIVE | NARROW)
def cast(op: NodeLowering) -> None:
    """Cast elements. Floats become integers by truncation; numbers that do not fit become what x86 makes of them. NaN becomes True.

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
    tensor = convert(x, target, bool(op.attr("saturate", 1)), op.attr("round_mode", "up"))
    pending = tensor.pending
    assert pending is not None
    if _multiplied_as_it_is(op, x.dtype, target):
        op.builder.materialize(x)
        op.set(0, Tensor(target, x.shape, pending=Expression(pending.formula, (x,), node=op.node)))
    else:
        define(op, pending.formula, pending.operands)


def _multiplied_as_it_is(op: NodeLowering, source: DType, target: DType) -> bool:
    """Return True if products read the result that can multiply its bfloat16: it is computed only for others, by each or once."""
    value = op.node.outputs[0]
    if (source, target) != ("bfloat16", "float32") or value is None or not op.options.fusion:
        return False
    products = [node for node in value.readers if node.op_type in ("MatMul", "Gemm", "FusedMatMul")]
    return len(value.readers) > 1 and bool(products) and op.target.has_bfloat16_products
