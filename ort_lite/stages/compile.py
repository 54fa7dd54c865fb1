"""Stage 4: an Assignment becomes an Executable. Each provider compiles its partitions of a graph level in one call."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ort_lite.errors import CompileError, ProviderError
from ort_lite.graph import Graph, MapType, SequenceType, Type, Value
from ort_lite.provider import CPU, Body, CompiledPartition, Device, ExecutionProvider, Partition
from ort_lite.record import Record
from ort_lite.stages.assignment import Assignment, Hop, Level
from ort_lite.stages.borders import OUTPUT
from ort_lite.stages.execute import CompiledBody, Executable, Step


class Compiled(Record):
    """The main graph, ready to run, and every compiled partition by name, those of bodies included."""

    executable: Executable
    partitions: Mapping[str, CompiledPartition]

    def facts(self) -> dict[str, dict[str, int | str]]:
        """What compiled partitions say of themselves (see CompiledPartition), by partition."""
        return {name: dict(p.facts()) for name, p in self.partitions.items() if hasattr(p, "facts")}


def compile_assignment(assignment: Assignment) -> Compiled:
    """Bodies before the graphs around them. Raises CompileError naming provider and partition."""
    bodies: dict[Graph, CompiledBody] = {}
    compiled: dict[str, CompiledPartition] = {}
    executable = None
    for level in reversed(assignment.levels):
        for label, provider in assignment.providers.items():
            compiled.update(_compile_level(label, provider, level, bodies))
        captures = tuple(value for value in level.graph.captures() if value.constant is None) if level.path else ()
        executable = _Linker(level, captures, compiled).executable()
        bodies[level.graph] = CompiledBody(executable, captures)
    assert executable is not None, "an assignment has a level for the main graph"
    return Compiled(executable, {p.name: compiled[p.name] for p in assignment.partitions})


def _compile_level(
    label: str, provider: ExecutionProvider, level: Level, bodies: Mapping[Graph, CompiledBody]
) -> dict[str, CompiledPartition]:
    partitions = [_with_bodies(p, bodies) for p in level.partitions if p.provider is provider]
    if not partitions:
        return {}
    names = ", ".join(p.name for p in partitions)
    try:
        compiled = list(provider.compile(partitions))
    except Exception as error:
        raise CompileError(f"{label} could not compile {names}: {type(error).__name__}: {error}") from error
    if len(compiled) != len(partitions):
        raise ProviderError(f"{label} compiled {len(partitions)} partitions ({names}) to {len(compiled)}")
    for partition, result in zip(partitions, compiled, strict=True):
        if isinstance(result, BaseException):
            text = f"{label} could not compile {partition.name}: {type(result).__name__}: {result}"
            raise CompileError(text) from result
        if not callable(result):
            raise ProviderError(f"{label} compiled {partition.name} to {result!r}; expected a callable")
    return {p.name: result for p, result in zip(partitions, compiled, strict=True)}


def _with_bodies(partition: Partition, bodies: Mapping[Graph, CompiledBody]) -> Partition:
    inside: dict[Graph, Body] = {body: bodies[body] for node in partition.nodes for body in node.subgraphs() if body in bodies}
    return partition.replace(bodies=inside) if inside else partition


def _holds_tensors(type_: Type | None) -> bool:
    """Whether it is a sequence whose elements may be arrays that another value holds too."""
    return isinstance(type_, SequenceType) and not isinstance(type_.element, MapType)


class _Linker:
    """Numbers the values of a level, device by device, and lines up its steps."""

    def __init__(self, level: Level, captures: tuple[Value, ...], compiled: Mapping[str, CompiledPartition]) -> None:
        self.level, self.compiled = level, compiled
        self.inputs = (*level.graph.inputs, *captures)
        self.slots: dict[tuple[Value, Device], int] = {(value, CPU): k for k, value in enumerate(self.inputs)}
        self.count = len(self.inputs)
        self.steps: list[Step] = []
        self.hops: dict[str, list[tuple[Value, Hop]]] = {}
        for copy in level.copies:
            self.hops.setdefault(copy.reader, []).extend((copy.value, hop) for hop in copy.hops)

    def executable(self) -> Executable:
        for partition in self.level.partitions:
            self._copies(partition.name)
            device = partition.provider.device
            inputs = [self.slots[value, device] for value in partition.inputs]
            outputs = [self._new(value, device) for value in partition.outputs]
            self._step(partition.name, _label(partition), self.compiled[partition.name], inputs, outputs)
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

    def _new(self, value: Value, device: Device) -> int:
        self.slots[value, device] = slot = self.count
        self.count += 1
        return slot

    def _step(
        self, name: str, provider: str, function: CompiledPartition, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        self.steps.append(Step(name, provider, function, tuple(inputs), tuple(outputs), ()))

    def _copies(self, reader: str) -> None:
        for value, hop in self.hops.get(reader, ()):
            if (value, hop.destination) not in self.slots:
                source, name = self.slots[value, hop.source], f"copy {value.name!r} {hop.source} -> {hop.destination}"
                self._step(name, reader, partial(_move, hop), [source], [self._new(value, hop.destination)])

    def _returned(self, value: Value) -> Any:
        return self.slots.get((value, CPU), value.constant)

    def _direct(
        self, steps: Sequence[Step], returned: tuple[Any, ...], shares: bool
    ) -> tuple[CompiledPartition | None, tuple[int, ...] | None]:
        if len(steps) != 1 or shares or steps[0].outputs != returned:
            return None, None
        return steps[0].function, None if steps[0].inputs == tuple(range(len(self.inputs))) else steps[0].inputs


def _label(partition: Partition) -> str:
    return partition.provider.name or type(partition.provider).__name__


def _move(hop: Hop, inputs: Sequence[Any]) -> list[Any]:
    return [hop.transfer.copy(inputs[0], hop.source, hop.destination)]


def _with_deaths(steps: Sequence[Step], kept: set[Any]) -> tuple[Step, ...]:
    """Each slot that is not returned dies after the last step that names it."""
    done, seen = list[Step](), set(kept)
    for step in reversed(steps):
        dead = tuple(slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot not in seen)
        seen.update(dead)
        done.append(step.replace(dead=dead))
    return tuple(reversed(done))
