"""Images that a Concat will join, written into its result at once: it then has nothing to copy."""

from __future__ import annotations

from typing import Any

from ort_lite.graph import Node, Value
from ort_lite.record import Record
from ort_lite.shapes import same
from ort_lite_cpu.kernels.gemm.geometry import ResultPlace
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor, channels_last


class Part(Record, eq=False):
    """Some channels of a wider tensor that lies channels last; `op` is the node that writes them."""

    op: NodeLowering
    whole: Tensor
    at: int

    def emit(self, y: Tensor) -> None:
        """Emit a copy, for readers other than the Concat."""
        x, shape = self.whole, y.storage_shape
        emit_strided_copy(self.op, x, y, shape, contiguous(x.storage_shape), contiguous(shape), x_at=self.at)


def is_part(x: Tensor, whole: Tensor) -> bool:
    """Return True if x is a part of `whole`."""
    return isinstance(x.later, Part) and x.later.whole is whole


def locate(y: Tensor) -> tuple[Tensor, ResultPlace]:
    """Return the tensor in whose memory images y lie, and where their pixels lie there."""
    part = y.later
    at, whole = (part.at, part.whole) if isinstance(part, Part) else (0, y)
    pixel: Any = whole.shape[1]
    return whole, ResultPlace(at, pixel)


def output_in_concat(op: NodeLowering) -> Tensor:
    """Return output 0, channels last, for a kernel that writes to `locate`: a part of a Concat's result if nothing else reads it."""
    value, info = op.node.outputs[0], op.info()
    assert value is not None and info.shape is not None and info.dtype is not None
    reader, perm = value.readers[0] if op.values.is_read_once(value) else None, channels_last(len(info.shape))
    cuts = None if reader is None else _cuts(reader, len(info.shape))
    if reader is None or cuts is None or not same(cuts[value], info.shape[1]):
        return op.output(0, perm)
    whole = op.values.joined.get(reader)
    if whole is None:
        whole = op.builder.new(info.dtype, (info.shape[0], sum(cuts.values()), *info.shape[2:]), perm)
        op.values.joined[reader] = whole
    at = sum(list(cuts.values())[: list(cuts).index(value)])
    y = Tensor(info.dtype, info.shape, perm=perm, later=Part(op, whole, at))
    op.set(0, y)
    return y


def _cuts(node: Node, rank: int) -> dict[Value, int] | None:
    """Return the channels of each value that a node joins along them, in order; None if it does not, or if they are not all known."""
    if node.op_type != "Concat" or node.domain or node.attr("axis", 1) % rank != 1:
        return None
    known: dict[Value, int] = {}
    for value in node.inputs:
        shape = None if value is None else value.shape
        if value is None or shape is None or len(shape) != rank or not isinstance(shape[1], int):
            return None
        known[value] = shape[1]
    return known if len(known) == len(node.inputs) else None
