"""The places of tensors during a program: slots, the copies of them that come and go, and the moves between both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.lifetimes import TensorId, TensorLifetime, alias_classes
from ort_lite.memory.planning.placement import MemoryWindow
from ort_lite.memory.planning.plan import MemoryPlan, TensorBinding, TensorMove
from ort_lite.memory.planning.requests import ArenaRole, MemoryType, TensorAttributes, TensorRequest


@dataclass(frozen=True, slots=True)
class Slot:
    """An alias class to be placed; all members have the same role and attributes."""

    members: tuple[TensorRequest, ...]
    lifetime: TensorLifetime
    size: int

    def __str__(self) -> str:
        return f"{self.role} tensor {self.name!r} ({self.size:,} bytes)"

    @property
    def name(self) -> TensorId:
        """The first member's name."""
        return self.members[0].tensor_id

    @property
    def role(self) -> ArenaRole:
        """The role of its arena."""
        return self.members[0].role

    @property
    def attributes(self) -> TensorAttributes:
        """The attributes of all members."""
        return self.members[0].attributes

    @property
    def memory(self) -> MemoryType:
        """The memory that it is first tried in, and from which kernels read it if it is a constant."""
        return self.attributes.constant_destination_memory or self.attributes.memory

    @property
    def is_stored(self) -> bool:
        """True if its place does not depend on the scratch: a constant, or a tensor of the caller's."""
        return self.role is not ArenaRole.scratch or bool(self.members[0].outside)

    @property
    def is_computed(self) -> bool:
        """True if its bytes are not there before its first access."""
        return self.role is ArenaRole.scratch and self.members[0].outside != "input"

    @property
    def uses(self) -> tuple[int, ...]:
        """The operators that use a member, ascending."""
        return tuple(sorted({use for member in self.members for use in member.uses}))

    @property
    def accesses(self) -> tuple[int, ...]:
        """The operators at which its bytes are read or written: its uses, and for scratch both ends of its lifetime."""
        ends = () if self.is_stored else (self.lifetime.start_op, self.lifetime.end_op)
        return tuple(sorted({*self.uses, *ends}))


def slots_of(
    requests: Mapping[TensorId, TensorRequest],
    lifetimes: Mapping[TensorId, TensorLifetime],
    aliases: Iterable[Iterable[TensorId]],
) -> list[Slot]:
    """Return the slots of tensors. Constants and persistent tensors without a lifetime live throughout the program."""
    used = {r.tensor_id: TensorLifetime(r.tensor_id, min(r.uses), max(r.uses)) for r in requests.values() if r.uses}
    stated = [*lifetimes.values(), *used.values()]
    first = min((lifetime.start_op for lifetime in stated), default=0)
    last = max((lifetime.end_op for lifetime in stated), default=0)
    known = {
        tensor: TensorLifetime(tensor, first, last)
        for tensor, request in requests.items()
        if request.role is not ArenaRole.scratch
    }
    known.update({tensor: life for tensor, life in used.items() if tensor not in known})
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
        slots.append(Slot(members, group.lifetime, group.size))
    return slots


@dataclass(frozen=True, slots=True)
class Home:
    """The operators during which a slot needs a place of its own, in one of `choices`. It may be split at the slot's uses.

    `is_rest`: parts are in other memories, and `choices` leaves out those that kernels cannot use if they use this part.
    """

    slot: Slot
    first: int
    last: int
    choices: tuple[MemoryType, ...]
    is_whole: bool
    is_rest: bool = False

    @classmethod
    def of(cls, slot: Slot, choices: tuple[MemoryType, ...]) -> "Home":
        """Return the home of a slot for its whole lifetime."""
        is_whole = not slot.uses or len(slot.members) > 1 or (len(choices) == 1 and not slot.is_stored)
        return cls(slot, slot.lifetime.start_op, slot.lifetime.end_op, choices, is_whole)

    @property
    def accesses(self) -> tuple[int, ...]:
        """The operators between which it may leave its memory."""
        return (self.first, self.last) if self.is_whole else self.slot.accesses

    def rest(self, windows: Sequence[MemoryWindow], memory: MemoryType, remote: frozenset[MemoryType]) -> "Home | None":
        """Return the home that is left with these windows in `memory`, or None. Ends with the last access or copy elsewhere."""
        if any(window[1:] == (self.first, self.last) for window in windows):
            return None
        elsewhere = [a for a in self.accesses if not any(window.first <= a <= window.last for window in windows)]
        is_first = bool(windows) and windows[0].first == self.first
        first = windows[0].last if is_first else self.first
        read = [window.first - 1 for window in windows[is_first:]]
        excluded = {memory, *(remote if elsewhere and not self.is_rest else ())}
        choices = tuple(name for name in self.choices if name not in excluded)
        last = max([first, *elsewhere, *read])
        return replace(self, first=first, last=last, choices=choices, is_whole=True, is_rest=True)


def keep_copy(plan: MemoryPlan, slot: Slot, binding: TensorBinding, size: int, first: int, last: int) -> None:
    """Enter a copy of a slot into a plan, for the operators `first` to `last`, both inclusive."""
    copy = copy_name(slot, binding.memory, first)
    plan.bind(copy, binding, size)
    plan.tensor_lifetimes[copy] = TensorLifetime(copy, first, last)
    plan.copies[copy] = slot.name


def copy_name(slot: Slot, memory: MemoryType, first: int) -> TensorId:
    """Return the name of the allocation of a copy that is there from operator `first`."""
    return f"{slot.name} in {memory} from op {first}"


def moves_of(
    plan: MemoryPlan, slot: Slot, memory: MemoryType, windows: Sequence[MemoryWindow]
) -> list[tuple[bool, TensorMove]]:
    """Return the moves to and from the copies of a slot in `memory`, each with True if it is into the copy."""
    home = slot.attributes.memory if slot.name in plan.outside else plan.tensor_allocs[slot.name].memory
    moves = []
    for window in windows:
        copy = copy_name(slot, memory, window.first)
        if slot.is_computed and window.first == slot.lifetime.start_op:
            moves.append((False, TensorMove(slot.name, window.last + 1, copy, slot.name, memory, home, slot.size)))
        else:
            moves.append((True, TensorMove(slot.name, window.first, slot.name, copy, home, memory, slot.size)))
    return moves


def in_order(moves: Sequence[tuple[bool, TensorMove]]) -> tuple[TensorMove, ...]:
    """Return the moves by operator: of one operator, first those out of copies, whose bytes others may then take."""
    return tuple(move for _, move in sorted(moves, key=lambda each: (each[1].step, each[0])))


def accesses_of(plan: MemoryPlan, requests: Iterable[TensorRequest]) -> dict[MemoryType, int]:
    """Return the bytes that the operators of a run read and write, by memory."""
    found: dict[MemoryType, int] = {}
    for one in requests:
        for use in one.uses:
            slot = plan.allocation_at(one.tensor_id, use)
            memory = one.attributes.memory if slot is None else slot.memory
            found[memory] = found.get(memory, 0) + one.size
    return found
