"""A formula over tensors, not computed yet: what an elementwise operator makes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ort_lite.dtypes import DType
from ort_lite.graph import Node
from ort_lite.record import Record
from ort_lite.shapes import same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.tensor import Buffer, Tensor, channels_last

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.op import Op

OPERATIONS_LIMIT = 24
LEAVES_LIMIT = 8


class Expression(Record, eq=False):
    """`formula` is text in the language of kernels: {0}, {1}, ... are the operands, {s0}, {s1}, ... the scalars.

    Scalars have the type of the first operand's values. `cost` is about how many nanoseconds an element takes.
    """

    formula: str
    operands: tuple[Tensor, ...]
    scalars: tuple[float | Dim, ...] = ()
    cost: float = 0.25
    node: Node | None = None
    """Whose formula it is, for error messages."""


def define(
    op: Op, formula: str, operands: Sequence[Tensor], scalars: Sequence[float | Dim] = (), cost: float = 0.25, output: int = 0
) -> None:
    """Output `output` is the formula. It is computed at once if it is read more than once, else where it is read."""
    info = op.info(output)
    assert info.dtype is not None and info.shape is not None
    value = op.node.outputs[output]
    assert value is not None
    from ort_lite_cpu.lowering.fuse import require_broadcast

    for operand in operands:
        require_broadcast(op.lowering, op.node, operand.shape, info.shape)
    operands = [_bounded(op, tensor, info.shape) for tensor in operands]
    pending = Expression(formula, tuple(operands), tuple(scalars), cost, op.node)
    tensor = Tensor(info.dtype, info.shape, pending=pending, name=value.name)
    op.set(output, tensor)
    if not op.options.fusion or op.lowering.remaining.get(value, 1) != 1 or _too_large(tensor):
        op.lowering.computed(tensor)


def formula_tensor(
    dtype: DType, like: Tensor, formula: str, operands: Sequence[Tensor], scalars: Sequence[float | Dim] = ()
) -> Tensor:
    """A pending tensor of `like`'s shape, for operators that consist of several formulas."""
    return Tensor(dtype, like.shape, pending=Expression(formula, tuple(operands), tuple(scalars)))


def _bounded(op: Op, tensor: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Operands that would be computed more than once an element, because they are broadcast, are computed first."""
    if tensor.pending is not None and not _equal(tensor.shape, shape):
        op.lowering.computed(tensor)
    return tensor


def _equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def _too_large(tensor: Tensor) -> bool:
    operations, leaves = measure(tensor)
    return operations >= OPERATIONS_LIMIT or leaves >= LEAVES_LIMIT


def measure(tensor: Tensor) -> tuple[int, int]:
    """(operations, distinct leaves) of a pending tensor. O(size of the expression)."""
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


def leaves_of(tensor: Tensor) -> list[Tensor]:
    """The tensors in memory that the expression reads, each once, in order of appearance."""
    if tensor.pending is None:
        return [tensor]
    found: dict[int, Tensor] = {}
    for operand in tensor.pending.operands:
        for leaf in leaves_of(operand):
            found[id(leaf)] = leaf
    return list(found.values())


def storage_order(tensor: Tensor) -> tuple[int, ...] | None:
    """The storage order that an expression takes over: its leaves' of the same shape where they agree, else channels last
    where one of them has it, else the logical order.
    """
    orders = {leaf.perm for leaf in leaves_of(tensor) if _equal(leaf.shape, tensor.shape)}
    if len(orders) == 1:
        return orders.pop()
    last = channels_last(len(tensor.shape)) if len(tensor.shape) > 2 else None
    return last if last in orders else None


def scalar_constant(tensor: Tensor) -> float | Dim | None:
    """The value of a one-element constant, or of known contents, to be handed over as a scalar; else None."""
    if any(not same(dim, 1) for dim in tensor.shape):
        return None
    if tensor.contents is not None:
        return tensor.contents[0]
    if isinstance(tensor.buffer, Buffer) and tensor.buffer.constant is not None:
        value = tensor.buffer.constant.reshape(-1)[0]
        if tensor.dtype in ("float32", "float64", "float16"):
            return float(value)
        if tensor.dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool"):
            return int(value)
    return None
