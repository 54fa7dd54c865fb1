"""SampleExecutionProvider, which runs chains of two or more float32 operators and keeps their values in its own memory."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ort_lite.errors import ProviderError
from ort_lite.graph import Node, Value
from ort_lite.provider import Capability, Device, ExecutionProvider, GraphView, Partition, Rejection
from ort_lite_sample.memory import Handle, SampleMemory, SampleTransfer
from ort_lite_sample.operators import OPERATORS, Function


class SampleExecutionProvider(ExecutionProvider):
    """An execution provider with a memory of its own.

    Option: minimum, the smallest number of nodes in a partition (default: 2).
    """

    name: ClassVar[str] = "SampleExecutionProvider"
    default: ClassVar[bool] = False
    shares_device: ClassVar[bool] = True
    device = Device("sample")

    def __init__(self, minimum: int | str = 2, **unknown: Any) -> None:
        super().__init__(**unknown)
        if not str(minimum).isdecimal() or int(minimum) < 1:
            raise ProviderError(f"{self.name}: minimum is {minimum!r}; expected 1 or more")
        self.minimum = int(minimum)
        self.memory = SampleMemory(self.device)
        self.transfer = SampleTransfer(self.memory)

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that the sample runs, and a reason for each node that it does not run."""
        fitting = {node for node in graph if _misfit(node) is None}
        for node in graph:
            wrong = _misfit(node)
            if wrong is None and self.minimum > 1 and not any(other in fitting for other in _neighbours(node)):
                wrong = Rejection(node, "alone", "no neighbour that it takes as well")
            yield Capability([node], minimum=self.minimum) if wrong is None else wrong

    def compile(self, partitions: Sequence[Partition]) -> list["SampleChain"]:
        """Compile each partition to a chain of NumPy functions."""
        return [SampleChain(partition, self.memory) for partition in partitions]

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True for float32."""
        return dtype == "float32"

    def allocator(self) -> SampleMemory:
        """Return the allocator of the sample's memory."""
        return self.memory

    def data_transfer(self) -> SampleTransfer:
        """Return the object that copies to and from the sample's memory."""
        return self.transfer

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return {"minimum": self.minimum}


def _misfit(node: Node) -> Rejection | None:
    """Return the reason why the sample cannot run a node, or None if it can."""
    if node.domain or node.op_type not in OPERATORS:
        return Rejection(node, "operator", f"{node.op_type} is none of its operators")
    since, _ = OPERATORS[node.op_type]
    if node.version < since:
        return Rejection(node, "opset", f"{node.op_type} of opset {node.version}, takes {since} and newer")
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dtype != "float32":
            return Rejection(node, "type", f"{value.name!r} is {value.dtype or 'of unknown type'}, takes float32")
    return None


def _neighbours(node: Node) -> Iterator[Node]:
    """Yield the producers of the node's inputs and the readers of its outputs."""
    for value in node.inputs:
        if value is not None and value.producer is not None:
            yield value.producer
    for value in node.outputs:
        if value is not None:
            yield from value.readers


class SampleChain:
    """A compiled partition, which runs its nodes one after the other. Constants are copied to the sample's memory once."""

    def __init__(self, partition: Partition, memory: SampleMemory) -> None:
        self._memory = memory
        self._inputs, self._outputs = partition.inputs, partition.outputs
        self._steps = [(_function(node), node.inputs, node.outputs[0]) for node in partition.nodes]
        self._constants: dict[Value | None, Handle] = {
            v: memory.store(v.constant) for v in partition.constants if v.constant is not None
        }

    def __call__(self, inputs: Sequence[Handle]) -> list[Handle]:
        values: dict[Value | None, Handle] = dict(zip(self._inputs, inputs, strict=True))
        values.update(self._constants)
        with np.errstate(all="ignore"):  # ONNX does not warn of 1 / 0
            for function, operands, result in self._steps:
                arrays = [None if value is None else self._memory.view(values[value]) for value in operands]
                values[result] = self._memory.store(np.asarray(function(*arrays), np.float32))
        return [values[value] for value in self._outputs]

    def facts(self) -> dict[str, int | str]:
        """Return facts for `explain()`."""
        return {
            "python_steps": len(self._steps),
            "constant_bytes": sum(handle.nbytes for handle in self._constants.values()),
        }


def _function(node: Node) -> Function:
    _, make = OPERATORS[node.op_type]
    return make(node)
