"""Numbers the values of a graph level and lines up its steps: partitions, and the copies between memories around them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.execute.execute import Executable, Step
from ort_lite.execute.results import witnesses_of
from ort_lite.graph.graph import Value
from ort_lite.graph.types import MapType, OptionalType, SequenceType, Type
from ort_lite.partition.assignment import Hop, Level
from ort_lite.partition.borders import OUTPUT
from ort_lite.provider.ask import ask, who
from ort_lite.provider.provider import CPU, CompiledPartition, Device, ExecutionProvider, Partition
from ort_lite.record import Record, field

if TYPE_CHECKING:
    from ort_lite.compile.fallback import Fallback
    from ort_lite.compile.moving import AsyncMover
    from ort_lite.execute.donation import Donating


class DeviceSlots(Record):
    """The slots of a run that hold values which a user keeps on devices.

    An Executable for them takes, behind its inputs, the values of `inputs`, whose usual slots hold what tells their
    shapes alone; it gives `outputs` and no other, those with a provider in the memory of its device, the others on the CPU.
    `donations` has the inputs that may be donated, with the only output that may be computed there, or None for any use of the
    memory. If it is None itself, no step donates: the values of the run are used again in the next one.
    """

    inputs: Mapping[Value, Device] = field(default_factory=dict)
    outputs: Mapping[Value, ExecutionProvider | None] = field(default_factory=dict)
    donations: Mapping[Value, Value | None] | None = field(default_factory=dict)


class Linker:
    """Values have a slot on each device. Copies that do not block begin as soon as their value is there; the wait is a step."""

    def __init__(
        self,
        level: Level,
        captures: tuple[Value, ...],
        compiled: Mapping[str, CompiledPartition],
        device_slots: DeviceSlots | None = None,
    ) -> None:
        self.level, self.compiled, self.device_slots = level, compiled, device_slots
        inputs = (*level.graph.inputs, *captures)
        there = {} if device_slots is None else device_slots.inputs
        self.wanted: Mapping[Value, ExecutionProvider | None] = (
            {value: level.on_device.get(value) for value in level.graph.outputs}
            if device_slots is None
            else device_slots.outputs
        )
        self.outputs = tuple(level.graph.outputs) if device_slots is None else tuple(device_slots.outputs)
        homes = {value: provider.device for value, provider in level.on_device.items()}
        self.slots: dict[tuple[Value, Device], int] = {
            (v, homes.get(v, CPU)): k for k, v in enumerate(inputs) if v not in there
        }
        self.outer = tuple(value for value in inputs if value not in homes)
        """The inputs that tell sizes of other values."""
        self.shapes = {value: k for k, value in enumerate(inputs)}
        """The slots of what tells the shapes of inputs, wherever these are."""
        self.count = len(inputs)
        for value, device in there.items():
            self._new(value, device)
        self.given = (*inputs, *there)
        self.steps: list[Step] = []
        self.makers: dict[Value, str] = {}
        self.events: dict[Value, tuple[ExecutionProvider, int]] = {}
        """The slots of notifications for values whose device may still compute them, with the provider (see `HasEvents`)."""
        self.forgiving = _forgiving([p for p in level.partitions if p.provider.device != CPU], compiled)
        """Devices of partitions that have a next provider."""
        self.rescued: dict[Value, tuple[Fallback, int, list[int]]] = {}
        """What partitions with a next provider made on a device: the partition, which output, its slots."""
        self.begun: dict[tuple[Value, Device], tuple[AsyncMover, int, int]] = {}
        self.notifications: list[int] = []
        self.donating: dict[int, Donating] = {}
        """Partitions that take donations, by their place in the steps."""
        self.fresh: dict[int, ExecutionProvider | None] = {}
        """The slots of values on devices with memory of their own, and the provider whose partition made them; None for a copy."""
        self.readers = {p.name: p.provider for p in level.partitions}
        self._sort_copies()

    def _sort_copies(self) -> None:
        self.hops: dict[str, list[tuple[Value, Hop]]] = {}
        """What has to be where it is read, by reader."""
        self.early: dict[tuple[Value, Device], list[tuple[Hop, str]]] = {}
        """Copies that do not block, by the value that they wait for."""
        for each in self.level.copies:
            self.hops.setdefault(each.reader, []).extend((each.value, hop) for hop in each.hops)
            if self._is_async(each.hops[0]):
                self.early.setdefault((each.value, each.hops[0].source), []).append((each.hops[0], each.reader))

    def executable(self) -> Executable:
        """Return the linked steps as an Executable."""
        for value, device in list(self.slots):
            self._begin_copies(value, device)
        for partition in self.level.partitions:
            self._copies(partition.name)
            self._partition(partition)
        self._copies(OUTPUT)
        returned = tuple(self._result_slot(value) for value in self.outputs)
        steps = _with_deaths(self.steps, {slot for slot in returned if type(slot) is int})
        donated = frozenset[Value]()
        if self.donating:
            from ort_lite.compile.donating import choose_donations

            donated = choose_donations(steps, self.donating, self.fresh, self._donations())
        shares = (
            len(set(map(id, self.outputs))) < len(returned)
            or any(type(slot) is not int or slot < len(self.given) for slot in returned)
            or any(_holds_tensors(value.type) for value in self.outputs)
        )
        direct, picks = self._direct(steps, returned, shares)
        notifications = tuple(self.notifications)
        return Executable(self.given, self.outputs, steps, self.count, returned, shares, direct, picks, notifications, donated)

    def _partition(self, partition: Partition) -> None:
        place, label = partition.device_of, who(partition.provider)
        function = self.compiled[partition.name]
        device = partition.provider.device
        inputs = [self.slots[value, place(value)] for value in partition.inputs] + self._shapes_of(witnesses_of(function))
        recorded, donates = device != CPU and _records(function), False
        if device != CPU and self._may_donate():
            function, donates = self._donating(function)
        if self.forgiving and device != CPU:
            function = self._rescue(partition, function, inputs)
        read = [value for value in partition.inputs if place(value) == device]
        function = self._after(function, inputs, read, partition.provider, device)
        outputs = [self._new(value, place(value)) for value in partition.outputs]
        made = [value for value in partition.outputs if place(value) == device]
        if donates:
            self.fresh.update((self.slots[value, device], partition.provider) for value in made)
        if recorded:
            outputs.append(self._slot())
            self.events.update((value, (partition.provider, outputs[-1])) for value in made)
        self.makers.update((value, f"{partition.name} ({label})") for value in partition.outputs)
        self._step(partition.name, label, function, inputs, outputs)
        for value in partition.outputs:
            self._begin_copies(value, place(value))

    def _after(
        self,
        function: CompiledPartition,
        inputs: list[int],
        values: Sequence[Value],
        waiter: ExecutionProvider | None,
        device: Device,
    ) -> CompiledPartition:
        """Return a step that waits for other providers' work on the values that it reads on the device, whose events `inputs` get.

        The queue of `waiter` waits if it can, or else the host.
        """
        found = [self.events[value] for value in values if value in self.events]
        slots = list(dict.fromkeys(slot for maker, slot in found if maker is not waiter and maker.device == device))
        if not slots:
            return function
        from ort_lite.execute.recording import After

        inputs += slots
        return After(function, len(slots), waiter)

    def _owner(self, hop: Hop) -> ExecutionProvider | None:
        """Return the provider whose transfer makes the copy; None for one that waits on the host: a copy to the CPU."""
        if hop.destination == CPU:
            return None
        return next((p for p in self.readers.values() if ask(p, "data_transfer") is hop.transfer), None)

    def _rescue(self, partition: Partition, function: CompiledPartition, inputs: list[int]) -> CompiledPartition:
        """The partition where copies may fail; `inputs` get what of them is on the CPU too, for a next provider."""
        from ort_lite.compile.fallback import Fallback, Strict

        if not isinstance(function, Fallback):
            return Strict(function)
        if self.device_slots is not None:
            from copy import copy

            function = copy(function)  # elsewhere other values may be at home
        function.at_home = tuple(value for value in partition.inputs if (value, CPU) in self.slots)
        inputs += [self.slots[value, CPU] for value in function.at_home]
        made = enumerate(partition.outputs)
        self.rescued.update((value, (function, k, inputs)) for k, value in made if value not in partition.host_values)
        return function

    def _new(self, value: Value, device: Device) -> int:
        self.slots[value, device] = slot = self._slot()
        return slot

    def _slot(self) -> int:
        self.count += 1
        return self.count - 1

    def _step(
        self,
        name: str,
        provider: str,
        function: CompiledPartition,
        inputs: Sequence[int],
        outputs: Sequence[int],
        route: str = "",
    ) -> None:
        self.steps.append(Step(name, provider, function, tuple(inputs), tuple(outputs), (), route))

    def _copies(self, reader: str) -> None:
        for value, hop in self.hops.get(reader, ()):
            if (value, hop.destination) in self.slots:
                continue
            if self._is_async(hop):
                self._wait(value, hop, reader)
            else:
                self._copy(value, hop, reader)

    def _copy(self, value: Value, hop: Hop, reader: str) -> None:
        from ort_lite.compile.fallback import CarefulMover
        from ort_lite.compile.moving import Mover

        function: CompiledPartition = (mover := Mover(value, hop, *self._ends(value, reader), self.outer))
        given = [self.slots[value, hop.source], *self._shapes_of(mover.witnesses)]
        if self.forgiving:
            rescuer, index, slots = self.rescued.get(value, (None, 0, []))
            function = CarefulMover(mover, hop, len(given), rescuer, index, hop.destination in self.forgiving)
            given += slots
        function = self._after(function, given, [value], self._owner(hop), hop.source)
        self._end_copy(value, hop, reader, function, given)

    def _end_copy(self, value: Value, hop: Hop, reader: str, function: CompiledPartition, given: Sequence[int]) -> None:
        """Add the step that ends a copy."""
        slot = self._new(value, hop.destination)
        if hop.destination != CPU:
            self.fresh[slot] = None
        self._step(_copy_name(value, hop), reader, function, given, [slot], _route(hop))

    def _may_donate(self) -> bool:
        """Return False if a next provider may need the inputs again, or the caller keeps the values of the run."""
        return not self.forgiving and (self.device_slots is None or self.device_slots.donations is not None)

    def _donating(self, function: CompiledPartition) -> tuple[CompiledPartition, bool]:
        """Return the partition as one whose inputs may be donated, and True, if it takes donations."""
        from ort_lite.execute.donation import Donating, lending_of

        lending = lending_of(function)
        if lending is None or not lending.donates:
            return function, False
        self.donating[len(self.steps)] = donating = Donating(function, lending)
        return donating, True

    def _donations(self) -> dict[int, tuple[Value, Value | None]]:
        """Return the slots of inputs that may be donated, with the input and the only output that may be computed there."""
        there = self.device_slots
        if there is None:
            return {}
        return {self.slots[value, there.inputs[value]]: (value, only) for value, only in (there.donations or {}).items()}

    def _is_async(self, hop: Hop) -> bool:
        """Return False for a copy that blocks: a next provider may have to repeat it, or it reads converted elements."""
        converts = hop.narrows and hop.source == CPU
        return not self.forgiving and not converts and hasattr(hop.transfer, "copy_async")

    def _begin_copies(self, value: Value, device: Device) -> None:
        for hop, reader in self.early.get((value, device), ()):
            self._begin(value, hop, reader)

    def _begin(self, value: Value, hop: Hop, reader: str) -> "tuple[AsyncMover, int, int]":
        from ort_lite.compile.moving import AsyncMover

        found = self.begun.get((value, hop.destination))
        if found is None:
            mover = AsyncMover(value, hop, *self._ends(value, reader), self.outer)
            found = self.begun[value, hop.destination] = mover, self._slot(), self._slot()
            given, owner = [self.slots[value, hop.source]], self._owner(hop)
            begin = mover.begin if owner is None else self._after(mover.begin, given, [value], owner, hop.source)
            self._step(f"begin {_copy_name(value, hop)}", reader, begin, given, found[1:])
        return found

    def _wait(self, value: Value, hop: Hop, reader: str) -> None:
        """Add a step that waits for a copy, whose source is an input of the step and so lives until then."""
        mover, made, notification = self._begin(value, hop, reader)
        given = [made, notification, self.slots[value, hop.source], *self._shapes_of(mover.witnesses)]
        wait = mover.wait if hop.destination != CPU else self._after(mover.wait, given, [value], None, hop.source)
        self._end_copy(value, hop, reader, wait, given)
        self.notifications.append(notification)

    def _ends(self, value: Value, reader: str) -> tuple[str, ExecutionProvider | None]:
        """Return the producer of a value, for messages, and the provider that reads it."""
        provider = self.wanted.get(value) if reader == OUTPUT else self.readers[reader]
        return self.makers.get(value) or (provider.name if provider is not None else reader), provider

    def _shapes_of(self, values: Sequence[Value]) -> list[int]:
        return [self.shapes[value] for value in values]

    def _result_slot(self, value: Value) -> Any:
        provider = self.wanted[value]
        return self.slots.get((value, CPU if provider is None else provider.device), value.constant)

    def _direct(
        self, steps: Sequence[Step], returned: tuple[Any, ...], shares: bool
    ) -> tuple[CompiledPartition | None, tuple[int, ...] | None]:
        if len(steps) != 1 or shares or steps[0].outputs != returned:
            return None, None
        return steps[0].function, None if steps[0].inputs == tuple(range(len(self.given))) else steps[0].inputs


def _forgiving(away: Sequence[Partition], compiled: Mapping[str, CompiledPartition]) -> set[Device]:
    """The devices of those that have a next provider; `away` are the partitions that are not on the CPU."""
    if not away:
        return set()
    from ort_lite.compile.fallback import Fallback

    return {partition.provider.device for partition in away if isinstance(compiled[partition.name], Fallback)}


def _records(function: CompiledPartition) -> bool:
    """Return True if a notification follows the results of the partition's calls."""
    from ort_lite.execute.recording import RecordingPartition

    return isinstance(function, RecordingPartition) and not function.waits


def _copy_name(value: Value, hop: Hop) -> str:
    return f"copy {value.name!r} {_route(hop)}"


def _route(hop: Hop) -> str:
    return f"{hop.source} -> {hop.destination}"


def _with_deaths(steps: Sequence[Step], kept: set[Any]) -> tuple[Step, ...]:
    """Each slot that is not returned dies after the last step that names it."""
    done, seen = list[Step](), set(kept)
    for step in reversed(steps):
        dead = tuple(slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot not in seen)
        seen.update(dead)
        done.append(step.replace(dead=dead))
    return tuple(reversed(done))


def _holds_tensors(type_: Type | None) -> bool:
    """Return True for a sequence whose elements may be arrays that another value holds as well."""
    if isinstance(type_, OptionalType):
        return _holds_tensors(type_.element)
    return isinstance(type_, SequenceType) and not isinstance(type_.element, MapType)
