"""Compiling: an Assignment becomes an Executable. Each provider compiles its partitions of a graph level in one call."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from ort_lite.compile.fusing import Fused, Fuser
from ort_lite.compile.incidents import Incidents
from ort_lite.compile.linking import Linker
from ort_lite.errors import (
    CompileError,
    Fail,
    InvalidArgument,
    InvalidGraph,
    OrtLiteError,
    OutOfMemory,
    ProviderError,
    format_error,
)
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.execute.execute import CompiledBody, Executable
from ort_lite.execute.guard import guard_partition
from ort_lite.execute.results import Expected, ExpectedHost
from ort_lite.graph.graph import Graph, Value
from ort_lite.log.events import Span, no_span
from ort_lite.native.checkpoint import checkpoint
from ort_lite.options.policies import NEXT, Policy
from ort_lite.partition.assignment import Assignment, Level
from ort_lite.partition.borders import transfers_of
from ort_lite.provider.abilities import defers_compile, has_events, tells_facts, tells_kernels
from ort_lite.provider.ask import ask_object, format_answer, who
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.provider import CPU, Body, CompiledPartition, ExecutionProvider, Partition
from ort_lite.provider.unchanged import GraphChanged, forbid_changes
from ort_lite.record import Record

if TYPE_CHECKING:
    from ort_lite.provider.compiled import KernelChoice

_PUT_OFF = (Fail, InvalidArgument, InvalidGraph, MemoryError)
"""Errors that say that shapes, contents or memory do not fit."""


class Compiled(Record):
    """The main graph, ready to run, and every compiled partition by name, those of bodies included."""

    LATER = frozenset({"fused"})
    executable: Executable
    partitions: Mapping[str, CompiledPartition]
    called: Mapping[str, CompiledPartition]
    """The functions that the executor calls, by name: the partitions behind their guards (see `ort_lite.execute.guard`)."""
    fused: Mapping[str, Fused]
    """By name, the partitions of which a provider compiled a fused copy."""
    replaceable: frozenset[str]
    """Partitions that the next provider runs where they fail in a run: their constants must stay."""

    def facts(self, failures: list[OrtLiteError] | None = None) -> dict[str, dict[str, int | str]]:
        """Return the facts of compiled partitions (see CompiledPartition), by partition.

        Raises ProviderError for one that fails, or whose facts are none; with `failures`, it is added there.
        """
        found = {}
        for name, one in self.partitions.items():
            try:
                if tells_facts(one):
                    found[name] = _facts(one, name)
            except ProviderError as error:
                if failures is None:
                    raise
                failures.append(error)
        return found

    def kernels(self) -> "dict[str, KernelChoice]":
        """Return the kernels of nodes, by name, of partitions that tell them.

        Raises ProviderError for one that fails, or whose answer is not a KernelChoice by name with the cost of what it takes.
        """
        from ort_lite.provider.compiled import KernelChoice

        found: dict[str, KernelChoice] = {}
        for name, one in self.partitions.items():
            answer = ask_object(one, "kernels", name, Mapping) if tells_kernels(one) else {}
            for node, choice in answer.items():
                if not isinstance(node, str) or not isinstance(choice, KernelChoice):
                    raise ProviderError(
                        f"{name}: kernels returned {format_answer(answer)}; expected a KernelChoice by name of node"
                    )
                if choice.taken not in choice.costs:
                    raise ProviderError(
                        f"{name}: kernels returned no cost of {choice.taken!r}, which is taken for node {node!r}"
                    )
            found |= answer
        return found


def _facts(one: Any, name: str) -> dict[str, int | str]:
    """Raises ProviderError unless they are texts and finite numbers by name, and `python_steps` is a whole number."""
    facts: dict[Any, Any] = dict(ask_object(one, "facts", name, Mapping))
    for key, fact in facts.items():
        if not isinstance(key, str) or not (isinstance(fact, str) or (isinstance(fact, Real) and isfinite(fact))):
            raise ProviderError(f"{name}: facts returned {format_answer(facts)}; expected texts and finite numbers by name")
    steps = facts.get("python_steps", 0)
    if not isinstance(steps, Integral) or isinstance(steps, bool):
        raise ProviderError(f"{name}: facts returned {format_answer(facts)}; expected a whole number for python_steps")
    return {key: int(fact) if isinstance(fact, Integral) else fact for key, fact in facts.items()}


class PartitionsFailed(CompileError):
    """Partitions of one provider and level that it could not compile, each with the reason."""

    def __init__(self, label: str, failed: Sequence[tuple[Partition, str]]) -> None:
        super().__init__("; ".join(dict.fromkeys(why for _, why in failed)))
        self.label, self.failed = label, tuple(failed)
        self.about(failed[0][0].nodes[0] if len(failed) == len(failed[0][0].nodes) == 1 else None, provider=label)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle restores the error from. Partitions stay in their process."""
        return CompileError.__new__, (type(self), *self.args), {**self.__dict__, "failed": ()}


