"""Stage 4: an Assignment becomes an Executable. Each provider compiles its partitions of a graph level in one call."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.compile.fusing import Fused, Fuser
from ort_lite.errors import CompileError, ProviderError, told
from ort_lite.execute.execute import CompiledBody, Executable, Step
from ort_lite.execute.guard import guarded
from ort_lite.execute.results import Expected, witnesses_of
from ort_lite.graph.graph import Graph, Value
from ort_lite.graph.types import MapType, OptionalType, SequenceType, Type
from ort_lite.options.policies import NEXT, Policy
from ort_lite.partition.assignment import Assignment, Hop, Level
from ort_lite.partition.borders import OUTPUT
from ort_lite.provider.abilities import tells_facts
from ort_lite.provider.ask import ask_made, who
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.provider import CPU, Body, CompiledPartition, Device, ExecutionProvider, Partition
from ort_lite.provider.unchanged import GraphChanged, unchanged
from ort_lite.record import Record, field

if TYPE_CHECKING:
    from ort_lite.compile.rescue import Rescuer

Guard = Callable[[Partition, CompiledPartition, Sequence[Value]], CompiledPartition]
"""What the executor calls in place of a compiled partition; the values are the inputs of its graph, captures included."""


class Compiled(Record):
    """The main graph, ready to run, and every compiled partition by name, those of bodies included."""

    executable: Executable
    partitions: Mapping[str, CompiledPartition]
    called: tuple[CompiledPartition, ...] = ()
    """What the executor calls: the partitions behind their guards (see `ort_lite.execute.guard`)."""
    fused: Mapping[str, Fused] = field(default_factory=dict)
    """By name, the partitions of which a provider compiled a fused copy."""

    def facts(self) -> dict[str, dict[str, int | str]]:
        """What compiled partitions say of themselves (see CompiledPartition), by partition."""
        return {name: dict(ask_made(p, "facts", name, Mapping)) for name, p in self.partitions.items() if tells_facts(p)}


class PartitionsFailed(CompileError):
    """Partitions of one provider and level that it could not compile, each with the reason."""

    def __init__(self, label: str, failed: Sequence[tuple[Partition, str]]) -> None:
        super().__init__("; ".join(dict.fromkeys(why for _, why in failed)))
        self.label, self.failed = label, tuple(failed)


class Compilations:
    """What was compiled for a session that is being made: partitions that are the same afterwards are not compiled again."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[Any, ...], tuple[Partition, CompiledPartition]] = {}
        self.fused: dict[int, Fused] = {}  # by the id of what was compiled, which lives in `partitions`
        self.bodies: dict[Graph, tuple[tuple[Any, ...], CompiledBody]] = {}

    def find(self, label: str, partition: Partition) -> CompiledPartition | None:
        known = self.partitions.get(_key(label, partition))
        return None if known is None else known[1]

    def keep(self, label: str, partition: Partition, compiled: CompiledPartition, fused: Fused | None) -> None:
        self.partitions[_key(label, partition)] = (partition, compiled)  # the partition keeps the ids of its bodies valid
        if fused is not None:
            self.fused[id(compiled)] = fused


def _key(label: str, partition: Partition) -> tuple[Any, ...]:
    reads = tuple((node.inputs, node.outputs) for node in partition.nodes)
    bodies = tuple((graph, id(body)) for graph, body in partition.bodies.items())
    return label, partition.nodes, partition.inputs, partition.outputs, reads, bodies


