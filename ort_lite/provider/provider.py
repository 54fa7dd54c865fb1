"""The contract between ort_lite and an execution provider: everything that a provider's author imports.

A provider answers `get_capability` for a view of a graph with Capability and Rejection objects; ort_lite joins what it
claims into maximal convex Partitions and hands them to `compile`, once per graph level. A CompiledPartition is a function
from the partition's inputs to its outputs. Values enter and leave it in the memory of the provider's device: NumPy arrays
on the CPU, whatever the provider's DataTransfer makes elsewhere. Everything else here is optional. A provider with a
function for each operator and nothing to compile derives from `ort_lite.provider.kernels.KernelProvider`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.rules import ShapeRules
from ort_lite.log.events import Event
from ort_lite.native.checkpoint import checkpoint
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.record import Record, field

if TYPE_CHECKING:
    from ort_lite.inference.rules import RuleFamily, ShapeRule
    from ort_lite.inference.schema import SchemaSource
    from ort_lite.inference.schema_text import OpSchema
    from ort_lite.transform.contract import Transform

API_VERSION = "1.0"
"""Of this contract: the first number changes when a provider written for it would break, the second when something is added."""


class CompiledPartition(Protocol):
    """A function. Stateless; many threads may be in one call of it at once. Takes `partition.inputs`, returns `partition.outputs`.

    On the CPU, inputs are C-contiguous, aligned arrays of native byte order, which cannot be written to. Outputs are of the type,
    rank and sizes that the graph says. Those that go to whoever called `run()` are copied where they are read-only or share memory
    with an input or another output; with a constant or a later call's they share none. What an object may have besides
    is in `ort_lite.provider.compiled`, a Protocol each: memory for results, facts, figures, plans, a state, constants that it absorbed.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Any]: ...


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

    def __init__(self, nodes: Node | Sequence[Node], merge: bool = True, minimum: int = 1, whole: bool = False) -> None:
        """`nodes` may be a single one."""
        given = [nodes] if isinstance(nodes, Node) else nodes
        for name, value in zip(self.__match_args__, (given, merge, minimum, whole), strict=True):
            object.__setattr__(self, name, value)


class BodyStep(Protocol):
    """A compiled partition of a body, or a copy between two devices. Values are numbered, the inputs and captures first."""

    @property
    def function(self) -> CompiledPartition: ...
    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...


class Body(Protocol):
    """A compiled nested graph, for the provider that runs its If, Loop or Scan.

    `captures` lists the outer values that a call needs beside the inputs, in order, without constants; all values are on
    the CPU. An output may be one of the inputs, captures or constants itself. Many threads may be in one call at once.
    `steps` is what a call goes through, and `returned` has an output's number, or the constant that it is: for a provider that
    compiled every step itself, and can do without the call.
    """

    @property
    def captures(self) -> tuple[Value, ...]: ...

    @property
    def steps(self) -> Sequence[BodyStep]: ...

    @property
    def returned(self) -> tuple[int | Any, ...]: ...

    def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> list[Any]: ...


class GraphView(Record):
    """One graph level as a provider sees it: iterates over the nodes that it is offered, in order.

    Those are the nodes that nobody has `claimed`, and that no placement rule reserves for others. Each is a checkpoint.
    """

    graph: Graph
    claimed: frozenset[Node] = frozenset()
    rules: ShapeRules = field(default_factory=lambda: ShapeRules(()))
    split_bodies: frozenset[Node] = frozenset()
    """Control-flow nodes with a node inside that another provider has claimed already."""

    def __iter__(self) -> Iterator[Node]:
        for node in self.graph:
            if node not in self.claimed:
                checkpoint()
                yield node

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
    nested: bool = False
    """Whether it is of a body: what is around it is compiled after it."""

    @property
    def constants(self) -> tuple[Value, ...]:
        """Constants that the nodes read, each once, in order."""
        read = [v for node in self.nodes for v in node.reads() if v is not None and v.constant is not None]
        return tuple(dict.fromkeys(read))


class Allocator(Protocol):
    """A device's memory. `allocate` returns a handle whose meaning is the provider's own."""

    device: Device

    def allocate(self, nbytes: int) -> Any: ...

    def free(self, handle: Any) -> None: ...