class PartitionsOutOfMemory(PartitionsFailed, OutOfMemory):
    """Partitions that a provider could not compile because memory ran out, with the sizes of the allocation."""


def _failure(label: str, failed: Sequence[tuple[Partition, str]], cause: BaseException | None) -> PartitionsFailed:
    """Return the error for partitions that failed by `cause`."""
    if not isinstance(cause, MemoryError):
        return PartitionsFailed(label, failed) if cause is None else PartitionsFailed(label, failed).like(cause)
    made = PartitionsOutOfMemory(label, failed).like(cause)
    return made.set_sizes(cause.wanted, cause.in_use, cause.limit) if isinstance(cause, OutOfMemory) else made


class Compiler:
    """Compiles the assignments of a session that is being created; a partition that does not change is compiled once.

    `policies` are those of the providers, by label. A fuser gives providers that want fusions copies of their partitions; without
    one they get the partitions as they are. Where a policy lets the next provider take over in a run, `alternatives` compiles for it.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy] | None = None,
        fuser: Fuser | None = None,
        alternatives: Callable[[Partition], Executable] | None = None,
        incidents: Incidents | None = None,
        span: Span = no_span,
    ) -> None:
        self._policies, self._fuser, self._alternatives, self._span = policies or {}, fuser, alternatives, span
        self.incidents = incidents if incidents is not None else Incidents()
        self._partitions: dict[tuple[Any, ...], tuple[Partition, CompiledPartition]] = {}
        self._fused: dict[int, Fused] = {}  # by the id of the compiled partition, which lives in `_partitions`
        self._bodies: dict[Graph, tuple[tuple[Any, ...], CompiledBody]] = {}

    def compile(self, assignment: Assignment) -> Compiled:
        """Compile bodies before the graphs around them.

        A provider whose policy is to go on when compiling fails is asked for each partition alone when a call fails.

        Raises:
            PartitionsFailed: a provider cannot compile partitions; names them.
        """
        bodies: dict[Graph, CompiledBody] = {}
        compiled: dict[str, CompiledPartition] = {}
        called: dict[str, CompiledPartition] = {}
        executable = None
        for level in reversed(assignment.levels):
            own = [_with_bodies(p, bodies) for p in level.partitions]
            for label, provider in assignment.providers.items():
                compiled.update(self._compile_level(label, provider, [p for p in own if p.provider is provider], bodies))
            captures = tuple(value for value in level.graph.captures() if value.constant is None) if level.path else ()
            outer = tuple(value for value in (*level.graph.inputs, *captures) if value not in level.on_device)
            called.update((p.name, self._guard(assignment, p, compiled[p.name], outer)) for p in own)
            executable = Linker(level, captures, called).executable()
            bodies[level.graph] = self._body(level, CompiledBody(executable, captures, on_device=level.on_device), compiled)
        assert executable is not None, "an assignment has a level for the main graph"
        _complete(assignment, compiled)
        partitions = {p.name: compiled[p.name] for p in assignment.partitions}
        fused = {name: found for name, one in partitions.items() if (found := self._fused.get(id(one))) is not None}
        replaceable = frozenset(p.name for p in assignment.partitions if self._is_replaceable(assignment, p))
        return Compiled(executable, partitions, called, fused, replaceable)

    def goes_on(self, label: str) -> bool:
        """Return whether the policy of the provider gives what it cannot compile to the next one."""
        return label in self._policies and self._policies[label].on_compile_error == NEXT

    def _is_replaceable(self, assignment: Assignment, partition: Partition) -> bool:
        """Return whether the next provider runs the partition when it fails in a run."""
        if self._alternatives is None or partition.provider is list(assignment.providers.values())[-1]:
            return False
        return self._policies[assignment.label(partition)].on_run_error == NEXT

    def _guard(
        self, assignment: Assignment, partition: Partition, compiled: CompiledPartition, outer: Sequence[Value]
    ) -> CompiledPartition:
        """Return what the executor calls for a partition. `outer` are the inputs of its graph on the CPU, captures included."""
        providers = list(assignment.providers.values())
        function = guard_partition(partition, compiled, outer, providers)
        replaceable = self._is_replaceable(assignment, partition)
        if partition.provider.device != CPU and has_events(compiled):
            from ort_lite.execute.recording import RecordingPartition

            function = RecordingPartition(function, partition, compiled, waits=replaceable)
        if self._alternatives is None or not replaceable:
            return function
        from ort_lite.compile.fallback import Fallback

        return Fallback(partition, function, self._alternatives, transfers_of(providers), self.incidents)

    def _compile_level(
        self, label: str, provider: ExecutionProvider, partitions: Sequence[Partition], bodies: Mapping[Graph, CompiledBody]
    ) -> dict[str, CompiledPartition]:
        """Compile the provider's partitions of a graph, in one call as long as that works."""
        made = {p.name: known[1] for p in partitions if (known := self._partitions.get(_key(label, p))) is not None}
        new = [p for p in partitions if p.name not in made]
        if not new:
            return made
        checkpoint()
        wanted = self._fuser if self._fuser is not None and self._fuser.wants_fusions(provider) else None
        fused = [None if wanted is None else self._fuse(label, p, bodies, wanted) for p in new]
        results = self._results(label, provider, new, fused)
        for partition, copy, result in zip(new, fused, results, strict=True):
            if not isinstance(result, BaseException):
                if not callable(result):
                    raise ProviderError(f"{label} compiled {partition.name} to {result!r}; expected a callable").about(
                        provider=label
                    )
                self._partitions[_key(label, partition)] = (partition, result)  # its bodies live, so that their ids are valid
                if copy is not None:
                    self._fused[id(result)] = copy
                made[partition.name] = result
        failed = [(p, r) for p, r in zip(new, results, strict=True) if isinstance(r, BaseException)]
        if failed:
            reasons = [(p, f"{label} could not compile {p.name}: {format_error(r)}") for p, r in failed]
            raise _failure(label, reasons, failed[0][1]) from failed[0][1]
        return {p.name: made[p.name] for p in partitions}

    def _results(
        self, label: str, provider: ExecutionProvider, partitions: Sequence[Partition], fused: Sequence[Fused | None]
    ) -> list[CompiledPartition | BaseException]:
        given = [p if copy is None else copy.partition for p, copy in zip(partitions, fused, strict=True)]
        names, count = ", ".join(p.name for p in partitions), sum(len(p.nodes) for p in given)
        with self._span("compile_partitions", provider=label, partitions=names, nodes=count):
            try:
                return _compile_or_restore(label, provider, given, self.goes_on(label))
            except PartitionsFailed as error:  # of fused copies, whose nodes nobody else knows
                own = {p.name: p for p in partitions}
                cause = error.__cause__
                raise _failure(label, [(own[p.name], why) for p, why in error.failed], cause).like(error) from cause

    def _fuse(self, label: str, partition: Partition, bodies: Mapping[Graph, CompiledBody], fuser: Fuser) -> Fused | None:
        with self._span("fuse", provider=label, nodes_before=len(partition.nodes)) as facts:
            made = fuser.fuse_copy(partition, bodies)
            facts.update(nodes_after=len(partition.nodes if made is None else made.partition.nodes))
        return made

    def _body(self, level: Level, made: CompiledBody, compiled: Mapping[str, CompiledPartition]) -> CompiledBody:
        """Return the body that was made before, if it computes the same: then the partition around it is the same too.

        Its steps are those of today: names may differ.
        """
        crossing = tuple((copy.value, copy.hops) for copy in level.copies)
        steps = tuple((p.inputs, p.outputs, p.host_values, id(compiled[p.name])) for p in level.partitions)
        same = (steps, crossing, tuple(level.on_device))
        if level.graph not in self._bodies or self._bodies[level.graph][0] != same:
            self._bodies[level.graph] = (same, made)
        body = self._bodies[level.graph][1]
        body.relink(made.executable)
        return body