def compile_assignment(
    assignment: Assignment,
    policies: Mapping[str, Policy] | None = None,
    known: Compilations | None = None,
    guard: Guard = guarded,
    fuser: Fuser | None = None,
) -> Compiled:
    """Bodies before the graphs around them. Providers that want fusions get what `fuser` makes; None: the partitions as they are.
    Raises CompileError naming provider and partition.

    A provider whose policy is to go on when compiling fails is asked about each partition alone when a call fails, and
    PartitionsFailed names those that it cannot do.
    """
    known = known if known is not None else Compilations()
    bodies: dict[Graph, CompiledBody] = {}
    compiled: dict[str, CompiledPartition] = {}
    called: dict[str, CompiledPartition] = {}
    executable = None
    for level in reversed(assignment.levels):
        own = [_with_bodies(p, bodies) for p in level.partitions]
        for label, provider in assignment.providers.items():
            alone = policies is not None and policies[label].on_compile_error == NEXT
            theirs = [p for p in own if p.provider is provider]
            compiled.update(_compile_level(label, provider, theirs, bodies, known, alone, fuser))
        captures = tuple(value for value in level.graph.captures() if value.constant is None) if level.path else ()
        outer = (*level.graph.inputs, *captures)
        called.update((p.name, guard(p, compiled[p.name], outer)) for p in own)
        executable = _Linker(level, captures, called).executable()
        bodies[level.graph] = _body(known, level, CompiledBody(executable, captures), compiled)
    assert executable is not None, "an assignment has a level for the main graph"
    partitions = {p.name: compiled[p.name] for p in assignment.partitions}
    fused = {name: found for name, one in partitions.items() if (found := known.fused.get(id(one))) is not None}
    return Compiled(executable, partitions, tuple(called.values()), fused)


def _body(known: Compilations, level: Level, made: CompiledBody, compiled: Mapping[str, CompiledPartition]) -> CompiledBody:
    """The body that was made before, if it computes the same: then the partition around it is the same too. Its steps are those
    of today: names may differ.
    """
    copies = tuple((copy.value, copy.hops) for copy in level.copies)
    same = (tuple((p.inputs, p.outputs, id(compiled[p.name])) for p in level.partitions), copies)
    if level.graph not in known.bodies or known.bodies[level.graph][0] != same:
        known.bodies[level.graph] = (same, made)
    body = known.bodies[level.graph][1]
    body.relink(made.executable)
    return body


def _compile_level(
    label: str,
    provider: ExecutionProvider,
    partitions: Sequence[Partition],
    bodies: Mapping[Graph, CompiledBody],
    known: Compilations,
    alone: bool,
    fuser: Fuser | None,
) -> dict[str, CompiledPartition]:
    """The provider's partitions of a level, in one call as long as that works."""
    made = {p.name: found for p in partitions if (found := known.find(label, p)) is not None}
    new = [p for p in partitions if p.name not in made]
    if new:
        fused = [None if fuser is None else fuser.fused(p, bodies) for p in new]
        given = [p if copy is None else copy.partition for p, copy in zip(new, fused, strict=True)]
        results = _compiled_or_restored(label, provider, given, alone)
        for partition, copy, result in zip(new, fused, results, strict=True):
            if not isinstance(result, BaseException):
                if not callable(result):
                    raise ProviderError(f"{label} compiled {partition.name} to {result!r}; expected a callable")
                known.keep(label, partition, result, copy)
                made[partition.name] = result
        failed = [(p, r) for p, r in zip(new, results, strict=True) if isinstance(r, BaseException)]
        if failed:
            reasons = [(p, f"{label} could not compile {p.name}: {told(r)}") for p, r in failed]
            raise PartitionsFailed(label, reasons) from failed[0][1]
    return {p.name: made[p.name] for p in partitions}


def _compiled_or_restored(
    label: str, provider: ExecutionProvider, partitions: Sequence[Partition], alone: bool
) -> list[CompiledPartition | BaseException]:
    """Partitions of an EPContext node are compiled already."""
    made = {p.name: _restored(label, p) for p in partitions if is_context(p.nodes[0])}
    rest = [p for p in partitions if p.name not in made]
    if rest:
        compiled = _compile(label, provider, rest, alone and len(rest) > 1)
        made.update(zip([p.name for p in rest], compiled, strict=True))
    return [made[p.name] for p in partitions]


