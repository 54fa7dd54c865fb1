"""Memory plans: the role, memory, offset and source of each tensor, the size of each arena, and the quality of the plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.planning.lifetimes import TensorId, TensorLifetime
from ort_lite.memory.planning.live import max_live
from ort_lite.memory.planning.requests import ArenaRole, Memory, MemoryType, align_up

if TYPE_CHECKING:
    from ort_lite.memory.planning.picture import ArenaPicture


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """The place of a tensor: `offset` in the arena of this role in `memory`, filled from `source_memory`.

    Raises InvalidArgument if the source differs from the memory, except for a constant, which is then staged.
    """

    role: ArenaRole
    memory: MemoryType
    offset: int
    source_memory: MemoryType

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise InvalidArgument(f"{self.role} binding in {self.memory!r}: offset {self.offset}, expected 0 or more")
        _check_source(self.role, self.memory, self.source_memory)

    @property
    def is_staged(self) -> bool:
        """True if the bytes are copied from another memory before the first run."""
        return self.source_memory != self.memory


def _check_source(role: ArenaRole, memory: MemoryType, source: MemoryType | None) -> None:
    if role is not ArenaRole.constant and source not in (None, memory):
        raise InvalidArgument(
            f"{role} in {memory!r}: source_memory {source!r}, expected {memory!r}; only constants are copied from elsewhere"
        )


@dataclass(frozen=True, slots=True)
class TensorAllocation:
    """A tensor's slot. `size` is the slot's: the tensor's bytes, rounded up to the alignment of its memory."""

    tensor_id: TensorId
    memory: MemoryType
    offset: int
    size: int
    binding: TensorBinding | None = None

    @property
    def role(self) -> ArenaRole:
        """The role of its arena."""
        return ArenaRole.scratch if self.binding is None else self.binding.role


@dataclass(frozen=True, slots=True)
class TensorMove:
    """A copy of a tensor from one memory to another, made just before operator `step`. All are made in the order of the plan.

    `source` and `destination` are allocations of the plan, or the tensor itself if its place is the caller's.
    """

    tensor_id: TensorId
    step: int
    source: TensorId
    destination: TensorId
    source_memory: MemoryType
    memory: MemoryType
    size: int

    def __str__(self) -> str:
        return f"{self.tensor_id!r}, {self.size:,} bytes, {self.source_memory} -> {self.memory}, before op {self.step}"


@dataclass(slots=True)
class ArenaUsage:
    """An arena and how much of it is used. For constant and persistent arenas, finally used == total_size."""

    memory: MemoryType
    total_size: int
    used: int = 0
    role: ArenaRole = ArenaRole.scratch
    source_memory: MemoryType | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.used <= self.total_size:
            raise InvalidArgument(f"{self}: used {self.used} of {self.total_size} bytes, expected 0 <= used <= total_size")
        _check_source(self.role, self.memory, self.source_memory)

    def __str__(self) -> str:
        return f"{self.role} arena in {self.memory!r}"

    @property
    def is_staged(self) -> bool:
        """True if the contents are copied from another memory before the first run."""
        return self.source_memory is not None and self.source_memory != self.memory

    def allocate(self, size: int, alignment: int = 1) -> int:
        """Return the offset of the next `size` bytes. Raises OutOfMemory if fewer are left, InvalidArgument if negative."""
        if size < 0:
            raise InvalidArgument(f"{self}: {size} bytes asked for, expected 0 or more")
        offset = align_up(self.used, alignment)
        if size > self.total_size - offset:
            raise OutOfMemory(f"{self}: {size} bytes asked for at offset {offset}, it has {self.total_size}")
        self.used = offset + size
        return offset


