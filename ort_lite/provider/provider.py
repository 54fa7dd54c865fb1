"""The contract between ort_lite and an execution provider: everything that a provider's author imports.

A provider answers `get_capability` for a view of a graph with Capability and Rejection objects. ort_lite merges the claimed
nodes into maximal convex Partitions and passes them to `compile`, once per graph level. A CompiledPartition is a function from
the partition's inputs to its outputs. Values enter and leave it in the memory of the provider's device: NumPy arrays on the
CPU, objects of the provider's DataTransfer elsewhere. Everything else is optional. A provider that has one function per
operator and compiles nothing derives from `ort_lite.provider.kernels.KernelProvider`.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.log.events import Event
from ort_lite.native.checkpoint import checkpoint
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.record import Record, field

if TYPE_CHECKING:
    from ort_lite.inference.schema import SchemaSource
    from ort_lite.inference.schema_text import OpSchema
    from ort_lite.inference.shape_rules import RuleFamily, ShapeRule
    from ort_lite.memory.planning.requests import Memory
    from ort_lite.provider.notifications import SyncNotification
    from ort_lite.transform.contract import Transform

API_VERSION = "1.1"
"""The version of this contract. The first number changes with breaking changes, the second with additions."""


class CompiledPartition(Protocol):
    """A function from `partition.inputs` to `partition.outputs`. Stateless; called by several threads at once.

    On the CPU, inputs are C-contiguous, aligned, read-only arrays in native byte order. Outputs must have the type, rank and
    sizes that the graph states. An output that is returned to the caller of `run()` is copied if it is read-only or shares
    memory with an input or another output; it must not share memory with a constant or with a later call's output. Optional
    members are defined in `ort_lite.provider.compiled`, one Protocol each: memory for results, facts, figures, plans, states,
    consumed constants.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Any]: ...


class Device(Record):
    """The location of values. Values on equal devices are shared between providers without a copy."""

    kind: str = "cpu"
    id: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


CPU = Device()


class Rejection(Record):
    """A node that the provider declines. `code` is one word ("operator", "type", "shape", "attribute", "opset", ...)."""

    node: Node
    code: str
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class Capability(Record):
    """Nodes that the provider claims as one unit. `merge=False` keeps them separate from its other capabilities.

    `minimum` is the minimum size of the partition that contains them; a smaller partition is given back. Control-flow nodes are
    run with `Partition.bodies`, whose nodes have partitions of their own. `whole=True` claims them together with their bodies
    instead; it is rejected for a node in `GraphView.split_bodies`.
    """

    nodes: Sequence[Node]
    merge: bool = True
    minimum: int = 1
    whole: bool = False

    def __init__(self, nodes: Node | Sequence[Node], merge: bool = True, minimum: int = 1, whole: bool = False) -> None:
        """Create a capability for a sequence of nodes or a single node."""
        given = [nodes] if isinstance(nodes, Node) else nodes
        for name, value in zip(self.__match_args__, (given, merge, minimum, whole), strict=True):
            object.__setattr__(self, name, value)