def _restored(label: str, partition: Partition) -> CompiledPartition | BaseException:
    from ort_lite.compile.restore import restored

    try:
        return restored(label, partition)
    except Exception as error:  # noqa: BLE001  an exception in a result's place, as from `compile`
        return error


def _compile(
    label: str, provider: ExecutionProvider, partitions: Sequence[Partition], alone: bool
) -> list[CompiledPartition | BaseException]:
    """A result for each. When the call fails: each in a call of its own (`alone`), or PartitionsFailed naming all."""
    names = ", ".join(p.name for p in partitions)
    try:
        with unchanged(provider, "compile", dict.fromkeys(p.nodes[0].graph for p in partitions), label):
            compiled: list[CompiledPartition | BaseException] = list(provider.compile(partitions))
    except GraphChanged:
        raise
    except Exception as error:
        if alone:
            return [result for p in partitions for result in _caught(label, provider, p)]
        why = f"{label} could not compile {names}: {told(error)}"
        raise PartitionsFailed(label, [(p, why) for p in partitions]) from error
    if len(compiled) != len(partitions):
        raise ProviderError(f"{label} compiled {len(partitions)} partitions ({names}) to {len(compiled)}")
    return compiled


def _caught(label: str, provider: ExecutionProvider, partition: Partition) -> list[CompiledPartition | BaseException]:
    try:
        return _compile(label, provider, [partition], False)
    except PartitionsFailed as error:
        return [error.__cause__ or error]


def _with_bodies(partition: Partition, bodies: Mapping[Graph, CompiledBody]) -> Partition:
    """What a provider that is not `exact` calls its bodies with is looked at: native code may be inside."""
    inside: dict[Graph, Body] = {}
    for graph in (body for node in partition.nodes for body in node.subgraphs() if body in bodies):
        body = inside[graph] = bodies[graph]
        wanted = (*graph.inputs, *body.captures)
        verb = f"called its body {graph.name!r} with"
        body.expected = (
            None if partition.provider.exact else Expected(f"{partition.name} ({_label(partition)})", wanted, verb=verb)
        )
    return partition.replace(bodies=inside) if inside else partition


def _holds_tensors(type_: Type | None) -> bool:
    """Whether it is a sequence whose elements may be arrays that another value holds too."""
    if isinstance(type_, OptionalType):
        return _holds_tensors(type_.element)
    return isinstance(type_, SequenceType) and not isinstance(type_.element, MapType)


