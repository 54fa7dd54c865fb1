"""The contract between ort_lite and an execution provider: everything that a provider's author imports.

A provider answers `get_capability` for a view of a graph with Capability and Rejection objects; ort_lite joins what it
claims into maximal convex Partitions and hands them to `compile`, once per graph level. A CompiledPartition is a function
from the partition's inputs to its outputs. Values enter and leave it in the memory of the provider's device: NumPy arrays
on the CPU, whatever the provider's DataTransfer makes elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from ort_lite.graph import Graph, Node, Value
from ort_lite.inference import ShapeRules
from ort_lite.options import SessionOptions
from ort_lite.record import Record, field

CompiledPartition = Callable[[Sequence[Any]], Sequence[Any]]
"""Stateless; many threads may be in one call of it at once. Takes `partition.inputs`, returns `partition.outputs`.

On the CPU, inputs are C-contiguous, aligned arrays of native byte order, which it must not write to. Outputs go to whoever
called `run()`: they share no memory with an input, a constant, another output or a later call's. An object may have a
method `facts() -> dict[str, int | str]` besides, which `InferenceSession.explain()` shows, where "python_steps" is summed,
and a method `memory_plan()`, whose printed result `ort-lite dump --stage plan` shows after a run.
"""


class Device(Record):
    """A memory. Values in equal devices need no copy between two providers."""

    kind: str = "cpu"
    id: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


CPU = Device()


class Rejection(Record):
    """A node that the provider declines: `code` is one word ("operator", "type", "shape", "attribute", "opset", ...)."""

    node: Node
    code: str
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class Capability(Record):
    """Nodes that the provider takes as one unit. `merge=False` keeps them apart from its other capabilities.

    `minimum` is the least number of nodes that the partition around them must reach; smaller ones are given back.
    Control-flow nodes are run with `Partition.bodies`, whose nodes have partitions of their own. `whole=True` takes them
    with everything inside instead; it is refused for a node in `GraphView.split_bodies`.
    """

    nodes: Sequence[Node]
    merge: bool = True
    minimum: int = 1
    whole: bool = False


class Body(Protocol):
    """A compiled nested graph, for the provider that runs its If, Loop or Scan.

    `captures` lists the outer values that a call needs beside the inputs, in order, without constants; all values are on
    the CPU. An output may be one of the inputs, captures or constants itself. Many threads may be in one call at once.
    """

    @property
    def captures(self) -> tuple[Value, ...]: ...

    def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> list[Any]: ...


class GraphView(Record):
    """One graph level as a provider sees it: iterates over the nodes that nobody has claimed yet, in order."""

    graph: Graph
    claimed: frozenset[Node] = frozenset()
    rules: ShapeRules = field(default_factory=lambda: ShapeRules(()))
    split_bodies: frozenset[Node] = frozenset()
    """Control-flow nodes with a node inside that another provider has claimed already."""

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.graph if node not in self.claimed)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Partition(Record, eq=False):
    """A maximal convex set of nodes for one provider, in topological order.

    `inputs` are the values computed outside, captures of nested graphs included, without constants; `outputs` those that
    are read outside, are graph outputs or are captured by a body outside. Constants are read from `Value.constant`.
    Inputs and outputs of the graph come first, in its order; the others in the order in which the nodes name them.
    """

    name: str
    provider: "ExecutionProvider"
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    rules: ShapeRules
    bodies: Mapping[Graph, Body] = field(default_factory=dict)
    """Compiled nested graphs of the partition's control-flow nodes; without those that are taken `whole`."""

    @property
    def constants(self) -> tuple[Value, ...]:
        """Constants that the nodes read, each once, in order."""
        seen = (v for node in self.nodes for v in (*node.inputs, *node.captures()) if v is not None)
        return tuple(dict.fromkeys(v for v in seen if v.constant is not None))


class Allocator(Protocol):
    """A device's memory. `allocate` returns a handle whose meaning is the provider's own."""

    device: Device

    def allocate(self, nbytes: int) -> Any: ...

    def free(self, handle: Any) -> None: ...


class DataTransfer(Protocol):
    """Moves values between two devices; at least between the provider's own and the CPU, both ways."""

    def can_copy(self, source: Device, destination: Device) -> bool: ...

    def copy(self, value: Any, source: Device, destination: Device) -> Any: ...


class ExecutionProvider:
    """Base class. A provider instance belongs to one device; two instances of one class in a session are allowed.

    `name` is what users write in `providers=[...]`. Options given as keywords are the user's provider options; raise
    ProviderError for those that are not known. Without `default` it takes part only where it is named: it is in neither
    `get_available_providers()` nor `providers=None`.
    """

    name: ClassVar[str] = ""
    default: ClassVar[bool] = True
    device: Device = CPU

    def __init__(self, **options: Any) -> None:
        if options:
            from ort_lite.errors import ProviderError

            raise ProviderError(f"{type(self).name or type(self).__name__} knows no option {', '.join(options)}")

    def configure(self, options: SessionOptions) -> None:
        """Told once, before the first `get_capability`: the session's threads, memory flags and config entries."""

    def get_capability(self, graph: GraphView) -> Iterable[Capability | Rejection]:
        """What it takes of the nodes in `graph`, and what it declines and why. Must not change the graph."""
        raise NotImplementedError

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        """One CompiledPartition for each, in order. A failing one may be an exception object in its place."""
        raise NotImplementedError

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Whether it could run the node with floating-point tensors of `dtype`; asked before Casts are inserted."""
        return True

    def allocator(self) -> Allocator | None:
        """For the inputs of its partitions; None: the host's."""
        return None

    def data_transfer(self) -> DataTransfer | None:
        """Needed when `device` is not the CPU."""
        return None

    def get_options(self) -> dict[str, Any]:
        """The options in force, for `InferenceSession.get_provider_options`."""
        return {}


__all__ = [
    "CPU", "Allocator", "Body", "Capability", "CompiledPartition", "DataTransfer", "Device", "ExecutionProvider", "GraphView",
    "Partition", "Rejection", "SessionOptions",
]  # fmt: skip