class BodyStep(Protocol):
    """A step of a body: a compiled partition or a copy between devices.

    Values are numbered, starting with the inputs and captures.
    """

    @property
    def function(self) -> CompiledPartition:
        """The compiled partition to call."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The indices of the values that it reads."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """The indices of the values that it computes."""


class Body(Protocol):
    """A compiled nested graph, for the provider that runs its If, Loop or Scan node.

    `captures` lists the outer values that a call needs besides the inputs, in order and without constants. All values are on
    the CPU unless `device` is another one. An output may be an input, a capture or a constant. Several threads may call a body
    at once. A provider that compiled every step itself can execute `steps` without calling the body; `result_slots` holds each
    output's number, or the constant that it is.

    `device` is the provider's own if the provider overrides `host_values`, runs every partition of the body as well, and no
    other provider takes over when one fails in a run. The body then takes and returns values in the memory of that device, but
    for those at `host_inputs` and `host_outputs`. A capture is where the partition around the body has it: on the CPU if it is
    one of that partition's `host_values`.
    """

    @property
    def device(self) -> Device:
        """The device of the values that a call takes and returns."""

    @property
    def host_inputs(self) -> frozenset[int]:
        """The positions of NumPy arrays among the inputs and the captures, which follow them. On the CPU, all of them."""

    @property
    def host_outputs(self) -> frozenset[int]:
        """The positions of NumPy arrays among the outputs. On the CPU, all of them."""

    @property
    def captures(self) -> tuple[Value, ...]:
        """The values of outer graphs that the body reads."""

    @property
    def steps(self) -> Sequence[BodyStep]:
        """The steps in execution order."""

    @property
    def result_slots(self) -> tuple[int | Any, ...]:
        """The results: indices of values, or constants."""

    def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> list[Any]: ...


class GraphView(Record):
    """The graph level that a provider is asked about. Iterating yields the offered nodes in order, with a checkpoint each.

    Offered are the nodes that no provider has `claimed` and that no placement rule reserves for other providers.
    """

    graph: Graph
    claimed: frozenset[Node] = frozenset()
    rules: ShapeRules = field(default_factory=lambda: ShapeRules(()))
    split_bodies: frozenset[Node] = frozenset()
    """Control-flow nodes with an inner node that another provider has claimed."""

    def __iter__(self) -> Iterator[Node]:
        for node in self.graph:
            if node not in self.claimed:
                checkpoint()
                yield node

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Partition(Record, eq=False):
    """A maximal convex set of nodes for one provider, in topological order.

    `inputs` are the values computed outside, including captures of nested graphs, without constants. `outputs` are the values
    that are read outside, are graph outputs, or are captured by a body outside. Constants are read from `Value.constant`.
    Inputs and outputs of the graph come first, in the graph's order; the others follow in the order in which the nodes name
    them.
    """

    name: str
    provider: "ExecutionProvider"
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    rules: ShapeRules
    bodies: Mapping[Graph, Body] = field(default_factory=dict)
    """Compiled nested graphs of the partition's control-flow nodes, except those that are claimed `whole`."""
    nested: bool = False
    """True for a partition of a body. The surrounding partitions are compiled after it."""
    host_values: frozenset[Value] = frozenset()
    """The inputs and outputs that are NumPy arrays on the CPU although the provider has a device."""

    def device_of(self, value: Value) -> Device:
        """Return the device of an input or output."""
        return CPU if value in self.host_values else self.provider.device

    @property
    def constants(self) -> tuple[Value, ...]:
        """The constants that the nodes read, each once, in order."""
        read = [v for node in self.nodes for v in node.reads() if v is not None and v.constant is not None]
        return tuple(dict.fromkeys(read))


class Allocator(Protocol):
    """An allocator of a device's memory. The meaning of a handle is up to the provider."""

    device: Device

    def allocate(self, nbytes: int) -> Any:
        """Return a handle of `nbytes` bytes. Raises OutOfMemory."""

    def free(self, handle: Any) -> None:
        """Free a handle that `allocate` returned."""


class DataTransfer(Protocol):
    """A copier between two devices: at least between the provider's own and the CPU, in both directions.

    A sequence is one value, a list on the CPU. An empty optional is None on every device and is not copied. Optional members
    are defined in `ort_lite.provider.transfers`, one Protocol each: copies into memory of the reader's allocator, non-blocking
    copies, overwriting a value, values over an address.
    """

    def can_copy(self, source: Device, destination: Device) -> bool:
        """Return True if `copy` can copy between these devices."""

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        """Return a copy of the value on another device."""


class Resource(Record):
    """A limit on what a provider is assigned; None means no limit.

    `nbytes` counts constants, and outputs whose shape is known.
    """

    nodes: int | None = None
    nbytes: int | None = None


class Overhead(Record):
    """The cost of a provider besides its nodes.

    `launch` is the time in seconds to start a partition. `latency` (seconds) and `bandwidth` (bytes per second) describe copies
    between its device and the CPU.
    """

    launch: float = 0.0
    latency: float = 0.0
    bandwidth: float = 1e10


ProfileEvent = Event
"""An event of a provider: `ProfileEvent(name, begin, end, args, thread)`, in nanoseconds of `time.perf_counter_ns`.

`args` holds strings or numbers to display. `thread` is `threading.get_native_id()` of the thread that did the work, within
whose step the event is shown, or 0 for a device.
"""