@dataclass(frozen=True, slots=True)
class Certificate:
    """The quality of a plan's scratch: its peak, and a lower bound on the peak of any plan (the most bytes in use at once).

    The bound is not always attainable, so a gap does not prove that the plan is suboptimal.
    """

    peak: int
    lower_bound: int

    @property
    def gap(self) -> int:
        """The difference in bytes; 0 proves that the plan is optimal."""
        return self.peak - self.lower_bound

    @property
    def ratio(self) -> float:
        """The peak divided by the lower bound; 1.0 is optimal."""
        return self.peak / self.lower_bound if self.lower_bound else 1.0

    def __str__(self) -> str:
        return f"peak {self.peak:,}, lower bound {self.lower_bound:,}, gap {self.gap:,} ({self.ratio - 1:.1%})"


@dataclass(frozen=True)
class MemoryPlan:
    """The slot of every tensor and every arena. The maps of arenas are keyed by the memory from which kernels read.

    `aliases` maps a tensor to the tensor whose bytes it shares; both are in `tensor_allocs`. `planner` is the name of the planner
    that packed the scratch. `steps` has, per scratch arena, the names of the nodes that the operators belong to, in order. `shapes`
    are the input shapes that the plan is for, with free dimensions that it does not depend on by name. Both may be empty.

    `copies` maps an allocation to the tensor of which it is a further copy, in another memory or at another time, and `moves` are the
    copies that a run makes. `outside` has the memory of tensors whose place is the caller's. `accesses` are the bytes that operators
    read and write in a run, by memory, if they were stated. `memories` are those that were declared.
    """

    tensor_allocs: dict[TensorId, TensorAllocation] = field(default_factory=dict)
    arena_usages: dict[MemoryType, ArenaUsage] = field(default_factory=dict)
    constant_arenas: dict[MemoryType, ArenaUsage] = field(default_factory=dict)
    persistent_arenas: dict[MemoryType, ArenaUsage] = field(default_factory=dict)
    tensor_lifetimes: dict[TensorId, TensorLifetime] = field(default_factory=dict)
    aliases: Mapping[TensorId, TensorId] = field(default_factory=dict)
    planner: str = ""
    steps: dict[MemoryType, Sequence[str]] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    copies: dict[TensorId, TensorId] = field(default_factory=dict)
    moves: Sequence[TensorMove] = ()
    outside: Mapping[TensorId, MemoryType] = field(default_factory=dict)
    accesses: Mapping[MemoryType, int] = field(default_factory=dict)
    memories: Mapping[MemoryType, Memory] = field(default_factory=dict)

    def bind(self, tensor_id: TensorId, binding: TensorBinding, size: int) -> None:
        """Assign `size` bytes to a tensor at the place given by the binding."""
        self.tensor_allocs[tensor_id] = TensorAllocation(tensor_id, binding.memory, binding.offset, size, binding)

    def get_allocation(self, tensor_id: TensorId) -> TensorAllocation:
        """Return the slot of a tensor. Raises KeyError if it was not planned."""
        return self.tensor_allocs[tensor_id]

    def allocation_at(self, tensor_id: TensorId, step: int) -> TensorAllocation | None:
        """Return the allocation that operator `step` uses; None if it is the caller's. Raises KeyError for an unknown tensor."""
        root = self.aliases.get(tensor_id, tensor_id)
        for copy in self._copies_of.get(root, ()):
            life = self.tensor_lifetimes[copy]
            if life.start_op <= step <= life.end_op:
                return self.tensor_allocs[copy]
        return None if root in self.outside else self.tensor_allocs[root]

    @property
    def moved_bytes(self) -> int:
        """The bytes that all moves of a run copy."""
        return sum(move.size for move in self.moves)

    @cached_property
    def _copies_of(self) -> dict[TensorId, list[TensorId]]:
        found: dict[TensorId, list[TensorId]] = {}
        for copy, tensor in self.copies.items():
            found.setdefault(tensor, []).append(copy)
        return found

    def arenas(self, role: ArenaRole) -> dict[MemoryType, ArenaUsage]:
        """Return the arenas of a role, by memory."""
        return {
            ArenaRole.scratch: self.arena_usages,
            ArenaRole.persistent: self.persistent_arenas,
            ArenaRole.constant: self.constant_arenas,
        }[role]

    def certificate(self, memory: MemoryType | None = None) -> Certificate:
        """Return the certificate of the scratch arena in `memory`, or of all. O(n log n), once. KeyError for an unknown memory."""
        if memory is not None:
            return self.certificates[memory]
        peak = sum(arena.used for arena in self.arena_usages.values())
        return Certificate(peak, self._most_alive(self.arena_usages))

    @cached_property
    def certificates(self) -> dict[MemoryType, Certificate]:
        """The certificate of each scratch arena, by memory."""
        return {memory: Certificate(arena.used, self._most_alive((memory,))) for memory, arena in self.arena_usages.items()}

    def _most_alive(self, memories: Iterable[MemoryType]) -> int:
        sizes: dict[TensorId, int] = {}
        wanted = set(memories)
        for tensor, slot in self.tensor_allocs.items():
            if slot.memory in wanted and slot.role is ArenaRole.scratch:
                root = self.aliases.get(tensor, tensor)
                sizes[root] = max(sizes.get(root, 0), slot.size)
        return max_live((*self.tensor_lifetimes[tensor].half_open(), size) for tensor, size in sizes.items())

    def __repr__(self) -> str:
        used = sum(arena.used for arena in self.arena_usages.values())
        return f"MemoryPlan(tensors: {len(self.tensor_allocs)}; scratch: {used:,} bytes; planner: {self.planner or 'none'})"

    def __str__(self) -> str:
        lines = []
        for role in ArenaRole:
            for memory, arena in self.arenas(role).items():
                notes = self.quality(memory) if role is ArenaRole.scratch else f"{arena.total_size:,} bytes"
                lines.append(f"{role:<10}  {memory}  {notes}" + (f", from {arena.source_memory}" if arena.is_staged else ""))
        for memory, size in self.accesses.items():
            speed = self.memories[memory].bandwidth if memory in self.memories else 0
            lines.append(f"accesses    {memory}  {size:,} bytes a run" + (f", {size / speed * 1e3:.3g} ms" if speed else ""))
        if self.moves:
            lines.append(f"moves       {len(self.moves):,} a run, {self.moved_bytes:,} bytes")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Draw the memories that have scratch: operators across, bytes up."""
        from ort_lite.memory.planning.picture import html_of

        pictures = [self._picture(memory) for memory in self.arena_usages]
        return html_of(pictures, [line for line in str(self).splitlines() if not line.startswith(ArenaRole.scratch)])

    def _picture(self, memory: MemoryType) -> "ArenaPicture":
        """Return the picture of a memory: what always lives there at the bottom, above it the scratch."""
        from ort_lite.memory.planning.picture import ArenaPicture, Box

        last = max((life.end_op for life in self.tensor_lifetimes.values()), default=0) + 1
        boxes, base = [], 0
        for arenas in (self.constant_arenas, self.persistent_arenas):
            if memory in arenas:
                boxes.append(Box(f"{arenas[memory].role} tensors", base, arenas[memory].used, 0, last))
                base += arenas[memory].used
        for tensor, slot in self.tensor_allocs.items():
            if slot.memory == memory and slot.role is ArenaRole.scratch and tensor not in self.aliases:
                boxes.append(Box(tensor, base + slot.offset, slot.size, *self.tensor_lifetimes[tensor].half_open()))
        limit = self.memories[memory].size if memory in self.memories else None
        title = f"{ArenaRole.scratch} {memory}: {self.quality(memory)}" + ("" if limit is None else f", limit {limit:,}")
        return ArenaPicture(title, boxes, base + self.certificates[memory].lower_bound, limit)

    def quality(self, memory: MemoryType) -> str:
        """Return the certificate of the scratch in `memory` and the planner, as text."""
        return f"{self.certificates[memory]}" + (f", packed by {self.planner}" if self.planner else "")