class _Linker:
    """Numbers the values of a level, device by device, and lines up its steps."""

    def __init__(self, level: Level, captures: tuple[Value, ...], compiled: Mapping[str, CompiledPartition]) -> None:
        self.level, self.compiled = level, compiled
        self.inputs = (*level.graph.inputs, *captures)
        self.slots: dict[tuple[Value, Device], int] = {(value, CPU): k for k, value in enumerate(self.inputs)}
        self.count = len(self.inputs)
        self.steps: list[Step] = []
        self.makers: dict[Value, str] = {}
        self.hops: dict[str, list[tuple[Value, Hop]]] = {}
        self.forgiving = _forgiving([p for p in level.partitions if p.provider.device != CPU], compiled)
        """Devices of partitions that have a next provider."""
        self.rescued: dict[Value, tuple[Rescuer, int, list[int]]] = {}
        """What partitions with a next provider made on a device: the partition, which output, its slots."""
        for copy in level.copies:
            self.hops.setdefault(copy.reader, []).extend((copy.value, hop) for hop in copy.hops)

    def executable(self) -> Executable:
        for partition in self.level.partitions:
            self._copies(partition.name, partition.provider)
            device = partition.provider.device
            function = self.compiled[partition.name]
            inputs = [self.slots[value, device] for value in partition.inputs] + self._slots_of(witnesses_of(function))
            if self.forgiving and device != CPU:
                function = self._rescued(partition, function, inputs)
            outputs = [self._new(value, device) for value in partition.outputs]
            self.makers.update((value, f"{partition.name} ({_label(partition)})") for value in partition.outputs)
            self._step(partition.name, _label(partition), function, inputs, outputs)
        self._copies(OUTPUT)
        returned = tuple(self._returned(value) for value in self.level.graph.outputs)
        steps = _with_deaths(self.steps, {slot for slot in returned if type(slot) is int})
        wanted = self.level.graph.outputs
        shares = (
            len(set(map(id, wanted))) < len(returned)
            or any(type(slot) is not int or slot < len(self.inputs) for slot in returned)
            or any(_holds_tensors(value.type) for value in wanted)
        )
        direct, picks = self._direct(steps, returned, shares)
        return Executable(self.inputs, wanted, steps, self.count, returned, shares, direct, picks)

    def _rescued(self, partition: Partition, function: CompiledPartition, inputs: list[int]) -> CompiledPartition:
        """The partition where copies may fail; `inputs` get what of them is on the CPU too, for a next provider."""
        from ort_lite.compile.rescue import Rescuer, Strict

        if not isinstance(function, Rescuer):
            return Strict(function)
        function.at_home = tuple(value for value in partition.inputs if (value, CPU) in self.slots)
        inputs += self._slots_of(function.at_home)
        self.rescued.update((value, (function, k, inputs)) for k, value in enumerate(partition.outputs))
        return function

    def _new(self, value: Value, device: Device) -> int:
        self.slots[value, device] = slot = self.count
        self.count += 1
        return slot

    def _step(
        self, name: str, provider: str, function: CompiledPartition, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        self.steps.append(Step(name, provider, function, tuple(inputs), tuple(outputs), ()))

    def _copies(self, reader: str, provider: ExecutionProvider | None = None) -> None:
        if reader not in self.hops:
            return
        from ort_lite.compile.moving import Mover
        from ort_lite.compile.rescue import CarefulMover

        for value, hop in self.hops[reader]:
            if (value, hop.destination) not in self.slots:
                maker = self.makers.get(value) or (provider.name if provider is not None else reader)
                source, name = self.slots[value, hop.source], f"copy {value.name!r} {hop.source} -> {hop.destination}"
                function: CompiledPartition = (mover := Mover(value, hop, maker, provider, self.inputs))
                given = [source, *self._slots_of(mover.witnesses)]
                if self.forgiving:
                    rescuer, index, slots = self.rescued.get(value, (None, 0, []))
                    function = CarefulMover(mover, hop, len(given), rescuer, index, hop.destination in self.forgiving)
                    given += slots
                self._step(name, reader, function, given, [self._new(value, hop.destination)])

    def _slots_of(self, values: Sequence[Value]) -> list[int]:
        return [self.slots[value, CPU] for value in values]

    def _returned(self, value: Value) -> Any:
        return self.slots.get((value, CPU), value.constant)

    def _direct(
        self, steps: Sequence[Step], returned: tuple[Any, ...], shares: bool
    ) -> tuple[CompiledPartition | None, tuple[int, ...] | None]:
        if len(steps) != 1 or shares or steps[0].outputs != returned:
            return None, None
        return steps[0].function, None if steps[0].inputs == tuple(range(len(self.inputs))) else steps[0].inputs


def _forgiving(away: Sequence[Partition], compiled: Mapping[str, CompiledPartition]) -> set[Device]:
    """The devices of those that have a next provider; `away` are the partitions that are not on the CPU."""
    if not away:
        return set()
    from ort_lite.compile.rescue import Rescuer

    return {partition.provider.device for partition in away if isinstance(compiled[partition.name], Rescuer)}


def _label(partition: Partition) -> str:
    return who(partition.provider)


def _with_deaths(steps: Sequence[Step], kept: set[Any]) -> tuple[Step, ...]:
    """Each slot that is not returned dies after the last step that names it."""
    done, seen = list[Step](), set(kept)
    for step in reversed(steps):
        dead = tuple(slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot not in seen)
        seen.update(dead)
        done.append(step.replace(dead=dead))
    return tuple(reversed(done))