class ExecutionProvider:
    """The base class of providers. An instance belongs to one device; a session may have several instances of one class.

    Options given as keywords are the user's provider options. Raise ProviderError for an unknown option, and NoDevice if the
    machine lacks the device. Sessions use a provider that is named in `providers=[...]` or by `set_default_providers`.
    `get_available_providers()`, and so `set_default_providers("all")`, lists providers by falling `priority`, the CPU last.

    Class attributes:
        name: the name that users write in `providers=[...]`.
        default: False leaves the provider out of `get_available_providers()`.
        priority: its position in that list.
        api_version: the API_VERSION that the provider was written for.
        concurrency: which threads may call its compiled partitions at once. "concurrent": any; "serial": one at a time per
            instance; "per-thread": any, each with a state of its own (see `ort_lite.provider.compiled.HasState`).
        config_keys: session and run config entries that it reads, besides those that onnxruntime documents.
        exact: True skips the checks of output types and shapes on the CPU, and of unchanged graphs. Native code may rely on the
            outputs unchecked, so set it only if the provider's own code guarantees them.
        writes_no_input: True passes writable arrays instead of read-only views. The provider must neither change nor return an
            input array.
        narrows_int64: True if int64 values are int32 in the memory of its device. ort_lite converts them when it copies: an
            error names a number that does not fit. Host values stay int64, and so do constants until the provider converts them
            (`ort_lite.provider.narrowing`).
        outlives_fork: False if a forked child cannot use the device of its parent. Sessions, OrtValues and copies of the parent's
            instances then raise a ProviderError there instead of waiting forever. The child may create instances of its own.
        shares_device: True if sessions and OrtValues share one instance per device and options. `configure` is then called by
            each session. For devices that belong to an instance, as in Vulkan, Metal and WebGPU.

    A hook that a class does not override costs nothing. Run hooks are called for providers that have a partition.
    """

    name: ClassVar[str] = ""
    default: ClassVar[bool] = True
    priority: ClassVar[int] = 0
    api_version: ClassVar[str] = API_VERSION
    concurrency: ClassVar[str] = "concurrent"
    config_keys: ClassVar[Collection[str]] = ()
    exact: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = False
    narrows_int64: ClassVar[bool] = False
    outlives_fork: ClassVar[bool] = True
    shares_device: ClassVar[bool] = False
    device: Device = CPU
    _process: int | None = None
    """The process that created the instance, if its device does not outlive a fork."""

    def __new__(cls, *_arguments: Any, **_options: Any) -> Self:
        """Create an instance. Note the process if the device does not outlive a fork."""
        made = super().__new__(cls)
        if not cls.outlives_fork:
            made._process = os.getpid()
        return made

    def __init__(self, **options: Any) -> None:
        if options:
            from ort_lite.errors import ProviderError

            raise ProviderError(f"{type(self).name or type(self).__name__} knows no option {', '.join(options)}")

    def configure(self, options: SessionOptions) -> None:
        """Receive the session's threads, memory flags and config entries; called once, before `get_capability`."""

    def get_capability(self, graph: GraphView) -> Iterable[Capability | Rejection]:
        """Return a Capability for nodes of `graph` to run, and a Rejection with a reason for the others.

        Changing the graph is an error.
        """
        raise NotImplementedError

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        """Return one CompiledPartition per partition, in order, or the exception of one that failed.

        Changing the graph is an error.
        """
        raise NotImplementedError

    def fusions(self) -> "Iterable[Transform | str]":
        """Return the transforms that fuse nodes of its partitions, in the order in which they are tried.

        An element is a transform, the name of a registered one, or "all" for those of the hook `ort_lite_fusions`. `compile`
        then gets a Partition whose nodes are a fused copy, with the same inputs and outputs in the same order; no other
        component sees the copy. The session's optimization level and `disabled_optimizers` decide which transforms run. Called
        once a session, before the first `compile`.
        """
        return ()

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if the provider can run the node with floating-point tensors of `dtype`.

        Called before Casts are inserted.
        """
        return True

    def allocator(self) -> Allocator | None:
        """Return the allocator for inputs and outputs of its partitions; the same one in each call.

        See `transfers.CopiesInto` for inputs and `compiled.ComputesIntoMemory` for outputs. None: the transfer and the
        partitions allocate by themselves. An allocator with `statistics()` and `shrink()`, such as
        `ort_lite.memory.allocators.ArenaAllocator`, is shown by `InferenceSession.memory` and trimmed by `trim`.
        """
        return None

    def memories(self) -> "Sequence[Memory]":
        """Return the memories of the device, the fastest first, if it has several or their size matters.

        The session's config entry `ort_lite.memories` replaces them. `SessionOptions.session_memory.device_memories(...)` returns
        the Memories that plan for them, once the provider is configured.
        """
        return ()

    def data_transfer(self) -> DataTransfer | None:
        """Return the DataTransfer of its device. Required unless `device` is the CPU."""
        return None

    def get_options(self) -> dict[str, Any]:
        """Return the options in force, for `InferenceSession.get_provider_options`."""
        return {}

    def host_values(self, partition: Partition) -> Collection[Value]:
        """Return the inputs and outputs of a partition that are NumPy arrays on the CPU although the provider has a device.

        Shapes, axes and sizes are typical: the host computes with them anyway. No copy is made for them. Asked once per
        partition, before `compile` and before copies are planned, if the provider has a device and was written for version 1.1
        or later of the contract. `partition.bodies` is still empty. Saved partitions are not asked about again.
        """
        return ()

    # Before partitioning

    @classmethod
    def supported_devices(cls) -> "Mapping[Device, Mapping[str, Any]]":
        """Return the devices of this machine that it supports, each with the options of an instance for it.

        `OrtValue.ortvalue_from_numpy(x, "npu", 1)` asks the provider of a session on that device, if there is one. Otherwise it
        finds the class through these devices, creates an instance that no session configures, and uses only its `allocator` and
        `data_transfer`. A class with one device, stated by the attribute `device`, need not override this.
        """
        return {} if cls.device == CPU else {cls.device: {}}

    @classmethod
    def shape_rules(cls) -> "Iterable[ShapeRule | list[ShapeRule] | RuleFamily]":
        """Return rules (`@shape_rule`) for operators of its own. They take precedence over other rules."""
        return ()

    @classmethod
    def schemas(cls) -> "Iterable[OpSchema | SchemaSource]":
        """Return schemas (`op_schema`) of operators of its own. They take precedence over other schemas."""
        return ()

    def available_resource(self) -> Resource | None:
        """Return the room that is left now.

        Nodes are assigned in topological order as long as they fit; the others are lost with code "budget".
        """
        return None

    def cost(self, node: Node) -> float | None:
        """Return the time of the node in seconds, for the cost-based partitioner; None: it uses its own estimate."""
        return None

    def overhead(self) -> Overhead | None:
        """Return the cost of starting a partition and of moving values; None: it is estimated."""
        return None

    def preferred_layout(self, node: Node) -> str | None:
        """Return "NHWC" for a claimed node whose image should be channels-last; None: unchanged.

        The node is then offered again to `get_capability`, in the domain `ort_lite.transform.NHWC_DOMAIN` and between
        Transposes. Transposes between two such nodes are removed, also across elementwise nodes and Concat, which then compute
        in that layout. The first input and the output are channels-last; weights and attributes stay as in ONNX. If the node is
        not claimed in this form, it is restored.
        """
        return None

    # While a session lives

    def on_session_initialization_end(self) -> None:
        """Release what only compiling needed. Called once every partition is compiled."""

    def on_run_start(self, options: RunOptions | None) -> None:
        """Prepare for a run. Called before its first step, in its thread; with ORT_PARALLEL, steps may run in others."""

    def on_run_end(self, options: RunOptions | None) -> None:
        """Clean up after a run. Called after its last step, also if the run or `on_run_start` failed."""

    def sync(self) -> None:
        """Wait until work in flight has finished, whichever thread started it. May be called from any thread.

        Called before `run` returns or fails. A bound run calls it only if `disable_synchronize_execution_providers` is "0". Copies
        to other devices wait by themselves.
        """

    def wait_on_device(self, notification: "SyncNotification") -> bool:
        """Let the device's queue wait for a copy or for another provider's work, and return True: the host does not wait.

        The notification is from `copy_async` of any transfer, or from `record` of any partition (`ort_lite.provider.compiled`).
        False: the queue cannot wait for this one, and the host waits.
        """
        return False

    def set_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Set options that may change while a session lives (`InferenceSession.set_ep_dynamic_options`).

        Either all options are set or none. Raises InvalidArgument for an unknown option.
        """
        from ort_lite.errors import InvalidArgument

        raise InvalidArgument(f"{self.name} has no dynamic option {', '.join(options)}").about(provider=self.name)

    def start_profiling(self) -> None:
        """Start recording events. May be called between any two runs, and again after `end_profiling`."""

    def end_profiling(self) -> Iterable[ProfileEvent]:
        """Return the events since `start_profiling`. Partitions may emit theirs in `run_events` instead."""
        return ()

    # Compiled models

    def serialize(self, compiled: CompiledPartition) -> bytes | None:
        """Return a compiled partition as bytes for `InferenceSession.save_compiled`; None: not supported."""
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
        """Return the reason why a partition saved with `saved` cannot run here; None if it can."""
        mine = self.compatibility()
        return None if saved == mine else f"it was compiled for {saved!r}; this is {mine!r}"
