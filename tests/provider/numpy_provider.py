"""A provider for tests: runs a few operators with NumPy, nodes chosen by a predicate, bodies through `Partition.bodies`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ort_lite.graph import Graph, Node, Value
from ort_lite.provider import (
    CPU,
    Body,
    Capability,
    CompiledPartition,
    DataTransfer,
    Device,
    ExecutionProvider,
    GraphView,
    Partition,
    Rejection,
    SessionOptions,
)

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "Identity": np.array,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Sub": np.subtract,
    "Tanh": np.tanh,
}
CONTROL_FLOW = ("If", "Loop")


class NumpyProvider(ExecutionProvider):
    """Takes the nodes for which `takes` is true; remembers what it was asked and told."""

    name: ClassVar[str] = "NumpyExecutionProvider"

    def __init__(
        self,
        takes: Callable[[Node], bool] = lambda node: True,
        *,
        group: Callable[[Node], Capability] = lambda node: Capability([node]),
        operators: Sequence[str] = (*FUNCTIONS, *CONTROL_FLOW),
        **options: Any,
    ) -> None:
        super().__init__()
        self.takes, self.group, self.operators, self.options = takes, group, operators, options
        self.asked: list[GraphView] = []
        self.compiled: list[list[Partition]] = []
        self.configured: list[SessionOptions] = []

    def configure(self, options: SessionOptions) -> None:
        self.configured.append(options)

    def get_options(self) -> dict[str, Any]:
        return self.options

    def get_capability(self, graph: GraphView) -> Iterable[Capability | Rejection]:
        self.asked.append(graph)
        for node in graph:
            if node.op_type not in self.operators:
                yield Rejection(node, "operator", f"{node.op_type} is not known")
            elif not self.takes(node):
                yield Rejection(node, "choice", "not wanted")
            else:
                yield self.group(node)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [partial(evaluate, partition) for partition in partitions]


class CpuStandIn(NumpyProvider):
    """The default provider in tests of the framework alone."""

    name = "CPUExecutionProvider"
    exact = True


class OtherDevice(NumpyProvider):
    """Its values are Boxes, which nothing but its transfer and its own partitions can open."""

    name = "BoxExecutionProvider"
    device = Device("box")

    def data_transfer(self) -> DataTransfer:
        return BoxTransfer(self.device)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [partial(self._boxed, partition) for partition in partitions]

    def _boxed(self, partition: Partition, inputs: Sequence["Box"]) -> list["Box"]:
        return [Box(self.device, y) for y in evaluate(partition, [x.open(self.device) for x in inputs])]


class Box:
    def __init__(self, device: Device, array: Any) -> None:
        self._device, self._array = device, array

    def open(self, device: Device) -> Any:
        assert device == self._device, f"a value of {self._device} was opened on {device}"
        return self._array


class BoxTransfer:
    """Between the CPU and one device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, self.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        assert source == CPU or isinstance(value, Box)
        return Box(destination, np.array(value)) if source == CPU else value.open(source).copy()


def evaluate(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
    values: dict[Value, Any] = dict(zip(partition.inputs, inputs, strict=True))
    for node in partition.nodes:
        run_node(node, values, partition.bodies)
    return [values[value] for value in partition.outputs]


def run_node(node: Node, values: dict[Value, Any], bodies: Mapping[Graph, Body] | None) -> None:
    """Bodies run through `bodies`, or here where there is none: then the node was taken whole, or this is the reference."""

    def read(value: Value) -> Any:
        return values[value] if value.constant is None else value.constant

    def body(name: str, *inputs: Any) -> list[Any]:
        graph = node.attr(name)
        if bodies is not None and graph in bodies:
            compiled = bodies[graph]
            return compiled(inputs, [read(value) for value in compiled.captures])
        inner = {**values, **dict(zip(graph.inputs, inputs, strict=True))}
        for nested in graph:
            run_node(nested, inner, bodies)
        return [inner[v] if v.constant is None else v.constant for v in graph.outputs]

    inputs = [None if value is None else read(value) for value in node.inputs]
    if node.op_type == "If":
        results = [np.array(y) for y in body("then_branch" if inputs[0] else "else_branch")]
    elif node.op_type == "Loop":
        results = _loop(inputs, body)
    else:
        results = [np.asarray(FUNCTIONS[node.op_type](*inputs))]
    values.update((value, result) for value, result in zip(node.outputs, results, strict=True) if value is not None)


def _loop(inputs: list[Any], body: Callable[..., list[Any]]) -> list[Any]:
    """Carried values only, no scan outputs."""
    carried = [np.array(x) for x in inputs[2:]]
    for i in range(int(inputs[0])):
        go_on, *carried = body("body", np.array(i), np.array(True), *carried)
        if not go_on:
            break
    return [np.array(x) for x in carried]


def reference(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """What the graph computes, node by node."""
    values: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph:
        run_node(node, values, None)
    return [values[v] if v.constant is None else v.constant for v in graph.outputs]
