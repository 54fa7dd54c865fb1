"""The allocator that sessions with `session.use_env_allocators` share: onnxruntime's functions and classes, by their names.

Its Python interface registers its own arena alone; here an allocator may be any Python object.
"""

from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.memory.arenas import Growth, MemorySource
from ort_lite.memory.environment import ENVIRONMENT
from ort_lite.options.options import NamedNumber


class OrtAllocatorType(NamedNumber):
    """Accepted for compatibility: scratch memory is always in arenas."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(NamedNumber):
    """onnxruntime's kinds of memory; that of the CPU is DEFAULT."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtMemoryInfoDeviceType(NamedNumber):
    """The kind of device that memory is on."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtDeviceMemoryType(NamedNumber):
    """The device's own memory, or memory that the CPU reaches too."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfo:
    """The memory of an allocator or a value. Only the CPU's has an allocator that sessions share."""

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
        """Create the description of any device's memory; the alignment is accepted for compatibility."""
        host = OrtDeviceMemoryType(mem_type) is OrtDeviceMemoryType.HOST_ACCESSIBLE
        made = cls(name, allocator_type, device_id, OrtMemType.CPU_OUTPUT if host else OrtMemType.DEFAULT)
        made.device_vendor_id, made.device_mem_type = int(vendor_id), OrtDeviceMemoryType(mem_type)
        made.device_type = OrtMemoryInfoDeviceType(device_type).name.lower()
        return made

    @classmethod
    def of(cls, device: Any) -> "OrtMemoryInfo":
        """A provider's Device; None is the CPU."""
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
    """Growth of arenas: `max_mem` bytes (0 or less: no limit), `arena_extend_strategy` 0 or -1 by powers of two, 1 as requested.

    The sizes of chunks are taken and without effect: there are no chunks, a run has its scratch memory in one piece.
    """

    def __init__(self, *values: int | Mapping[str, int]) -> None:
        """(max_mem, arena_extend_strategy, initial_chunk_size_bytes, max_dead_bytes_per_chunk), or a mapping of all names."""
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
        """`max_mem`, where it is one."""
        return self.max_mem if self.max_mem > 0 else None

    @property
    def growth(self) -> Growth:
        """Raises InvalidArgument for a strategy that there is not."""
        return Growth.parse(self.arena_extend_strategy)


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None = None) -> None:
    """Sessions with `session.use_env_allocators` share scratch memory of the system that grows as `arena_cfg` says.

    Raises InvalidArgument for another memory than the CPU's, and while another allocator is registered.
    """
    if mem_info.name.lower() != "cpu":
        raise InvalidArgument(f"OrtMemoryInfo {mem_info.name!r}: only the CPU's memory is shared; expected 'Cpu'")
    config = OrtArenaCfg() if arena_cfg is None else arena_cfg
    ENVIRONMENT.register(None, config.limit, config.growth)


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg | None = None
) -> None:
    """Create and register an allocator of a provider by its name: the CPU's, which takes no options.

    Raises InvalidArgument for another one: providers make the allocators of their devices themselves.
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
    """Register the memory of an allocator that is written in Python.

    `allocate(nbytes)` returns a handle with the buffer protocol (bytearray, mmap, an array of bytes), `free(handle)` takes it
    back; both are called from whatever thread runs a session.
    """
    config = arena_cfg or OrtArenaCfg(0, 1)
    ENVIRONMENT.register(allocator, config.limit, config.growth)


def unregister_allocator() -> None:
    """Takes back what was registered. Sessions that use it keep it; those made later share the system's memory."""
    ENVIRONMENT.unregister()
