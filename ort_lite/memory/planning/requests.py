"""Requests to a memory planner: tensors with roles and alignments, memories with limits."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.lifetimes import TensorId
from ort_lite.memory.planning.packing import LIMIT

MemoryType = str
"""The name of a memory of a platform: "cpu", "dtcm", "flash"."""


class ArenaRole(StrEnum):
    """The purpose of an arena. Tensors of different roles never share bytes."""

    scratch = "scratch"
    """Writable; a slot is reused after its tensor's last use."""
    persistent = "persistent"
    """Writable, zero at first; every tensor keeps its bytes. For caches and variables."""
    constant = "constant"
    """Read-only weights. Cold ones are read where they are stored; staged ones are copied once into a writable memory."""


def power_of_two(value: int) -> bool:
    """Return True if `value` is a power of two."""
    return value > 0 and value & (value - 1) == 0


def align_up(value: int, alignment: int) -> int:
    """Return the next multiple of `alignment`, which is any positive number."""
    return -(-value // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a device: its bytes (None: no limit), its bytes per second (0: unknown), and the roles of what may live there.

    Tensors begin at multiples of `alignment`, if it is given. Kernels read and write tensors in place. In a `remote` memory they
    cannot: a tensor is copied to another memory for each operator that uses it.
    """

    name: MemoryType
    size: int | None = None
    bandwidth: float = 0.0
    roles: frozenset[ArenaRole] = frozenset(ArenaRole)
    remote: bool = False
    alignment: int | None = None

    def __str__(self) -> str:
        size = "no limit" if self.size is None else f"{self.size:,} bytes"
        return f"{self.name} ({size}{', remote' if self.remote else ''})"


@dataclass(frozen=True, slots=True)
class Platform:
    """The memories of a device, each list in order of preference, and the minimum alignment."""

    writable: tuple[MemoryType, ...] = ("cpu",)
    read_only: tuple[MemoryType, ...] = ()
    min_alignment: int = 16

    def __post_init__(self) -> None:
        if not power_of_two(self.min_alignment):
            raise InvalidArgument(f"Platform: min_alignment {self.min_alignment}, expected a power of two")
        if len({*self.writable, *self.read_only}) != len(self.writable) + len(self.read_only):
            raise InvalidArgument(f"Platform: a memory is named twice in {(*self.writable, *self.read_only)}")


@dataclass(frozen=True, slots=True)
class MemoryConstraint:
    """A user's constraints on one memory: a limit in bytes for all its arenas together, and a stronger alignment."""

    name: MemoryType
    max_size: int | None = None
    arena_alignment: int | None = None

    def __post_init__(self) -> None:
        if self.max_size is not None and self.max_size < 0:
            raise InvalidArgument(f"MemoryConstraint {self.name!r}: max_size {self.max_size}, expected 0 or more bytes")
        if self.arena_alignment is not None and not power_of_two(self.arena_alignment):
            raise InvalidArgument(
                f"MemoryConstraint {self.name!r}: arena_alignment {self.arena_alignment}, expected a power of two"
            )

    def base_alignment(self, platform: Platform) -> int:
        """Return the alignment of the arena's first byte: the user's, at least the platform's; 16 by default."""
        return max(self.arena_alignment, platform.min_alignment) if self.arena_alignment else 16

    def slot_alignment(self, platform: Platform, dtype_alignment: int = 1, alignment_hint: int = 1) -> int:
        """Return the alignment of every slot: the arena's if the user sets one, else what platform and tensor need.

        Raises InvalidArgument for a tensor that needs more than the user's alignment.
        """
        needed = max(dtype_alignment, alignment_hint)
        if self.arena_alignment is None:
            return max(platform.min_alignment, needed)
        if needed > self.base_alignment(platform):
            raise InvalidArgument(
                f"MemoryConstraint {self.name!r}: slots are aligned to arena_alignment {self.arena_alignment} (platform: "
                f"{platform.min_alignment}), a tensor needs {needed}; raise arena_alignment to {needed}, or leave it out"
            )
        return self.base_alignment(platform)


@dataclass(frozen=True, slots=True)
class TensorAttributes:
    """The memory of a tensor: scratch and persistent tensors first try `memory`; constants are stored in `memory`.

    A constant with a `constant_destination_memory` is copied to that writable memory, and read from there.
    """

    memory: MemoryType = "cpu"
    constant_destination_memory: MemoryType | None = None


@dataclass(frozen=True, slots=True)
class TensorRequest:
    """A tensor to plan: its bytes, role and memory, the alignment of its type and the one preferred by its kernels.

    `uses` are the operators that read or write it, in any order. If they are stated, a tensor may move between memories. If it is an
    `outside` input or output of the program, its place in `attributes.memory` is the caller's, and only copies of it are planned.
    """

    tensor_id: TensorId
    size: int
    role: ArenaRole = ArenaRole.scratch
    attributes: TensorAttributes = TensorAttributes()
    dtype_alignment: int = 1
    alignment_hint: int = 1
    uses: tuple[int, ...] = ()
    outside: Literal["", "input", "output"] = ""

    def __post_init__(self) -> None:
        if not 0 <= self.size <= LIMIT:
            raise InvalidArgument(f"tensor {self.tensor_id!r}: size {self.size}, expected 0 to 2**62 bytes")
        for name, value in (("dtype_alignment", self.dtype_alignment), ("alignment_hint", self.alignment_hint)):
            if not power_of_two(value):
                raise InvalidArgument(f"tensor {self.tensor_id!r}: {name} {value}, expected a power of two")
