"""Plans for tensors of all roles in a device's memories. A planner packs the scratch; everything else is placed here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.planning import packing
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.checker import check
from ort_lite.memory.planning.lifetimes import TensorId, TensorLifetime, alias_classes
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorBinding
from ort_lite.memory.planning.planner import MemoryPlanner, pack_blocks
from ort_lite.memory.planning.requests import (
    ArenaRole,
    MemoryConstraint,
    MemoryType,
    Platform,
    TensorAttributes,
    TensorRequest,
    align_up,
)


@dataclass(frozen=True, slots=True)
class _Slot:
    """An alias class to be placed in an arena; all members have the same role and attributes."""

    members: tuple[TensorRequest, ...]
    lifetime: TensorLifetime
    size: int

    def __str__(self) -> str:
        return f"{self.members[0].role} tensor {self.members[0].tensor_id!r} ({self.size:,} bytes)"

    @property
    def attributes(self) -> TensorAttributes:
        return self.members[0].attributes


class Memories:
    """The memories of a platform, with limits. `plan` appends constants, then persistent tensors, and packs scratch last.

    A scratch or persistent tensor that does not fit into the rest of its memory (see `max_size`) goes to the platform's next
    writable memory. Stateless: many threads may plan at once.
    """

    def __init__(self, platform: Platform | None = None, constraints: Iterable[MemoryConstraint] = ()) -> None:
        self.platform = platform or Platform()
        self.constraints = {name: MemoryConstraint(name) for name in (*self.platform.writable, *self.platform.read_only)}
        for constraint in constraints:
            if constraint.name not in self.constraints:
                raise InvalidArgument(f"MemoryConstraint {constraint.name!r}: expected one of {', '.join(self.constraints)}")
            self.constraints[constraint.name] = constraint

    def plan(
        self,
        planner: MemoryPlanner,
        tensors: Iterable[TensorRequest],
        lifetimes: Mapping[TensorId, TensorLifetime],
        aliases: Iterable[Iterable[TensorId]] = (),
    ) -> MemoryPlan:
        """Return a plan for all tensors, checked by `checker.check`. `planner` packs the scratch of each memory.

        `aliases` are groups of tensors that share bytes. Constants and persistent tensors without a lifetime live throughout the
        program. Raises InvalidArgument for contradictory tensors, attributes or groups, InvalidPlan for unsafe results of the
        planner, and OutOfMemory naming the capacities that were tried.
        """
        requests: dict[TensorId, TensorRequest] = {}
        for tensor in tensors:
            if tensor.tensor_id in requests:
                raise InvalidArgument(f"tensor {tensor.tensor_id!r} is asked for twice, expected every tensor once")
            requests[tensor.tensor_id] = tensor
        slots = self._slots(requests, lifetimes, aliases)
        plan = MemoryPlan(
            tensor_lifetimes={
                member.tensor_id: replace(slot.lifetime, tensor_id=member.tensor_id)
                for slot in slots
                for member in slot.members
            },
            aliases={m.tensor_id: slot.members[0].tensor_id for slot in slots for m in slot.members[1:]},
            planner=planner.name,
        )
        for slot in slots:
            if slot.members[0].role is ArenaRole.constant:
                self._place_constant(plan, slot)
        for slot in slots:
            if slot.members[0].role is ArenaRole.persistent:
                self._place_persistent(plan, slot)
        for arena in (*plan.constant_arenas.values(), *plan.persistent_arenas.values()):
            arena.total_size = arena.used
        self._place_scratch(planner, plan, [slot for slot in slots if slot.members[0].role is ArenaRole.scratch])
        plan = replace(plan, tensor_allocs={tensor: plan.tensor_allocs[tensor] for tensor in requests})
        check(plan)
        return plan

    def _slots(
        self,
        requests: Mapping[TensorId, TensorRequest],
        lifetimes: Mapping[TensorId, TensorLifetime],
        aliases: Iterable[Iterable[TensorId]],
    ) -> list[_Slot]:
        first = min((lifetime.start_op for lifetime in lifetimes.values()), default=0)
        last = max((lifetime.end_op for lifetime in lifetimes.values()), default=0)
        known = {
            tensor: TensorLifetime(tensor, first, last)
            for tensor, request in requests.items()
            if request.role is not ArenaRole.scratch
        }
        known.update({tensor: lifetime for tensor, lifetime in lifetimes.items() if tensor in requests})
        slots = []
        for group in alias_classes({tensor: request.size for tensor, request in requests.items()}, known, aliases):
            members = tuple(requests[tensor] for tensor in group.members)
            for member in members[1:]:
                if (member.role, member.attributes) != (members[0].role, members[0].attributes):
                    raise InvalidArgument(
                        f"tensors {members[0].tensor_id!r} ({members[0].role}, {members[0].attributes}) and "
                        f"{member.tensor_id!r} ({member.role}, {member.attributes}) cannot share bytes: expected one "
                        "role and the same attributes"
                    )
            slots.append(_Slot(members, group.lifetime, group.size))
        return slots

    # --- Arenas that only grow
    def _place_constant(self, plan: MemoryPlan, slot: _Slot) -> None:
        source, destination = slot.attributes.memory, slot.attributes.constant_destination_memory
        if destination is not None and destination not in self.platform.writable:
            raise InvalidArgument(
                f"{slot}: constant_destination_memory {destination!r} is not writable, expected "
                f"{' or '.join(self.platform.writable)}, or None to read it in place"
            )
        memory = destination or source
        self._check_memory(slot, source, tuple(self.constraints))
        arena = plan.constant_arenas.get(memory)
        if arena is not None and arena.source_memory != source:
            raise InvalidArgument(
                f"{slot} comes from {source!r}, but {arena} is filled from {arena.source_memory!r}: expected one source "
                "for all constants of a memory; give it another constant_destination_memory"
            )
        if not self._append(plan, slot, memory, source):
            raise OutOfMemory(f"{slot} does not fit {self._describe_room(plan, memory)}; raise max_size or move it")

    def _place_persistent(self, plan: MemoryPlan, slot: _Slot) -> None:
        memories = self._writable_from(slot)
        if not any(self._append(plan, slot, memory, memory) for memory in memories):
            tried = ", ".join(self._describe_room(plan, memory) for memory in memories)
            raise OutOfMemory(f"{slot} does not fit {tried}; raise max_size or add a memory")

    def _append(self, plan: MemoryPlan, slot: _Slot, memory: MemoryType, source: MemoryType) -> bool:
        """Append a slot to the arena of its role. Return False if the memory has no room."""
        role = slot.members[0].role
        alignment, unit = self._alignment(slot, memory), self._unit(memory)
        used = plan.arenas(role)[memory].used if memory in plan.arenas(role) else 0
        size = align_up(slot.size, unit)
        if align_up(used, alignment) - used + size > self._capacity(plan, memory):
            return False
        arena = plan.arenas(role).setdefault(memory, ArenaUsage(memory, packing.LIMIT, 0, role, source))
        self._record(plan, slot, memory, arena.allocate(size, alignment), source)
        return True

    # --- Scratch
    def _place_scratch(self, planner: MemoryPlanner, plan: MemoryPlan, slots: list[_Slot]) -> None:
        waiting = [(slot, self._writable_from(slot)) for slot in slots]
        tried = []
        for memory in self.platform.writable:
            here = [(slot, choices) for slot, choices in waiting if memory in choices]
            if not here:
                continue
            tried.append(self._describe_room(plan, memory))
            blocks = self._blocks([slot for slot, _ in here], memory)
            names = [slot.members[0].tensor_id for slot, _ in here]
            offsets, peak = pack_blocks(planner, blocks, names, self._capacity(plan, memory)).tolist(), 0
            for (slot, _), offset, size in zip(here, offsets, blocks.size.tolist(), strict=True):
                if offset >= 0:
                    self._record(plan, slot, memory, offset, memory)
                    peak = max(peak, offset + size)
            plan.arena_usages[memory] = ArenaUsage(memory, peak, peak, ArenaRole.scratch, memory)
            waiting = [(s, c) for s, c in waiting if s.members[0].tensor_id not in plan.tensor_allocs]
        if waiting:
            first = ", ".join(str(slot) for slot, _ in waiting[:3]) + (", ..." if len(waiting) > 3 else "")
            raise OutOfMemory(f"{len(waiting)} tensors do not fit {', '.join(tried)}: {first}; raise max_size or add a memory")

    def _blocks(self, slots: list[_Slot], memory: MemoryType) -> Blocks:
        start, end = zip(*(slot.lifetime.half_open() for slot in slots), strict=True)
        sizes = [align_up(slot.size, self._unit(memory)) for slot in slots]
        return Blocks(sizes, start, end, [self._alignment(slot, memory) for slot in slots])

    # --- Properties of a memory
    def _alignment(self, slot: _Slot, memory: MemoryType) -> int:
        constraint = self.constraints[memory]
        return max(constraint.slot_alignment(self.platform, m.dtype_alignment, m.alignment_hint) for m in slot.members)

    def _unit(self, memory: MemoryType) -> int:
        """Return the unit of slot sizes in bytes. Rounding to it makes peaks and lower bounds comparable."""
        return self.constraints[memory].slot_alignment(self.platform)

    def _capacity(self, plan: MemoryPlan, memory: MemoryType) -> int:
        limit = self.constraints[memory].max_size
        taken = sum(arenas[memory].used for arenas in map(plan.arenas, ArenaRole) if memory in arenas)
        return (packing.LIMIT if limit is None else limit) - taken

    def _describe_room(self, plan: MemoryPlan, memory: MemoryType) -> str:
        limit = self.constraints[memory].max_size
        return f"{memory!r}" + ("" if limit is None else f" ({self._capacity(plan, memory):,} of {limit:,} bytes left)")

    def _writable_from(self, slot: _Slot) -> tuple[MemoryType, ...]:
        """Return the memories that a slot may go to: its own, then those after it."""
        writable = self.platform.writable
        self._check_memory(slot, slot.attributes.memory, writable)
        return writable[writable.index(slot.attributes.memory) :]

    def _check_memory(self, slot: _Slot, memory: MemoryType, allowed: tuple[MemoryType, ...]) -> None:
        if memory not in allowed:
            raise InvalidArgument(f"{slot}: memory {memory!r}, expected {' or '.join(allowed)}")

    def _record(self, plan: MemoryPlan, slot: _Slot, memory: MemoryType, offset: int, source: MemoryType) -> None:
        for member in slot.members:
            binding = TensorBinding(member.role, memory, offset, source)
            plan.bind(member.tensor_id, binding, align_up(member.size, self._unit(memory)))
