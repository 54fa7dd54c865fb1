"""Reference results: the CPU provider runs the nodes of another provider's partition on the same inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from ort_lite.compile.moving import move_value
from ort_lite.execute.execute import CompiledBody, Executable
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.memory import locks
from ort_lite.options.options import GraphOptimizationLevel, SessionOptions
from ort_lite.partition.borders import Transfers, with_host_values
from ort_lite.plugins.plugins import traits
from ort_lite.plugins.selection import Selection
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CPU, Body, Device, ExecutionProvider, Partition
from ort_lite.provider.subgraph import subgraph
from ort_lite.session.prepare import prepare

T = TypeVar("T")


def why_not(partition: Partition) -> str:
    """Explain why a partition cannot be compared, or return "" if it can."""
    if is_context(partition.nodes[0]):
        return "it was compiled before, its nodes are not known"
    drawing = (node for top in partition.nodes for node in _all(top) if _draws(node))
    return next((f"{node} draws random numbers" for node in drawing), "")


def _all(node: Node) -> Iterator[Node]:
    yield node
    for body in node.subgraphs():
        yield from body.all_nodes()


def _draws(node: Node) -> bool:
    places = traits(node).random
    return places is not None and all(place < len(node.inputs) and node.inputs[place] is not None for place in places)


class Reference:
    """Compiles the nodes of partitions for the CPU provider on first use, without any optimization.

    `bodied` are the graphs with partitions of their own. Thread-safe. Raises what preparing a session raises.
    """

    def __init__(
        self,
        model: Model,
        cpu: ExecutionProvider,
        bodied: Sequence[Graph],
        transfers: Transfers,
        options: SessionOptions,
    ) -> None:
        self._model, self._cpu, self._bodied, self._transfers = model, cpu, frozenset(bodied), transfers
        self._options = SessionOptions()
        self._options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        self._options.intra_op_num_threads = options.intra_op_num_threads
        self._options.log_severity_level = options.log_severity_level
        self._made: dict[Any, Any] = {}
        self._lock = locks.rlock()

    def results(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        """Return the partition's outputs computed on the CPU from inputs on the CPU. An output may be an input itself."""
        executable = self._once(partition, lambda: self._executable(subgraph(partition)))
        with suspend_watch():
            return executable.run(inputs, CURRENT.options)

    def values(self, partition: Partition, inputs: Sequence[Any]) -> dict[Value, Any]:
        """Return all values that the nodes compute, and the inputs."""
        made = [value for node in partition.nodes for value in node.outputs if value is not None]
        executable = self._executable(subgraph(partition.replace(outputs=tuple(made))))
        with suspend_watch():
            results = executable.run(inputs, CURRENT.options)
        return dict(zip((*partition.inputs, *made), (*inputs, *results), strict=True))

    def bodies(self, nodes: Sequence[Node]) -> dict[Graph, Body]:
        """Return the bodies of control-flow nodes in parts of a provider's partition. They run on the CPU."""
        graphs = [body for node in nodes for body in node.subgraphs() if body in self._bodied]
        return {graph: self._once(graph, partial(self._body, graph)) for graph in graphs}

    def move(self, value: Value, x: Any, source: Device, destination: Device) -> Any:
        """Copy a value to another device. Raises ProviderError if no provider can copy there."""
        return move_value(value, x, source, destination, self._transfers, "verification")

    def to_host(self, partition: Partition, values: Sequence[Value], given: Sequence[Any]) -> list[Any]:
        """Return the values of a partition in host memory."""
        return [self.move(value, x, partition.device_of(value), CPU) for value, x in zip(values, given, strict=True)]

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            found: T = self._made[key]
            return found

    def _executable(self, graph: Graph) -> Executable:
        with suspend_watch():
            cpu = Selection((self._cpu,), listed=False)
            return prepare(self._model.replace(graph=graph), cpu, self._options).compiled.executable

    def _body(self, body: Graph) -> CompiledBody:
        outer = body.captures()
        captures = tuple(value for value in outer if value.constant is None)
        mapping: dict[Value, Value] = {value: Value(value.name, value.type, value.constant) for value in outer}
        graph = body.clone(mapping)
        graph.inputs.extend(mapping[value] for value in captures)
        for k, value in enumerate(v for v in outer if v.constant is not None):
            mapping[value].name = f"{value.name}/outer{k}"  # a name of the body may hide it
            graph.add_initializer(mapping[value])
        return CompiledBody(self._executable(graph), captures)


@contextmanager
def suspend_watch() -> Iterator[None]:
    """Suspend verification for what this thread runs inside."""
    watch, CURRENT.watch = CURRENT.watch, None
    try:
        yield
    finally:
        CURRENT.watch = watch


def part_of(
    partition: Partition, nodes: Sequence[Node], outputs: Sequence[Value], bodies: Mapping[Graph, Body], name: str
) -> Partition:
    """Return some nodes of a partition as a partition. Its inputs keep the order of the partition, then that of the nodes."""
    made = {value for node in nodes for value in node.outputs if value is not None}
    read = dict.fromkeys(v for node in nodes for v in node.reads() if v is not None and v.constant is None)
    first = [value for value in partition.inputs if value in read]
    rest = [value for value in read if value not in made and value not in partition.inputs]
    part = partition.replace(
        name=name,
        nodes=tuple(nodes),
        inputs=(*first, *rest),
        outputs=tuple(outputs),
        bodies=bodies,
        host_values=frozenset(),
    )
    return with_host_values(part)