class DataTransfer(Protocol):
    """Moves values between two devices; at least between the provider's own and the CPU, both ways. A sequence is one value, a
    list on the CPU; an optional that holds nothing is None on every device, and not copied.

    What it may have besides is in `ort_lite.provider.transfers`, a Protocol each: copies into memory of the reader's allocator, copies
    that do not block, writing over a value, values over an address.
    """

    def can_copy(self, source: Device, destination: Device) -> bool: ...

    def copy(self, value: Any, source: Device, destination: Device) -> Any: ...


class Resource(Record):
    """A limit of a provider; None: no limit. Bytes are those of constants and of outputs whose shape is known."""

    nodes: int | None = None
    nbytes: int | None = None


class Overhead(Record):
    """The cost of a provider besides its nodes: seconds to start a partition, seconds to begin a copy between its device and
    the CPU, and bytes a second of such copies.
    """

    launch: float = 0.0
    latency: float = 0.0
    bandwidth: float = 1e10


ProfileEvent = Event
"""Something that a provider did: `ProfileEvent(name, begin, end, args, thread)`, in nanoseconds of `time.perf_counter_ns`.

`args` are texts or numbers, shown beside it. `thread`: `threading.get_native_id()` of the thread that did it, inside of whose step it
is shown; 0: a device did.
"""