def compile_assignment(assignment: Assignment, fuser: Fuser | None = None) -> Compiled:
    """Compile an assignment of which nothing was compiled before, without policies. See Compiler."""
    return Compiler(fuser=fuser).compile(assignment)


def _key(label: str, partition: Partition) -> tuple[Any, ...]:
    reads = tuple((node.inputs, node.outputs) for node in partition.nodes)
    bodies = tuple((graph, id(body)) for graph, body in partition.bodies.items())
    return label, partition.nodes, partition.inputs, partition.outputs, partition.host_values, reads, bodies


def _complete(assignment: Assignment, compiled: Mapping[str, CompiledPartition]) -> None:
    """Has partitions of bodies do what they put off. Raises PartitionsFailed. What does not fit there, shapes, contents or memory,
    is told when somebody calls the body: a run may never do.
    """
    for partition in (p for level in assignment.levels for p in level.partitions if p.nested):
        one = compiled[partition.name]
        if defers_compile(one):
            try:
                one.complete()
            except Exception as error:
                checkpoint()
                if isinstance(error, _PUT_OFF) and not isinstance(error, NotSupported):
                    continue
                label = assignment.label(partition)
                why = f"{label} could not compile {partition.name}: {format_error(error)}"
                raise _failure(label, [(partition, why)], error) from error


