"""The Program: what the CPU provider's `compile` returns for a partition. Lowered once, bound per shape, run without the GIL.

A program of one segment whose symbols are dimensions of its inputs, the ordinary case, has a short path: look up the bound program
by the inputs' shapes, lease scratch, allocate the outputs, one native call.

The file is long because the methods that run, describe and store a Program share its private state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.graph import Graph, Node, OptionalType, SequenceType, TensorType, Type, Value
from ort_lite.inference import Info, ShapeRules
from ort_lite.memory.pool import ScratchPool
from ort_lite.native import Spec
from ort_lite.native.loader import load_keys
from ort_lite.native.spec import key_of
from ort_lite.provider import CURRENT, RECORDED, Body
from ort_lite.shapes import as_symbol, substitute, symbol, symbols
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.lower import Lowering
from ort_lite_cpu.lowering.lowered import HostStep, Instruction, LoweringResult, Source
from ort_lite_cpu.lowering.values import Values
from ort_lite_cpu.operators import FAMILIES
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program import bind
from ort_lite_cpu.program.aliases import find_aliases, find_growths
from ort_lite_cpu.program.bind import Binder, Bound
from ort_lite_cpu.program.growth import NO_GROWTH, RunGrowth, prepare_growth
from ort_lite_cpu.program.host_step import run_host_step
from ort_lite_cpu.program.origin import LARGE, ProgramOrigin, find_restorers, find_sources, prepare_bodies
from ort_lite_cpu.program.segment import FIRST_PLACE, GRAIN, NOTHING, Segment, assemble, load_kernels
from ort_lite_cpu.program.segment_run import BOUND_LIMIT, NO_TARGETS, SegmentRun, Unforeseen
from ort_lite_cpu.run import team
from ort_lite_cpu.run.address import address_of
from ort_lite_cpu.run.bounded_cache import BoundedCache
from ort_lite_cpu.run.loop import RUN_JOB
from ort_lite_cpu.run.pace import Pace, count_strings
from ort_lite_cpu.run.run_context import RunContext

if TYPE_CHECKING:
    from ort_lite.memory.planning.plan import MemoryPlan
    from ort_lite.provider.compiled import Holdings, KernelChoice
    from ort_lite_cpu.lowering.deferred_suffix import SuffixProgram
    from ort_lite_cpu.program.image import ProgramImage

_WITH_CALLS = "with calls"
"""Beside shapes, the key of the program that does not inline bodies."""
_SHAPE = attrgetter("shape")
ALIGNMENT = 16
"""Of the memory that NumPy allocates, and kernels expect, for an output."""


def machinery(threads: int) -> tuple[Spec, ...]:
    """Return the kernels that run programs on this machine, whatever target these are compiled for."""
    return RUN_JOB, *bind.SPECS, *team.specs(threads)


class Program:
    """Callable from many threads at once: all state of a run is in its lease."""

    def __init__(
        self,
        nodes: Sequence[Node],
        inputs: Sequence[tuple[Value, Info]],
        outputs: Sequence[Value],
        rules: ShapeRules,
        options: CPUOptions,
        bodies: Mapping[Graph, Body],
    ) -> None:
        source = Source(tuple(nodes), tuple([value for value, _ in inputs]), tuple(outputs), bodies, options)
        self._rules, self._options, self.planner = rules, options, options.planner
        lowering = Lowering(Values(_rename(inputs), rules, options, bodies, Program))
        self.lowered = lowering.run(nodes, outputs)
        lowering.values.forget_tensors()
        self._team = options.threads if _may_share(self.lowered) else 1
        needed = machinery(self._team)
        assembled = assemble(self.lowered, options.threads, needed)
        self.places, self.output_places = assembled.places, assembled.output_places
        needs = (options.threads, FIRST_PLACE + self.places)
        self.steps: list[SegmentRun | HostStep] = [
            SegmentRun.of(step, Binder(step, self.planner, options.compile), needs, len(inputs))
            if isinstance(step, Segment)
            else step
            for step in assembled.steps
        ]
        self.threads = options.threads
        team.TEAM.retry()
        self.pool: ScratchPool[RunContext] = ScratchPool(RunContext) if options.pool is None else options.pool
        self._checked: BoundedCache[Any, Program | None] = BoundedCache(BOUND_LIMIT)
        self._input_count, self._unmade = len(inputs), [None] * (self.places - len(inputs))
        self._read_again = self._sizes_read_again()
        self._only = self._short_path([info.type for _, info in inputs])
        self.aliases = find_aliases(self.steps, len(inputs), self.output_places)
        self.growths = find_growths(self.steps, self.lowered, len(inputs), self.output_places)
        self.origin = ProgramOrigin(source, find_restorers(nodes, self.lowered, self.steps))
        limited = options.pool is not None and options.pool.budget.limit is not None
        self._counts = limited and any(isinstance(step, HostStep) for step in self.steps)

    @property
    def source(self) -> Source:
        """The nodes that the program was lowered from."""
        return self.origin.source

    def prepare_calls(self) -> None:
        """Create the program with calls, and those of the bodies that it calls, for the run in which a body is not as foreseen.

        Nothing that the program says of itself changes. What cannot be created now is an error of the run that needs it.
        """
        sources = list(find_sources(self.source.bodies))
        inlined = [source.inlined for source in sources]
        if not any(inlined):
            return
        with suppress(OrtLiteError, MemoryError):
            self.origin.spare = self._calling()
            prepare_bodies(self.source.bodies)
        for source, before in zip(sources, inlined, strict=True):
            source.inlined = before

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what runs have made, and without scratch memory of its own; kernels by the keys of their code."""
        segments = [step.segment for step in self.steps if isinstance(step, SegmentRun)]
        numbers: dict[Spec, int] = {}
        used = [[numbers.setdefault(each.spec, len(numbers)) for each in segment.instructions] for segment in segments]
        keys = [key_of(spec, self.lowered.target) for spec in numbers]
        state = {**vars(self), "_checked": None, "lowered": self.lowered.replace(restorers={}), "pool": self._options.pool}
        return state | {"kernels": (keys, used)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the kernels, and fill in the addresses of kernels and constants."""
        keys, used = state.pop("kernels")
        for name, value in state.items():  # one by one, since Python reads attributes of a replaced dictionary more slowly
            setattr(self, name, value)
        self._checked = BoundedCache(BOUND_LIMIT)
        if self.pool is None:
            self.pool = ScratchPool(RunContext)
        addresses = load_keys(keys)
        [nothing] = load_kernels(self.lowered.kernels, [NOTHING], machinery(self._team))
        segments = [step.segment for step in self.steps if isinstance(step, SegmentRun)]
        for segment, own in zip(segments, used, strict=True):
            segment.relocate([addresses[number] for number in own], nothing)
        team.TEAM.retry()

    def _short_path(self, given: Sequence[Type | None]) -> SegmentRun | None:
        """The one segment, where shapes of the inputs, arrays all of them, say all that binding asks for."""
        only = self.steps[0] if len(self.steps) == 1 else None
        if not isinstance(only, SegmentRun) or not all(isinstance(type_, TensorType) for type_ in given):
            return None
        return only if only.shapes_tell else None

    def _sizes_read_again(self) -> list[int]:
        """Return the inputs whose elements are sizes in several segments.

        A run copies these few numbers: a size must not change between the segment that allocates and one that reads.
        """
        runs = [step for step in self.steps if isinstance(step, SegmentRun)]
        readers = Counter(place for run in runs for place in {at for at, _, element in run.leaves if element})
        return [place for place, segments in readers.items() if segments > 1 and place < self._input_count]

    @property
    def absorbed(self) -> Sequence[Value]:
        """Large constants that nothing reads but what they were packed to. A program for other shapes is lowered from them again."""
        return list(self.origin.restorers)

    def restorer(self, value: Value) -> Callable[[], Any]:
        """Return a function that makes the array of a consumed constant."""
        return self.origin.restorers[value]

    def unread(self, constants: Iterable[Value]) -> Sequence[Value]:
        """Return the large constants that no run reads again.

        There are none if the program may have to be lowered again, for other shapes or for sizes that only a run knows.
        """
        segments = [step.segment for step in self.steps if isinstance(step, SegmentRun)]
        if len(segments) < len(self.steps) or not _fits_all(self.lowered):
            return []
        read = {address_of(array) for segment in segments for array in segment.keep}
        arrays = [(value, value.constant) for value in constants]
        return [v for v, array in arrays if array is not None and array.nbytes >= LARGE and address_of(array) not in read]

    def facts(self) -> dict[str, int | str]:
        """Return the facts of a partition that `InferenceSession.explain` prints.

        python_steps: nodes that run in Python: strings, sequences, maps, optionals.
        """
        segments = [step.segment for step in self.steps if isinstance(step, SegmentRun)]
        kernels = {instruction.spec for segment in segments for instruction in segment.instructions}
        return {
            "instructions": sum(len(segment.instructions) for segment in segments),
            "kernels": len(kernels),
            "segments": len(segments),
            "control_flow_steps": sum(isinstance(step, HostStep) and not step.python for step in self.steps),
            "python_steps": len({step.node for step in self.steps if isinstance(step, HostStep) and step.python}),
        }

    def kernels(self) -> dict[str, KernelChoice]:
        """Return the kernels of each node, and why others were not taken, for `InferenceSession.explain(kernels=True)`."""
        found: dict[Node, list[Instruction]] = {}
        sizes: dict[str, int] = {}
        for step in self.steps:
            if isinstance(step, SegmentRun):
                for instruction in step.segment.instructions:
                    found.setdefault(instruction.node, []).append(instruction)
                for bound in step.cache.values()[-1:]:
                    leaves = [symbol.name for symbol, _ in step.segment.leaves]
                    sizes |= dict(zip(leaves, bound.values, strict=True))
        return {node.name: self._choice(node, instructions, sizes) for node, instructions in found.items()}

    def _choice(self, node: Node, instructions: Sequence[Instruction], sizes: Mapping[str, int]) -> KernelChoice:
        from ort_lite.provider.compiled import CandidateCost, KernelChoice
        from ort_lite_cpu.costs import kernel_family, nominal, shipped_costs
        from ort_lite_cpu.program.recording import instruction_name, kernel_name

        specs = [instruction.spec for instruction in instructions]
        names, multiplies = tuple(dict.fromkeys(map(kernel_name, specs))), instruction_name(specs, self.lowered.target)
        choice = self.lowered.choices.get(node)
        if choice is not None:
            return KernelChoice(names, choice.taken, choice.costs, choice.rejected, multiplies)
        costs = self.source.options.costs or shipped_costs(self.lowered.target)
        works = [(kernel_family(instruction.spec), nominal(instruction.work, sizes)) for instruction in instructions]
        predicted = sum(costs.predict(family, work) for family, work in works) / 1000
        taken = "+".join(dict.fromkeys(family for family, _ in works))
        return KernelChoice(names, taken, {taken: CandidateCost(predicted)}, instruction=multiplies)

    def memory_plan(self) -> MemoryPlan:
        """Return the memory plan of the shapes bound last, by segment; empty before the first run."""
        from ort_lite_cpu.program.plans import memory_plan, shapes_of

        runs = [(step.segment, step.cache.values()) for step in self.steps if isinstance(step, SegmentRun)]
        bound = [(segment, made[-1]) for segment, made in runs if made]
        special = [program for program in self._checked.values() if program is not None]
        if special and not bound:
            return special[-1].memory_plan()
        return memory_plan(bound, self.planner.name, shapes_of(self.source.inputs, self.lowered.input_infos, bound))

    def memory(self) -> Holdings:
        """Return the figures for `InferenceSession.memory`: constants that instructions read, and caches by shape.

        With those of the programs that were lowered for shapes that this one does not serve, and of its tail.
        """
        others = [program.memory() for program in self._suffix_programs()]
        runs = [step for step in self.steps if isinstance(step, SegmentRun)]
        bound = [made for run in runs for made in run.cache.values()]
        arrays = [array for run in runs for array in run.segment.keep]
        return {
            "arrays": arrays + [array for held in others for array in held["arrays"]],
            "plans": len(bound) + sum(held["plans"] for held in others),
            "plan_bytes": sum(made.nbytes for made in bound) + sum(held["plan_bytes"] for held in others),
        }

    def trim(self) -> None:
        """Forgets what was bound and lowered for shapes."""
        self._checked.clear()
        for step in self.steps:
            if isinstance(step, SegmentRun):
                step.cache.clear()
            elif step.programs is not None:
                step.programs.clear()

    def _suffix_programs(self) -> list[SuffixProgram]:
        made: list[SuffixProgram] = [found for found in self._checked.values() if found is not None]
        for step in self.steps:
            if isinstance(step, HostStep) and step.programs is not None:
                made += step.programs.values()
        return made

    def machine_image(self, inputs: Sequence[Any], order: Sequence[int] | None = None) -> ProgramImage:
        """Return the image that `ort_lite.tools.machine` steps through."""
        from ort_lite_cpu.program.image import machine_image

        special = self._check(tuple([getattr(array, "shape", None) for array in inputs]))
        try:
            return machine_image(self if special is None else special, inputs, order)
        except Unforeseen:
            return machine_image(self._with_calls(), inputs, order)

    def into(self, inputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        """Run as a call does; outputs that segments allocate are computed in their `targets` instead.

        A target may be the memory of an input as far as `aliases` says so.
        """
        return self(inputs, targets)

    def grow(self, inputs: Sequence[Any], targets: Sequence[Any], bases: Mapping[int, Array]) -> list[Any]:
        """Run as `into` does; outputs of `growths` are computed in the arrays `bases`, by position, of which inputs are the beginnings.

        Those that do not fit are arrays of their own.
        """
        own, growth = prepare_growth(inputs, bases, self.growths, self.output_places)
        return self(own, targets, growth)

    def __call__(self, inputs: Sequence[Any], targets: Sequence[Any] = (), growth: RunGrowth = NO_GROWTH) -> list[Any]:
        only = self._only
        if only is None:
            return self._steps(inputs, targets, growth) if not self._counts else self._run_counting_strings(inputs, growth)
        lease = None
        key: tuple[Any, ...] = tuple(map(_SHAPE, inputs)) + growth.rooms
        try:
            bound = only.cache.get(key)
            if bound is None:
                special = self._check(key[: len(inputs)])
                if special is not None:
                    return _run_other(special, inputs, targets, growth)
                bound = only.bind(key, only.values(inputs, growth.rooms))
            places: list[Any] = [*inputs, *self._unmade]
            aimed = self._usable_targets(inputs, targets) if targets else NO_TARGETS
            lease = only.lease(self.pool, bound, places, growth.targets(bound, aimed))
            if not RECORDED.runs or CURRENT.events is None:
                only.run(bound, places, lease, CURRENT.options)
            else:
                self._record(only, bound, places, lease)
        except Unforeseen:
            return _run_other(self._with_calls(), inputs, targets, growth)
        finally:
            if lease is not None:
                self.pool.release(lease)
        return list(map(places.__getitem__, self.output_places))

    def _usable_targets(self, inputs: Sequence[Any], targets: Sequence[Any]) -> dict[int, Array]:
        """Return the targets in which outputs can be computed, by place: no input is there, or the one that is its alias."""
        aimed: dict[int, Array] = {}
        starts = [*map(address_of, inputs)]
        for k, target in enumerate(targets):
            place = self.output_places[k]
            if target is None or place < self._input_count:
                continue
            start = address_of(target)
            owned = start in starts and (starts.count(start) > 1 or starts.index(start) != self.aliases.get(k))
            if not (start % ALIGNMENT or owned):
                aimed[place] = target
        return aimed

    def _run_counting_strings(self, inputs: Sequence[Any], growth: RunGrowth) -> list[Any]:
        """Run `_steps`; the strings that its steps make count towards the session's memory limit."""
        with count_strings(self.pool):
            return self._steps(inputs, (), growth)

    def _take(self, step: SegmentRun, bound: Bound) -> None:
        """Takes what a segment leaves to a step from the limit: the positions of strings, for one."""
        for allocation, (place, _, shape, dtype) in zip(step.segment.allocations, bound.allocations, strict=True):
            if place not in self.output_places:
                Pace(allocation.node).take(prod(shape) * dtype.itemsize)

    def _steps(self, inputs: Sequence[Any], targets: Sequence[Any], growth: RunGrowth) -> list[Any]:
        try:
            shapes = tuple(map(_SHAPE, inputs))
        except AttributeError:  # sequences, maps, optionals
            shapes = tuple([getattr(array, "shape", None) for array in inputs])
        special = self._checked.get(shapes, self)
        if special is self:
            special = self._check(shapes)
        if special is not None:
            return _run_other(special, inputs, targets, growth)
        places: list[Any] = [*inputs, *self._unmade]
        for place in self._read_again:
            places[place] = places[place].copy()
        options, events = CURRENT.options, CURRENT.events if RECORDED.runs else None
        aimed = self._usable_targets(inputs, targets) if targets else NO_TARGETS
        for step in self.steps:
            if not isinstance(step, SegmentRun):
                if options is not None and options.terminate:
                    raise options.termination(f"before {step.node}").about(step.node)
                if events is None:
                    run_host_step(step, places)
                else:
                    from ort_lite_cpu.program.recording import record_host_step

                    record_host_step(step, places, events)
                continue
            key, lease = shapes + growth.rooms if step.shapes_tell else step.values(places, growth.rooms), None
            try:
                bound = step.cache.get(key) or step.bind(key, step.values(places, growth.rooms))
                if self._counts:
                    self._take(step, bound)
                lease = step.lease(self.pool, bound, places, growth.targets(bound, aimed))
                if events is None:
                    step.run(bound, places, lease, options)
                else:
                    self._record(step, bound, places, lease)
            except Unforeseen:
                return _run_other(self._with_calls(), inputs, targets, growth)
            finally:
                if lease is not None:
                    self.pool.release(lease)
        return list(map(places.__getitem__, self.output_places))

    def _record(self, run: SegmentRun, bound: Bound, places: list[Any], lease: RunContext) -> None:
        """Run as `SegmentRun.run` does, in a run whose events somebody subscribed to."""
        from ort_lite_cpu.program.recording import record_segment

        record_segment(run, bound, places, lease, self.lowered.primary)

    def _check(self, shapes: tuple[Any, ...]) -> Program | None:
        """Return None if the shapes fit what lowering assumed; else a program lowered for just these shapes."""
        program = self._checked.get(shapes, self)
        if program is not self:
            return program
        if _fits(self.lowered, shapes):
            return self._checked.keep(shapes, None)
        try:
            special = self._specialize(shapes)
        except OrtLiteError:
            if not self.lowered.assumptions:
                raise
            special = self._with_calls()  # a branch does not fit these shapes, which may not be the one that runs
        return self._checked.keep(shapes, special)

    def _with_calls(self) -> Program:
        """The same, whose bodies are called: for whatever comes."""
        known = self._checked.get(_WITH_CALLS)
        if known is None:
            made: Program = self.origin.spare or self._calling()
            known = self._checked.keep(_WITH_CALLS, made) or made
        return known

    def _calling(self) -> Program:
        source, infos = self.source, self.lowered.input_infos
        inputs, options = zip(source.inputs, infos, strict=True), source.options.replace(inline=False)
        return Program(source.nodes, list(inputs), source.outputs, self._rules, options, source.bodies)

    def _specialize(self, shapes: tuple[Any, ...]) -> Program:
        source = self.source
        inputs = []
        for value, info, shape in zip(source.inputs, self.lowered.input_infos, shapes, strict=True):
            if shape is not None and isinstance(info.type, TensorType):
                differs = info.shape is not None and len(info.shape) != len(shape)
                if differs and (info.shape or not _of_any_rank(source.nodes)):
                    raise InvalidArgument(f"{value.name!r}: rank {len(shape)} came, expected {info.type}")
                info = Info(info.type.replace(shape=shape), None if differs else info.contents)
            inputs.append((value, info))
        return Program(source.nodes, inputs, source.outputs, self._rules, source.options, source.bodies)


def _run_other(program: Program, inputs: Sequence[Any], targets: Sequence[Any], growth: RunGrowth) -> list[Any]:
    """Run a program in place of another one, with what came for that."""
    return program.grow(inputs, targets, growth.given) if growth.rooms else program(inputs, targets)


def _of_any_rank(nodes: Sequence[Node]) -> bool:
    """Return True if the results depend on no rank, so that a declared scalar may be anything, as in onnxruntime."""
    families = (FAMILIES.get((node.domain, node.op_type)) for node in nodes if node.op_type != "Identity")
    return all(family in ("elementwise", "cast") for family in families)


def _may_share(lowered: LoweringResult) -> bool:
    """Return True if an instruction is, for some shapes at least, large enough for several threads."""
    works = (item.work for item in lowered.items if isinstance(item, Instruction))
    return any(not isinstance(work, int) or work >= GRAIN for work in works)


def _rename(inputs: Sequence[tuple[Value, Info]]) -> list[tuple[Value, Info]]:
    """Dimensions that no input gives as they are become symbols of their own: equal expressions, equal symbols.

    So do those of the elements of sequences and of what optionals hold, whose arrays tell them when they are taken out.
    """
    given = {found for _, info in inputs for dim in info.shape or () if (found := as_symbol(dim)) is not None}
    taken = {found.name for found in given}
    free = (name for number in count() if (name := f"dim{number}") not in taken)
    names: dict[Dim, Dim] = {}

    def rename(dim: Dim) -> Dim:
        if isinstance(dim, int) or all(found in given for found in symbols([dim])):
            return dim
        if dim not in names:
            names[dim] = symbol(next(free))
        return names[dim]

    def rename_type(type_: Type | None) -> Type | None:
        match type_:
            case TensorType(_, shape) if shape is not None:
                return type_.replace(shape=tuple(rename(dim) for dim in shape))
            case SequenceType(element) | OptionalType(element):
                return type_.replace(element=rename_type(element))
        return type_

    result = []
    for value, info in inputs:
        contents = info.contents
        if contents is not None and any(not isinstance(dim, int) for dim in contents):
            contents = None  # read from the array when a shape needs them
        result.append((value, Info(rename_type(info.type), contents, info.constant)))
    return result


def _fits_all(lowered: LoweringResult) -> bool:
    """Return True if all shapes of the ranks that inputs declare fit: sizes are numbers, or symbols of one dimension each."""
    dims = [dim for info in lowered.input_infos for dim in info.shape or () if not isinstance(dim, int)]
    found = {as_symbol(dim) for dim in dims}
    return not lowered.assumptions and None not in found and len(found) == len(dims)


def _fits(lowered: LoweringResult, shapes: Sequence[Any]) -> bool:
    """Return True if concrete input shapes agree with the symbolic ones: one value a symbol, and assumptions hold."""
    values: dict[str, Dim] = {}
    others: list[tuple[Dim, int]] = []
    for info, shape in zip(lowered.input_infos, shapes, strict=True):
        if info.shape is None or shape is None:
            continue
        if len(info.shape) != len(shape):
            return False
        for dim, actual in zip(info.shape, shape, strict=True):
            found = as_symbol(dim)
            if found is None:
                others.append((dim, actual))
            elif values.setdefault(found.name, actual) != actual:
                return False
    if not all(dim == actual if isinstance(dim, int) else substitute(dim, values) == actual for dim, actual in others):
        return False
    return all(substitute(condition, values) != 0 for condition in lowered.assumptions)
