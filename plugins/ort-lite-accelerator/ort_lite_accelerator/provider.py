"""AcceleratorExecutionProvider: compiles partitions for a card with a memory of its own, of which this machine has two."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ort_lite.errors import NoDevice
from ort_lite.graph import Node, Value
from ort_lite.memory.allocators import ArenaAllocator
from ort_lite.memory.planning.declarations import parse_memories
from ort_lite.memory.planning.memories import Memories
from ort_lite.memory.planning.planner import DEFAULT_PLANNER, MemoryPlanner
from ort_lite.memory.planning.requests import Memory
from ort_lite.provider import (
    Capability,
    CompiledPartition,
    Device,
    ExecutionProvider,
    GraphView,
    Overhead,
    Partition,
    Rejection,
    Resource,
    SessionOptions,
)
from ort_lite.provider.accelerators import Format, claim_units, count
from ort_lite.provider.notifications import SyncNotification
from ort_lite.transform import Transform
from ort_lite_accelerator.memory import CardDriver, CardTransfer
from ort_lite_accelerator.operators import IMAGES, SIZES, fuse_conv_add, fuse_conv_relu, misfit, unit, work
from ort_lite_accelerator.planned import PlannedExecutable
from ort_lite_accelerator.program import CardExecutable, CardProgram, compile_program, find_aliases
from ort_lite_accelerator.queue import CardQueue, CardWork

CARDS = 2
OPERATIONS, LAUNCH, LATENCY, BANDWIDTH = 2e12, 2e-5, 1e-5, 8e9
"""The card: operations per second, seconds per launch, seconds and bytes per second of copies."""
ALIGNMENT = 64
"""The multiple of bytes at which tensors begin in the memories that an option declares."""
FORMAT = Format("npu-program", 2, 0)
"""The format of saved programs, which every card can load."""


class AcceleratorExecutionProvider(ExecutionProvider):
    """An execution provider for a card that runs float32 image networks.

    Options: device_id, the number of the card (default: 0); mem_limit, the most bytes of its memory to use (default: 1 GiB);
    memories, those that it consists of, such as "fast=512K, slow=64M" (default: one, whose use is not planned); kernel_ms, the
    milliseconds that each kernel takes longer (default: 0), to try out work that the card has not finished.
    """

    name: ClassVar[str] = "AcceleratorExecutionProvider"
    default: ClassVar[bool] = False
    concurrency: ClassVar[str] = "per-thread"

    def __init__(
        self,
        device_id: int | str = 0,
        mem_limit: int | str = 1 << 30,
        memories: str = "",
        kernel_ms: int | str = 0,
        **unknown: Any,
    ) -> None:
        super().__init__(**unknown)
        given = {"device_id": device_id, "mem_limit": mem_limit, "kernel_ms": kernel_ms}
        numbers = {option: count(self, option, value) for option, value in given.items()}
        self._options: dict[str, Any] = {**numbers, "memories": memories}
        self._declared = tuple(replace(memory, alignment=ALIGNMENT) for memory in parse_memories(memories))
        self._memories: Memories | None = None
        self._planner: MemoryPlanner = DEFAULT_PLANNER
        if self._options["device_id"] >= CARDS:
            raise NoDevice(f"{self.name}: there is no card {device_id}; there are 0 to {CARDS - 1}")
        self.device = Device("npu", self._options["device_id"])
        self._arena = ArenaAllocator(self.device, self._options["mem_limit"], source=CardDriver())
        self._queue = CardQueue(self._options["kernel_ms"])
        self._transfer = CardTransfer(self._arena, self._queue)

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return dict(self._options)

    @classmethod
    def supported_devices(cls) -> dict[Device, dict[str, Any]]:
        """Return the cards of this machine, each with the options that select it."""
        return {Device("npu", k): {"device_id": k} for k in range(CARDS)}

    def memories(self) -> Sequence[Memory]:
        """Return the memories that the card consists of; none if their use is not planned."""
        return self._declared

    def configure(self, options: SessionOptions) -> None:
        """Receive the session's memories and planner."""
        if options.session_memory is not None:
            self._memories = options.session_memory.device_memories(self.memories())
            self._planner = options.session_memory.planner

    # Capabilities

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the groups of nodes that the card runs, and a reason for each node that it does not run."""
        return claim_units(graph, self._misfit, unit)

    def _misfit(self, node: Node) -> Rejection | None:
        """Return why the card does not run a node. With memories that are planned, it computes with no sizes."""
        if self._memories is not None and node.op_type in SIZES:
            return Rejection(node, "memories", "sizes are host values, and a plan of memories knows no values of a run")
        return misfit(node)

    def preferred_layout(self, node: Node) -> str | None:
        """Return NHWC for operators on images, which the card computes channels-last."""
        return "NHWC" if node.op_type in IMAGES else None

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True for float32."""
        return dtype == "float32"

    def available_resource(self) -> Resource:
        """Return the bytes of the card's memory that are free."""
        return Resource(nbytes=self._options["mem_limit"] - self._arena.bytes_in_use)

    def cost(self, node: Node) -> float | None:
        """Return the seconds that a node takes, or None if its sizes are unknown."""
        operations = work(node)
        return None if operations is None else operations / OPERATIONS

    def overhead(self) -> Overhead:
        """Return the time of a launch, and the latency and bandwidth of copies."""
        return Overhead(LAUNCH, LATENCY, BANDWIDTH)

    # Compilation

    def fusions(self) -> list[Transform | str]:
        """Return the fusions to apply to the card's nodes."""
        return ["fuse_matmul_bias", fuse_conv_add, fuse_conv_relu]

    def host_values(self, partition: Partition) -> list[Value]:
        """Return the int64 values: sizes, axes and indices. The host computes them, so that nothing waits for the card."""
        return [value for value in (*partition.inputs, *partition.outputs) if value.dtype == "int64"]

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        """Compile partitions and copy their constants to the card."""
        return [self._load(compile_program(partition), partition, partition.constants) for partition in partitions]

    def _load(
        self, program: CardProgram, partition: Partition, absorbed: Sequence[Value] = ()
    ) -> CardExecutable | PlannedExecutable:
        if self._memories is None:
            on_host = [k for k, value in enumerate(partition.outputs) if value in partition.host_values]
            return CardExecutable(program, self._arena, self._queue, absorbed, find_aliases(program, partition), on_host)
        return PlannedExecutable(program, self._arena, absorbed, self._memories, self._planner, self._transfer)

    def serialize(self, compiled: CompiledPartition) -> bytes:
        """Serialize a compiled partition."""
        assert isinstance(compiled, CardExecutable | PlannedExecutable)
        return compiled.to_bytes()

    def deserialize(self, partition: Partition, data: bytes) -> CardExecutable | PlannedExecutable:
        """Load a compiled partition that `serialize` wrote."""
        return self._load(CardProgram.from_bytes(data), partition)

    def compatibility(self) -> str:
        """Return the format of saved programs."""
        return str(FORMAT)

    def check_compatibility(self, saved: str) -> str | None:
        """Return the reason why a saved program cannot be loaded, or None if it can."""
        return FORMAT.misfit(saved)

    # The card

    def allocator(self) -> ArenaAllocator:
        """Return the allocator of the card's memory."""
        return self._arena

    def data_transfer(self) -> CardTransfer:
        """Return the object that copies to and from the card."""
        return self._transfer

    def sync(self) -> None:
        """Wait until the card has done all its work."""
        self._queue.drain()

    def wait_on_device(self, notification: SyncNotification) -> bool:
        """Let the queue wait for work of another queue."""
        if isinstance(notification, CardWork):
            self._queue.submit(lambda: None, [notification])
        return isinstance(notification, CardWork)