def _compile_or_restore(
    label: str, provider: ExecutionProvider, partitions: Sequence[Partition], alone: bool
) -> list[CompiledPartition | BaseException]:
    """Partitions of an EPContext node are compiled already."""
    made = {p.name: _restore(label, p) for p in partitions if is_context(p.nodes[0])}
    rest = [p for p in partitions if p.name not in made]
    if rest:
        compiled = _compile(label, provider, rest, alone and len(rest) > 1)
        made.update(zip([p.name for p in rest], compiled, strict=True))
    return [made[p.name] for p in partitions]


def _restore(label: str, partition: Partition) -> CompiledPartition | BaseException:
    from ort_lite.compile.restore import restore_partition

    try:
        return restore_partition(label, partition)
    except Exception as error:  # noqa: BLE001  an exception in a result's place, as from `compile`
        checkpoint()
        return error


def _compile(
    label: str, provider: ExecutionProvider, partitions: Sequence[Partition], alone: bool
) -> list[CompiledPartition | BaseException]:
    """A result for each. When the call fails: each in a call of its own (`alone`), or PartitionsFailed naming all."""
    names = ", ".join(p.name for p in partitions)
    try:
        with forbid_changes(provider, "compile", dict.fromkeys(p.nodes[0].graph for p in partitions), label):
            compiled: list[CompiledPartition | BaseException] = list(provider.compile(partitions))
    except GraphChanged:
        raise
    except Exception as error:
        checkpoint()  # no other provider is asked once the creation has ended
        if alone:
            return [result for p in partitions for result in _compile_one(label, provider, p)]
        why = f"{label} could not compile {names}: {format_error(error)}"
        raise _failure(label, [(p, why) for p in partitions], error) from error
    if len(compiled) != len(partitions):
        raise ProviderError(f"{label} compiled {len(partitions)} partitions ({names}) to {len(compiled)}").about(provider=label)
    return compiled


def _compile_one(label: str, provider: ExecutionProvider, partition: Partition) -> list[CompiledPartition | BaseException]:
    try:
        return _compile(label, provider, [partition], False)
    except PartitionsFailed as error:
        return [error.__cause__ or error]


def _with_bodies(partition: Partition, bodies: Mapping[Graph, CompiledBody]) -> Partition:
    """Check the bodies that a provider calls unless the provider is `exact`: native code may be inside."""
    inside: dict[Graph, Body] = {}
    for graph in (body for node in partition.nodes for body in node.subgraphs() if body in bodies):
        body = inside[graph] = bodies[graph]
        if not partition.provider.exact:
            wanted = (*graph.inputs, *body.captures)
            name, verb = f"{partition.name} ({who(partition.provider)})", f"called its body {graph.name!r} with"
            host = [value for value in wanted if value not in body.on_device]
            body.expected = ExpectedHost(name, wanted, host, verb=verb) if body.on_device else Expected(name, wanted, verb=verb)
    return partition.replace(bodies=inside) if inside else partition
