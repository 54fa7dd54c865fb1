"""The interface that helpers need, for annotations: a `NodeLowering`, or a `Builder` on behalf of a node."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ort_lite.native.extents import Extent
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.lowered import Kernel
from ort_lite_cpu.lowering.tensor import Tensor


class Emitter(Protocol):
    """The part of a program under construction that adds instructions for one node."""

    def emit(
        self,
        kernel: Kernel,
        operands: Sequence[Tensor],
        *,
        work: Dim,
        touched: Mapping[str, Extent] = ...,
        **named: Any,
    ) -> None:
        """Add an instruction: see `NodeLowering.emit`."""

    def require(self, condition: Dim, message: str, *numbers: Dim) -> None:
        """Add a requirement: see `NodeLowering.require`."""

    def store(self, tensor: Tensor) -> Tensor:
        """Return the tensor in memory, in logical order."""
