"""AcceleratorExecutionProvider: compiles partitions for a card with a memory of its own, of which this machine has two."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.graph import Node
from ort_lite.memory.allocators import ArenaAllocator
from ort_lite.provider import (
    Capability,
    CompiledPartition,
    Device,
    ExecutionProvider,
    GraphView,
    Overhead,
    Partition,
    ProfileEvent,
    Rejection,
    Resource,
)
from ort_lite.transform import Transform
from ort_lite_accelerator.memory import CardTransfer, Driver
from ort_lite_accelerator.operators import IMAGES, fuse_conv_add, fuse_conv_relu, misfit, unit, work
from ort_lite_accelerator.program import Executable, Profile, Program, compiled

CARDS = 2
OPERATIONS, LAUNCH, LATENCY, BANDWIDTH = 2e12, 2e-5, 1e-5, 8e9
"""Of the card, a second and in seconds."""
FORMAT = (1, 0)
"""Of saved programs: the first number changes when older cards cannot run them, the second when something is added."""


class AcceleratorExecutionProvider(ExecutionProvider):
    """Options: device_id, which card (0); mem_limit, the most bytes of its memory (1 GiB)."""

    name: ClassVar[str] = "AcceleratorExecutionProvider"
    default: ClassVar[bool] = False
    concurrency: ClassVar[str] = "per-thread"

    def __init__(self, device_id: int | str = 0, mem_limit: int | str = 1 << 30, **unknown: Any) -> None:
        super().__init__(**unknown)
        self._options = {"device_id": _count("device_id", device_id), "mem_limit": _count("mem_limit", mem_limit)}
        if self._options["device_id"] >= CARDS:
            raise NoDevice(f"{self.name}: there is no card {device_id}; there are 0 to {CARDS - 1}")
        self.device = Device("npu", self._options["device_id"])
        self._arena = ArenaAllocator(self.device, self._options["mem_limit"], source=Driver())
        self._transfer, self._profile = CardTransfer(self._arena), Profile()

    def get_options(self) -> dict[str, Any]:
        return dict(self._options)

    @classmethod
    def supported_devices(cls) -> dict[Device, dict[str, Any]]:
        return {Device("npu", k): {"device_id": k} for k in range(CARDS)}

    # What it takes

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        answers = {node: misfit(node) for node in graph}
        free = {node for node, wrong in answers.items() if wrong is None}
        for node, wrong in answers.items():
            if wrong is not None:
                yield wrong
            elif node in free:
                together = unit(node, free)
                free.difference_update(together)
                yield Capability(together)

    def preferred_layout(self, node: Node) -> str | None:
        return "NHWC" if node.op_type in IMAGES else None

    def supports_type(self, node: Node, dtype: str) -> bool:
        return dtype == "float32"

    def available_resource(self) -> Resource:
        return Resource(nbytes=self._options["mem_limit"] - self._arena.bytes_in_use)

    def cost(self, node: Node) -> float | None:
        operations = work(node)
        return None if operations is None else operations / OPERATIONS

    def overhead(self) -> Overhead:
        return Overhead(LAUNCH, LATENCY, BANDWIDTH)

    # Compiling

    def fusions(self) -> list[Transform | str]:
        return ["fuse_matmul_bias", fuse_conv_add, fuse_conv_relu]

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition | Exception]:
        return [self._compiled(partition) for partition in partitions]

    def _compiled(self, partition: Partition) -> CompiledPartition | Exception:
        try:
            return Executable(compiled(partition), self._arena, self._profile, partition.constants)
        except Exception as error:  # noqa: BLE001  # loses this partition alone
            return error

    def serialize(self, compiled: CompiledPartition) -> bytes:
        assert isinstance(compiled, Executable)
        return compiled.to_bytes()

    def deserialize(self, partition: Partition, data: bytes) -> Executable:
        try:
            program = Program.from_bytes(data)
        except Exception as error:
            raise ProviderError(f"{self.name}: {partition.name} is no saved program: {error}") from error
        return Executable(program, self._arena, self._profile)

    def compatibility(self) -> str:
        return "npu-program {}.{}".format(*FORMAT)

    def check_compatibility(self, saved: str) -> str | None:
        """Programs of any card run on any other, and newer runtimes run what older compilers made."""
        kind, _, version = saved.partition(" ")
        first, _, second = version.partition(".")
        fits = kind == "npu-program" and first == str(FORMAT[0]) and second.isdigit() and int(second) <= FORMAT[1]
        return None if fits else f"it was compiled for {saved!r}; this card runs {self.compatibility()!r}"

    # The card

    def allocator(self) -> ArenaAllocator:
        return self._arena

    def data_transfer(self) -> CardTransfer:
        return self._transfer

    def start_profiling(self) -> None:
        self._profile.events = []

    def end_profiling(self) -> list[ProfileEvent]:
        events, self._profile.events = self._profile.events, None
        return events or []


def _count(option: str, value: int | str) -> int:
    if not str(value).isdecimal():
        raise ProviderError(f"{AcceleratorExecutionProvider.name}: {option} is {value!r}; expected a number, 0 or more")
    return int(value)