class ExecutionProvider:
    """Base class. A provider instance belongs to one device; two instances of one class in a session are allowed.

    `name` is what users write in `providers=[...]`. Options given as keywords are the user's provider options; raise
    ProviderError for those that are not known, NoDevice on a machine that lacks the device. Sessions use it where it is named, in
    `providers=[...]` or by `set_default_providers`. `get_available_providers()`, and so `set_default_providers("all")`, lists
    providers by falling `priority`, the CPU last; one whose `default` is False is left out of that list.

    `api_version` is the API_VERSION that it was written for. `concurrency` says who may be in its compiled partitions at once:
    "concurrent": any threads; "serial": one, the others wait, for this instance alone;
    "per-thread": any, each with a state of its own (see CompiledPartition). `config_keys` are session and run config entries
    that it reads beside those that onnxruntime documents. `exact` spares partitions on the CPU the look at their outputs' types and
    shapes: native code may read what it says without a test, so only a provider whose own code made sure of them says it.
    It spares it the look at whether it changed a graph, too.
    `writes_no_input` spares them views that cannot be written to: it neither changes nor returns an array that it is given.

    A hook that a class does not override costs nothing. Hooks of a run are called for providers that have a partition.
    """

    name: ClassVar[str] = ""
    default: ClassVar[bool] = True
    priority: ClassVar[int] = 0
    api_version: ClassVar[str] = API_VERSION
    concurrency: ClassVar[str] = "concurrent"
    config_keys: ClassVar[Collection[str]] = ()
    exact: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = False
    device: Device = CPU

    def __init__(self, **options: Any) -> None:
        if options:
            from ort_lite.errors import ProviderError

            raise ProviderError(f"{type(self).name or type(self).__name__} knows no option {', '.join(options)}")

    def configure(self, options: SessionOptions) -> None:
        """Told once, before the first `get_capability`: the session's threads, memory flags and config entries."""

    def get_capability(self, graph: GraphView) -> Iterable[Capability | Rejection]:
        """Return the nodes of `graph` to run, and the declined ones with reasons. A provider that changes the graph is an error."""
        raise NotImplementedError

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        """One CompiledPartition for each, in order, or in the place of one that fails the exception. As above of the graph."""
        raise NotImplementedError

    def fusions(self) -> "Iterable[Transform | str]":
        """Return the transforms that fuse nodes of its partitions: transforms of its own, names of registered ones, or "all"
        that the hook `ort_lite_fusions` lists, in the order in which they are tried.

        `compile` then gets a Partition whose nodes are a fused copy, with the same inputs and outputs in the same order; nothing
        else knows the copy. Which transforms run, the session's optimisation level and `disabled_optimizers` decide. Asked once
        a session, before the first `compile`.
        """
        return ()

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if the provider can run the node with floating-point tensors of `dtype`; asked before Casts are inserted."""
        return True

    def allocator(self) -> Allocator | None:
        """Return the allocator for the inputs of its partitions (`transfers.CopiesInto`) and their outputs
        (`compiled.ComputesIntoMemory`); the same one each time. None: transfer and partitions allocate by themselves.

        One with `statistics()` and `shrink()` is shown by `InferenceSession.memory` and trimmed by `trim`
        (`ort_lite.memory.allocators.ArenaAllocator` has them).
        """
        return None

    def data_transfer(self) -> DataTransfer | None:
        """Needed when `device` is not the CPU."""
        return None

    def get_options(self) -> dict[str, Any]:
        """The options in force, for `InferenceSession.get_provider_options`."""
        return {}

    # What it says before partitioning

    @classmethod
    def supported_devices(cls) -> "Mapping[Device, Mapping[str, Any]]":
        """The devices of this machine that it is for, each with the options of an instance for it.

        `OrtValue.ortvalue_from_numpy(x, "npu", 1)` finds the class by them, and asks an instance, which no session configures, for
        `allocator` and `data_transfer` alone. A class with one device whose attribute `device` says it needs none of this.
        """
        return {} if cls.device == CPU else {cls.device: {}}

    @classmethod
    def shape_rules(cls) -> "Iterable[ShapeRule | list[ShapeRule] | RuleFamily]":
        """Rules for operators of its own (`@shape_rule`), so that models with them have shapes. They come before others."""
        return ()

    @classmethod
    def schemas(cls) -> "Iterable[OpSchema | SchemaSource]":
        """Schemas of operators of its own (`ort_lite.inference.schema_text.op_schema`): nodes are checked by them before others'."""
        return ()

    def available_resource(self) -> Resource | None:
        """Its room now. Nodes are taken in topological order as long as they fit; the others are lost, code "budget"."""
        return None

    def cost(self, node: Node) -> float | None:
        """Seconds that the node takes here, for the cost-based partitioner (see `ort_lite.partition.cost`); None: it estimates."""
        return None

    def overhead(self) -> Overhead | None:
        """Return the cost of starting a partition and of moving values; None: it is estimated."""
        return None

    def preferred_layout(self, node: Node) -> str | None:
        """Return "NHWC" for a claimed node whose image should be channels last; None: as it is.

        Such a node comes once more to `get_capability`, in the domain `ort_lite.transform.NHWC_DOMAIN` and between Transposes;
        those between two such nodes go, also where elementwise nodes or Concat are between them, which then compute in that layout.
        Its first input and its output are channels-last; weights and attributes stay as ONNX has them. Not taken so, it is put back.
        """
        return None

    # While a session lives

    def on_session_initialization_end(self) -> None:
        """Release what only compiling needed: every partition is compiled."""

    def on_run_start(self, options: RunOptions | None) -> None:
        """Before the first step of a run, in its thread; with ORT_PARALLEL steps may be in others."""

    def on_run_end(self, options: RunOptions | None) -> None:
        """After the last step of a run, also of one that failed, be it in `on_run_start`."""

    def sync(self) -> None:
        """Waits for work in flight. Called before a run returns, also one that failed, unless its options say
        `disable_synchronize_execution_providers`. Copies to other devices wait by themselves.
        """

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Options that change while a session lives (`InferenceSession.set_ep_dynamic_options`). All or none are taken."""
        from ort_lite.errors import InvalidArgument

        raise InvalidArgument(f"{self.name} has no dynamic option {', '.join(options)}").about(provider=self.name)

    def start_profiling(self) -> None:
        """Events are wanted from now on. May be called between any two runs, and again after `end_profiling`."""

    def end_profiling(self) -> Iterable[ProfileEvent]:
        """Return what it did since `start_profiling`. Partitions that know of a run's events may emit them instead: `run_events`."""
        return ()

    # Compiled models

    def serialize(self, compiled: CompiledPartition) -> bytes | None:
        """A compiled partition as bytes for `InferenceSession.save_compiled`; None: it cannot be saved."""
        return None

    def deserialize(self, partition: Partition, data: bytes) -> CompiledPartition:
        """Load what `serialize` returned, ready to run without compiling.

        `partition.nodes` is the one EPContext node that stands for it.
        """
        from ort_lite.errors import ProviderError

        raise ProviderError(
            f"{self.name} has no deserialize() for what it saved as {partition.name}: compile the model anew"
        ).about(provider=self.name)

    def compatibility(self) -> str:
        """Return what a saved partition depends on: versions, device. It is saved with the partition."""
        return ""

    def check_compatibility(self, saved: str) -> str | None:
        """Why a partition that was saved with `saved` does not run here; None: it does."""
        mine = self.compatibility()
        return None if saved == mine else f"it was compiled for {saved!r}; this is {mine!r}"
