"""Formulas over tensors as outputs of a node: what an elementwise operator makes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ort_lite.dtypes import DType
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.broadcast import require_broadcast
from ort_lite_cpu.lowering.tensor import Expression, Tensor, same_shape

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.op import NodeLowering

OPERATIONS_LIMIT = 24
LEAVES_LIMIT = 8


def define(
    op: NodeLowering,
    formula: str,
    operands: Sequence[Tensor],
    scalars: Sequence[float | Dim] = (),
    cost: float = 0.03,
    output: int = 0,
) -> None:
    """Set output `output` to the formula. It is computed at once if it is read more than once, else where it is read."""
    info = op.info(output)
    assert info.dtype is not None and info.shape is not None
    value = op.node.outputs[output]
    assert value is not None
    for operand in operands:
        require_broadcast(op, operand.shape, info.shape)
    operands = [compute_before_broadcast(op, tensor, info.shape) for tensor in operands]
    pending = Expression(formula, tuple(operands), tuple(scalars), cost, op.node)
    tensor = Tensor(info.dtype, info.shape, pending=pending, name=value.name)
    op.set(output, tensor)
    if not op.options.fusion or op.values.remaining.get(value, 1) != 1 or _too_large(tensor):
        op.builder.materialize(tensor)


def formula_tensor(
    dtype: DType, like: Tensor, formula: str, operands: Sequence[Tensor], scalars: Sequence[float | Dim] = ()
) -> Tensor:
    """Return a pending tensor of `like`'s shape, for operators that consist of several formulas."""
    return Tensor(dtype, like.shape, pending=Expression(formula, tuple(operands), tuple(scalars)))


def compute_before_broadcast(op: NodeLowering, tensor: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Return operands, computed first if broadcasting would compute them more than once an element."""
    if tensor.pending is not None and not same_shape(tensor.shape, shape):
        op.builder.materialize(tensor)
    return tensor


def _too_large(tensor: Tensor) -> bool:
    operations, leaves = measure(tensor)
    return operations >= OPERATIONS_LIMIT or leaves >= LEAVES_LIMIT


def measure(tensor: Tensor) -> tuple[int, int]:
    """Return (operations, distinct leaves) of a pending tensor. O(size of the expression)."""
    seen: set[int] = set()
    operations = leaves = 0
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.pending is None:
            leaves += 1
        else:
            operations += 1
            waiting.extend(current.pending.operands)
    return operations, leaves
