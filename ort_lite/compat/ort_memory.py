"""onnxruntime's functions and classes for the allocator that sessions with `session.use_env_allocators` share.

onnxruntime's Python interface can register only its own arena. Here any Python object can be an allocator.
"""

from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory.arenas import Growth, MemorySource
from ort_lite.memory.environment import ENVIRONMENT
from ort_lite.options.options import NamedNumber


class OrtAllocatorType(NamedNumber):
    """The type of an allocator. Accepted for compatibility: scratch memory always comes from arenas."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(NamedNumber):
    """The memory type of a value. CPU memory is DEFAULT."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtMemoryInfoDeviceType(NamedNumber):
    """The type of device that holds the memory."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtDeviceMemoryType(NamedNumber):
    """The memory of a device: its own, or one that the CPU can access as well."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfo:
    """The description of an allocator's or a value's memory. Only CPU memory has a shared allocator."""

    def __init__(
        self,
        name: str,
        allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_ARENA_ALLOCATOR,
        device_id: int = 0,
        mem_type: OrtMemType = OrtMemType.DEFAULT,
    ) -> None:
        self.name, self.device_id = str(name), int(device_id)
        self.allocator_type, self.mem_type = OrtAllocatorType(allocator_type), OrtMemType(mem_type)
        self.device_vendor_id, self.device_mem_type = 0, OrtDeviceMemoryType.DEFAULT
        self.device_type = self.name.lower()

    @classmethod
    def create_v2(
        cls,
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> "OrtMemoryInfo":
        """Create the description of a device's memory. `alignment` is accepted for compatibility."""
        host = OrtDeviceMemoryType(mem_type) is OrtDeviceMemoryType.HOST_ACCESSIBLE
        made = cls(name, allocator_type, device_id, OrtMemType.CPU_OUTPUT if host else OrtMemType.DEFAULT)
        made.device_vendor_id, made.device_mem_type = int(vendor_id), OrtDeviceMemoryType(mem_type)
        made.device_type = OrtMemoryInfoDeviceType(device_type).name.lower()
        return made

    @classmethod
    def of(cls, device: Any) -> "OrtMemoryInfo":
        """Describe the memory of a provider's Device; None is the CPU."""
        return cls("Cpu") if device is None or device.kind == "cpu" else cls(device.kind, device_id=device.id)

    def __repr__(self) -> str:
        return f"OrtMemoryInfo({self.name!r}, {self.allocator_type.name}, {self.device_id}, {self.mem_type.name})"


_CONFIG = {
    "max_mem": 0,
    "arena_extend_strategy": -1,
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": -1,
    "max_power_of_two_extend_bytes": -1,
}


class OrtArenaCfg:
    """The growth of arenas.

    `max_mem` is in bytes (0 or less: no limit). `arena_extend_strategy` is 0 or -1 for powers of two and 1 for the requested
    size. Chunk sizes are accepted without effect: a run has all of its scratch memory in one piece.
    """

    def __init__(self, *values: int | Mapping[str, int]) -> None:
        """Create a configuration from (max_mem, arena_extend_strategy, initial_chunk_size_bytes, max_dead_bytes_per_chunk).

        A single mapping sets any of the attributes by name.
        """
        if len(values) == 1 and isinstance(values[0], Mapping):
            given: dict[str, Any] = dict(values[0])
        else:
            given = dict(zip(_CONFIG, values, strict=False))
        if unknown := [name for name in given if name not in _CONFIG]:
            raise InvalidArgument(f"OrtArenaCfg knows no {', '.join(unknown)}; it knows {', '.join(_CONFIG)}")
        self.values = {name: int(given.get(name, default)) for name, default in _CONFIG.items()}
        self.max_mem = self.values["max_mem"]
        self.arena_extend_strategy = self.values["arena_extend_strategy"]
        self.initial_chunk_size_bytes = self.values["initial_chunk_size_bytes"]
        self.max_dead_bytes_per_chunk = self.values["max_dead_bytes_per_chunk"]
        self.initial_growth_chunk_size_bytes = self.values["initial_growth_chunk_size_bytes"]
        self.max_power_of_two_extend_bytes = self.values["max_power_of_two_extend_bytes"]

    @property
    def limit(self) -> int | None:
        """The limit in bytes; None if `max_mem` is 0 or less."""
        return self.max_mem if self.max_mem > 0 else None

    @property
    def growth(self) -> Growth:
        """The growth strategy. Raises InvalidArgument for an unknown one."""
        return Growth.parse(self.arena_extend_strategy)


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None = None) -> None:
    """Register a shared arena of system memory for sessions with `session.use_env_allocators`.

    `arena_cfg` sets its growth. Raises InvalidArgument for memory other than the CPU's, and while another allocator is
    registered.
    """
    if mem_info.name.lower() != "cpu":
        raise InvalidArgument(f"OrtMemoryInfo {mem_info.name!r}: only the CPU's memory is shared; expected 'Cpu'")
    config = OrtArenaCfg() if arena_cfg is None else arena_cfg
    ENVIRONMENT.register(None, config.limit, config.growth)


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg | None = None
) -> None:
    """Register a shared arena of a provider's memory; only the CPU provider is supported, without options.

    Raises InvalidArgument for another provider: providers create the allocators of their own devices.
    """
    if provider_type != "CPUExecutionProvider":
        raise InvalidArgument(
            f"create_and_register_allocator_v2: got {provider_type!r}; only the memory of CPUExecutionProvider is shared, others "
            f"bring their own allocators (ExecutionProvider.allocator)"
        )
    if options:
        raise InvalidArgument(f"create_and_register_allocator_v2: got options {dict(options)!r}, expected none")
    create_and_register_allocator(mem_info, arena_cfg)


def register_allocator(allocator: MemorySource, arena_cfg: OrtArenaCfg | None = None) -> None:
    """Register an allocator written in Python as the shared source of scratch memory.

    `allocate(nbytes)` returns a handle with the buffer protocol (bytearray, mmap, an array of bytes); `free(handle)` takes it
    back. Both are called from the threads that run sessions.
    """
    config = arena_cfg or OrtArenaCfg(0, 1)
    ENVIRONMENT.register(allocator, config.limit, config.growth)


def unregister_allocator() -> None:
    """Unregister the shared allocator. Sessions that use it keep it; later ones share system memory."""
    ENVIRONMENT.unregister()
