"""Plans for tensors of all roles in a device's memories. A planner packs the scratch; everything else is placed here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.planning import packing
from ort_lite.memory.planning.checker import check
from ort_lite.memory.planning.lifetimes import TensorId, TensorLifetime
from ort_lite.memory.planning.placement import Crowded, MemoryWindow, TensorCandidate, place
from ort_lite.memory.planning.plan import ArenaUsage, MemoryPlan, TensorBinding, TensorMove
from ort_lite.memory.planning.planner import MemoryPlanner
from ort_lite.memory.planning.requests import (
    ArenaRole,
    Memory,
    MemoryConstraint,
    MemoryType,
    Platform,
    TensorAttributes,
    TensorRequest,
    align_up,
)
from ort_lite.memory.planning.stays import Home, Slot, accesses_of, in_order, keep_copy, moves_of, slots_of
from ort_lite.memory.planning.use_check import check_uses

Stays = list[tuple[MemoryWindow, int]]
"""When a tensor is in a memory, and at which offsets."""


class _Homeless(OutOfMemory):
    """An error: scratch tensors have no place in any memory."""

    def __init__(self, message: str, names: Iterable[TensorId]) -> None:
        super().__init__(message)
        self.names = frozenset(names)


class Memories:
    """The memories of a platform, with limits. `plan` appends constants, then persistent tensors, and packs scratch last.

    A scratch or persistent tensor that does not fit into the rest of its memory (see `max_size`) goes to the platform's next
    writable memory. A scratch tensor that states its uses may be in its memory between some of them and move. The first memory also
    gets copies of other tensors while that saves accesses, and copies of constants in the room that is left. Stateless: many threads
    may plan at once.
    """

    def __init__(self, platform: Platform | None = None, constraints: Iterable[MemoryConstraint] = ()) -> None:
        self.platform = platform or Platform()
        self.constraints = {name: MemoryConstraint(name) for name in (*self.platform.writable, *self.platform.read_only)}
        for constraint in constraints:
            if constraint.name not in self.constraints:
                raise InvalidArgument(f"MemoryConstraint {constraint.name!r}: expected one of {', '.join(self.constraints)}")
            self.constraints[constraint.name] = constraint
        self.declared = {name: Memory(name, one.max_size) for name, one in self.constraints.items()}

    @property
    def _remote(self) -> frozenset[MemoryType]:
        return frozenset(name for name, memory in self.declared.items() if memory.remote)

    @classmethod
    def of(cls, memories: Sequence[Memory], min_alignment: int = 16) -> "Memories":
        """Return the memories that a provider declares, the fastest first. Raises InvalidArgument for another order."""
        for before, after in pairwise(memory for memory in memories if memory.bandwidth):
            if after.bandwidth > before.bandwidth:
                raise InvalidArgument(f"memory {after} is faster than {before} before it: expected the fastest first")
        constant = frozenset({ArenaRole.constant})
        written = [memory for memory in memories if memory.roles != constant]
        if not written or written[0].remote:
            names = ", ".join(map(str, memories))
            raise InvalidArgument(
                f"memories {names}: expected that kernels can write to the first that is not for constants alone"
            )
        writable = tuple(memory.name for memory in written)
        read_only = tuple(memory.name for memory in memories if memory.roles == constant)
        limits = [MemoryConstraint(memory.name, memory.size, memory.alignment) for memory in memories]
        made = cls(Platform(writable, read_only, min_alignment), limits)
        made.declared = {memory.name: memory for memory in memories}
        return made

    def attributes(self, role: ArenaRole) -> TensorAttributes:
        """Return the memory for tensors of a role: the first that may hold it, or for constants the last.

        Constants in a remote memory for constants alone are copied once to the slowest memory where kernels can read them, except
        the first, which holds what is used most. Raises InvalidArgument if no memory may hold the role.
        """
        found = [name for name, memory in self.declared.items() if role in memory.roles]
        if not found:
            raise InvalidArgument(f"{', '.join(map(str, self.declared.values()))}: none may hold {role} tensors")
        if role is not ArenaRole.constant:
            return TensorAttributes(found[0])
        readable = [name for name in found if name in self.platform.writable[1:] and name not in self._remote]
        is_stored = found[-1] in self._remote and found[-1] in self.platform.read_only
        return TensorAttributes(found[-1], readable[-1] if is_stored and readable else None)

    @property
    def of_caller(self) -> TensorAttributes:
        """The memory in which the caller's inputs and outputs are: the last that is writable."""
        return TensorAttributes(self.platform.writable[-1])

    def plan(
        self,
        planner: MemoryPlanner,
        tensors: Iterable[TensorRequest],
        lifetimes: Mapping[TensorId, TensorLifetime],
        aliases: Iterable[Iterable[TensorId]] = (),
    ) -> MemoryPlan:
        """Return a plan for all tensors, checked by `checker.check`. `planner` packs the scratch of each memory.

        `aliases` are groups of tensors that share bytes. Scratch without a lifetime lives from its first use to its last, constants
        and persistent tensors throughout the program. Raises InvalidArgument for contradictory tensors, attributes or groups,
        InvalidPlan for unsafe results of the planner, and OutOfMemory naming the capacities that were tried.
        """
        requests: dict[TensorId, TensorRequest] = {}
        for tensor in tensors:
            if tensor.tensor_id in requests:
                raise InvalidArgument(f"tensor {tensor.tensor_id!r} is asked for twice, expected every tensor once")
            requests[tensor.tensor_id] = tensor
        slots = slots_of(requests, lifetimes, aliases)
        plan = self._place(planner, slots)
        for arena in (*plan.constant_arenas.values(), *plan.persistent_arenas.values()):
            arena.total_size = arena.used
        named = [tensor for tensor in requests if tensor in plan.tensor_allocs]
        slots_by_name = {tensor: plan.tensor_allocs[tensor] for tensor in (*named, *plan.copies)}
        plan = replace(plan, tensor_allocs=slots_by_name, accesses=accesses_of(plan, requests.values()), memories=self.declared)
        check(plan)
        check_uses(plan, requests.values(), self._remote)
        return plan

    def _place(self, planner: MemoryPlanner, slots: Sequence[Slot]) -> MemoryPlan:
        """Place slots. Tensors that found no memory are tried again, with all their uses in the first one."""
        forced: frozenset[TensorId] = frozenset()
        while True:
            plan = self._place_stored_tensors(planner, slots)
            try:
                moves = self._place_scratch(planner, plan, slots, forced)
            except _Homeless as error:
                if not self._remote or error.names <= forced:
                    raise OutOfMemory(str(error)) from None
                forced |= error.names
            else:
                return replace(plan, moves=moves)

    def _place_stored_tensors(self, planner: MemoryPlanner, slots: Sequence[Slot]) -> MemoryPlan:
        """Return a plan that has places for constants and persistent tensors only."""
        inside = [slot for slot in slots if not slot.members[0].outside]
        plan = MemoryPlan(
            tensor_lifetimes={
                member.tensor_id: replace(slot.lifetime, tensor_id=member.tensor_id)
                for slot in inside
                for member in slot.members
            },
            aliases={m.tensor_id: slot.name for slot in slots for m in slot.members[1:]},
            planner=planner.name,
            outside={slot.name: slot.attributes.memory for slot in slots if slot.members[0].outside},
        )
        for slot in inside:
            if slot.role is ArenaRole.constant:
                self._place_constant(plan, slot)
        for slot in inside:
            if slot.role is ArenaRole.persistent:
                self._place_persistent(plan, slot)
        return plan

    # --- Arenas that only grow
    def _place_constant(self, plan: MemoryPlan, slot: Slot) -> None:
        source, destination = slot.attributes.memory, slot.attributes.constant_destination_memory
        if destination is not None and destination not in self.platform.writable:
            raise InvalidArgument(
                f"{slot}: constant_destination_memory {destination!r} is not writable, expected "
                f"{' or '.join(self.platform.writable)}, or None to read it in place"
            )
        memory = slot.memory
        self._check_memory(slot, source, tuple(self.constraints))
        arena = plan.constant_arenas.get(memory)
        if arena is not None and arena.source_memory != source:
            raise InvalidArgument(
                f"{slot} comes from {source!r}, but {arena} is filled from {arena.source_memory!r}: expected one source "
                "for all constants of a memory; give it another constant_destination_memory"
            )
        if not self._append(plan, slot, memory, source):
            raise OutOfMemory(f"{slot} does not fit {self._describe_room(plan, memory)}; raise its limit or move it")

    def _place_persistent(self, plan: MemoryPlan, slot: Slot) -> None:
        memories = self._writable_from(slot)
        if not any(self._append(plan, slot, memory, memory) for memory in memories):
            tried = ", ".join(self._describe_room(plan, memory) for memory in memories)
            raise OutOfMemory(f"{slot} does not fit {tried}; raise a limit or add a memory")

    def _append(self, plan: MemoryPlan, slot: Slot, memory: MemoryType, source: MemoryType) -> bool:
        """Append a slot to the arena of its role. Return False if the memory has no room."""
        offset = self._reserve(plan, slot, memory, source)
        if offset is not None:
            self._record(plan, slot, memory, offset, source)
        return offset is not None

    def _reserve(self, plan: MemoryPlan, slot: Slot, memory: MemoryType, source: MemoryType) -> int | None:
        """Return the offset of new bytes at the end of the arena of a slot's role, or None if the memory has no room."""
        role = slot.role
        alignment, unit = self._alignment(slot, memory), self._unit(memory)
        used = plan.arenas(role)[memory].used if memory in plan.arenas(role) else 0
        size = align_up(slot.size, unit)
        if align_up(used, alignment) - used + size > self._capacity(plan, memory):
            return None
        arena = plan.arenas(role).setdefault(memory, ArenaUsage(memory, packing.LIMIT, 0, role, source))
        return arena.allocate(size, alignment)

    # --- Scratch
    def _place_scratch(
        self, planner: MemoryPlanner, plan: MemoryPlan, slots: Sequence[Slot], forced: frozenset[TensorId]
    ) -> tuple[TensorMove, ...]:
        """Place scratch, memory by memory, and copies in the first of them, where the `forced` are used. Return the moves."""
        waiting = [Home.of(slot, self._writable_from(slot)) for slot in slots if not slot.is_stored]
        stored = [Home.of(slot, ()) for slot in slots if slot.is_stored and slot.uses]
        copies: list[tuple[Slot, MemoryType, list[MemoryWindow]]] = []
        tried = []
        for memory in self.platform.writable:
            here = [home for home in waiting if memory in home.choices]
            here += [home for home in stored if self._may_copy(home.slot, memory)]
            stored = []
            if here:
                tried.append(self._describe_room(plan, memory))
                found = self._windows(planner, plan, here, memory, forced)
                self._stage(plan, here, found, memory)
                left = {home.slot.name: self._settle(plan, home, memory, found[home.slot.name]) for home in here}
                copied = [home.slot for home in here if home.slot.is_stored or left[home.slot.name]]
                copies += [(slot, memory, [window for window, _ in found[slot.name]]) for slot in copied]
                waiting = [home for home in waiting if memory not in home.choices] + [home for home in left.values() if home]
        if waiting:
            names = ", ".join(str(home.slot) for home in waiting[:3]) + (", ..." if len(waiting) > 3 else "")
            message = f"{len(waiting)} tensors do not fit {', '.join(tried)}: {names}; raise a limit or add a memory"
            raise _Homeless(message, (home.slot.name for home in waiting))
        return in_order([move for slot, memory, windows in copies for move in moves_of(plan, slot, memory, windows)])

    def _windows(
        self,
        planner: MemoryPlanner,
        plan: MemoryPlan,
        here: Sequence[Home],
        memory: MemoryType,
        forced: frozenset[TensorId],
    ) -> dict[TensorId, Stays]:
        """Choose what is in a memory, and open its arena for that. Return the windows of each slot."""
        candidates = [self._candidate(home, memory, home.slot.name in forced) for home in here]
        try:
            found = place(planner, candidates, self._capacity(plan, memory))
        except Crowded as crowd:
            largest = max((home.slot for home in here if home.slot.name in crowd.names), key=lambda slot: slot.size)
            raise OutOfMemory(
                f"operator {crowd.operator} uses {crowd.size:,} bytes at once, which do not fit {self._describe_room(plan, memory)}: "
                f"{largest} is the largest of {len(crowd.names)} tensors; raise the limit"
            ) from None
        peak = max((offset + candidates[window.candidate].size for window, offset in found), default=0)
        plan.arena_usages[memory] = ArenaUsage(memory, peak, peak, ArenaRole.scratch, memory)
        windows: dict[TensorId, Stays] = {home.slot.name: [] for home in here}
        for window, offset in found:
            windows[candidates[window.candidate].name].append((window, offset))
        return windows

    def _candidate(self, home: Home, memory: MemoryType, is_forced: bool) -> TensorCandidate:
        slot = home.slot
        others = {slot.memory} if slot.is_stored else {*home.choices} - {memory}
        is_needed = not home.is_rest and (is_forced or (bool(others) and others <= self._remote))
        size, alignment = align_up(slot.size, self._unit(memory)), self._alignment(slot, memory)
        needed = frozenset(slot.uses if is_needed else ())
        return TensorCandidate(slot.name, size, alignment, home.accesses, needed, home.is_whole, slot.is_stored)

    def _stage(self, plan: MemoryPlan, here: Sequence[Home], found: dict[TensorId, Stays], memory: MemoryType) -> None:
        """Stage constants in the room that scratch leaves, those with most uses first. They need no windows in `found` then."""
        constants = [home.slot for home in here if home.slot.role is ArenaRole.constant]
        for slot in sorted(constants, key=lambda slot: (-len(slot.uses), -slot.size)):
            source, arena = slot.attributes.memory, plan.constant_arenas.get(memory)
            if arena is None or arena.source_memory == source:
                offset = self._reserve(plan, slot, memory, source)
                if offset is not None:
                    binding = TensorBinding(slot.role, memory, offset, source)
                    size, life = align_up(slot.size, self._unit(memory)), slot.lifetime
                    keep_copy(plan, slot, binding, size, life.start_op, life.end_op)
                    found[slot.name] = []

    def _settle(self, plan: MemoryPlan, home: Home, memory: MemoryType, stays: Stays) -> Home | None:
        """Enter the windows of a slot into the plan, or its home if one window is all of it. Return the home that is left."""
        slot = home.slot
        left = home.rest([window for window, _ in stays], memory, self._remote)
        if left is None and not slot.is_stored:
            self._record(plan, slot, memory, stays[0][1], memory)
            for member in slot.members:
                plan.tensor_lifetimes[member.tensor_id] = TensorLifetime(member.tensor_id, home.first, home.last)
            return None
        for window, offset in stays:
            binding = TensorBinding(ArenaRole.scratch, memory, offset, memory)
            keep_copy(plan, slot, binding, align_up(slot.size, self._unit(memory)), window.first, window.last)
        return None if slot.is_stored else left

    # --- Properties of a memory
    def _alignment(self, slot: Slot, memory: MemoryType) -> int:
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

    def _writable_from(self, slot: Slot) -> tuple[MemoryType, ...]:
        """Return the memories that a slot may go to: its own, then those after it."""
        writable = self.platform.writable
        self._check_memory(slot, slot.attributes.memory, writable)
        after = writable[writable.index(slot.attributes.memory) :]
        allowed = tuple(name for name in after if slot.role in self.declared[name].roles)
        return tuple(name for name in allowed if name not in self._remote) if slot.role is ArenaRole.persistent else allowed

    def _may_copy(self, slot: Slot, memory: MemoryType) -> bool:
        """Return True if copies of a stored slot may live in a memory. Persistent tensors have none: they are written."""
        is_allowed = memory != slot.memory and slot.role in self.declared[memory].roles
        return is_allowed and slot.role is not ArenaRole.persistent and memory not in self._remote

    def _check_memory(self, slot: Slot, memory: MemoryType, allowed: tuple[MemoryType, ...]) -> None:
        if memory not in allowed:
            raise InvalidArgument(f"{slot}: memory {memory!r}, expected {' or '.join(allowed)}")

    def _record(self, plan: MemoryPlan, slot: Slot, memory: MemoryType, offset: int, source: MemoryType) -> None:
        for member in slot.members:
            binding = TensorBinding(member.role, memory, offset, source)
            plan.bind(member.tensor_id, binding, align_up(member.size, self._unit(memory)))
