"""The state of a session: created as a whole by the stages, replaced as a whole by `load_params` and `close`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.compile import lifecycle
from ort_lite.errors import Fail, InvalidArgument, OrtLiteError
from ort_lite.graph.graph import Value
from ort_lite.graph.model import Model
from ort_lite.load.files import words
from ort_lite.load.source import ModelSource
from ort_lite.log.events import Span, Stream, no_span
from ort_lite.memory import heap, locks
from ort_lite.memory.session_memory import SessionMemory
from ort_lite.options import config_keys
from ort_lite.options.options import ExecutionMode, RunOptions, SessionOptions
from ort_lite.partition.assignment import Assignment, label_of
from ort_lite.plugins import selection
from ort_lite.plugins.rooms import hook
from ort_lite.provider.abilities import plans_memory
from ort_lite.provider.ask import ask_object
from ort_lite.provider.current import stop_with_run
from ort_lite.provider.provider import CPU, ExecutionProvider
from ort_lite.record import Record
from ort_lite.session.created import Described, create, drop_constants
from ort_lite.session.opening import Params
from ort_lite.session.preparation import Arguments, open_session_memory
from ort_lite.session.prepare import Prepared, prepare
from ort_lite.session.ready import Closed, Ready

if TYPE_CHECKING:
    from ort_lite.execute.parallel import Workers
    from ort_lite.execute.profiling import Profiler
    from ort_lite.load.mapped import MappedFile
    from ort_lite.session.creation import CreationReport, CreationTrace
    from ort_lite.session.explanation import Explanation
    from ort_lite.session.prepared.later import Later


class SessionState(Record):
    """A compiled model and its description. `prepared` is None once the session is closed.

    Code that needs two members reads the session's state once: another thread may replace it at any time.
    """

    options: SessionOptions
    session_memory: SessionMemory
    ready: Ready | Closed
    prepared: Prepared | None
    selection: selection.Selection
    described: Described
    defaults: Mapping[str, Value]
    """Overridable initializers by name."""
    overriding: "Overriding | None"
    workers: "Workers | None"
    creation: "CreationTrace | None"
    """The trace of session creation, if one was requested."""
    explained: "Explanation | None" = None
    """The explanation that remains once the session is closed."""
    later: "Later | None" = None
    """The reader of the later part of a prepared program."""

    def explain(self, failures: list[OrtLiteError] | None = None, kernels: bool = False) -> "Explanation":
        """Return the explanation, with the kernels of nodes if `kernels`.

        A partition that fails to report its facts raises a ProviderError that names it, or adds the error to `failures`.
        """
        if self.explained is not None or self.prepared is None:
            assert self.explained is not None
            return self.explained
        notes = (*self.selection.notes, *self.prepared.incidents)
        from ort_lite.session.explanation import Explanation

        compiled = self.prepared.compiled
        return Explanation(self.prepared.assignment, notes, compiled.facts(failures), compiled.kernels() if kernels else {})

    def memory_plans(self) -> dict[str, Any]:
        """Return the memory plan of each partition that has one (see `InferenceSession.memory_plans`)."""
        partitions = {} if self.prepared is None else self.prepared.compiled.partitions
        return {name: ask_object(p, "memory_plan", name) for name, p in partitions.items() if plans_memory(p)}

    def forms(self) -> list[Prepared]:
        """Return the compiled forms of the model: with overridable initializers as constants, and as inputs if needed so far."""
        return [found.prepared for found in self.ready_forms()]

    def ready_forms(self) -> list[Ready]:
        """Return the compiled forms of the model, ready to run."""
        other = self.overriding.made if self.overriding is not None else None
        return [found for found in (self.ready, other) if isinstance(found, Ready)]

    def after_closing(self, failures: list[OrtLiteError]) -> "SessionState":
        """Return the state after closing.

        The errors of partitions that fail to report their facts are added to `failures`.
        """
        explained = self.explain(failures)
        if self.later is not None:
            self.later.complete()
        return self.replace(ready=Closed(), prepared=None, overriding=None, workers=None, explained=explained, later=None)


class Overriding:
    """The form of the model that takes overridable initializers as inputs, compiled when a run first overrides one."""

    def __init__(self, source: Model, make: Callable[[Model], Ready]) -> None:
        self._source, self._make, self._lock = source, make, locks.lock()
        self.made: Ready | None = None

    def ready(self, options: RunOptions | None) -> Ready:
        """Return the compiled form.

        Raises the errors of session creation. The options' timeout and cancellation apply to compiling as well.
        """
        with self._lock:
            if self.made is None:
                with stop_with_run(options):
                    self.made = self._make(self._source.clone())
            return self.made


def make_state(
    source: ModelSource | Model,
    options: SessionOptions,
    given: Arguments,
    params: Params | None,
    events: Stream,
    profiler: "Profiler | None",
    tell: Callable[[Any], None],
) -> SessionState:
    """Take a model through all stages, or read what they led to. Raises the errors of the stages.

    `tell` receives the reports of runs that are verified because they are the first.
    """
    begin = perf_counter_ns()
    session_memory = open_session_memory(options)
    with _report(options, events) as (report, span), span("session_initialization"):
        made = create(source, options, given, params, profiler, span)
        prepared, chosen = made.prepared, made.selection
        files = _mapped_files(prepared, source, given)
        if options.config(config_keys.CONTEXT_ENABLE, "0") == "1":
            _save_contexts(source, prepared, options)
        if not made.dropped and not _is_verified(prepared, given):
            drop_constants(options, prepared)
        lifecycle.finish_initialization(chosen.providers)
        if session_memory.budget.limit is not None:
            from ort_lite.session import footprint

            footprint.charge(prepared, session_memory)
    other, workers = made.overridable, _workers(options, prepared)

    def ready(prepared: Prepared) -> Ready:
        found = _ready(prepared, events, session_memory, workers)
        if _is_verified(prepared, given):
            from ort_lite.session.first_run import FirstRun

            release = partial(_release, prepared, options, session_memory) if prepared is made.prepared else None
            found.wrap_runs(FirstRun(options, given.verify, tell, release).wrap)
        if files:
            from ort_lite.load.mapped import check_files

            found.check_before_runs(partial(check_files, files))
        return found

    unchecked = chosen.replace(listed=False)  # the model itself has been checked for unused providers

    def overridden(model: Model) -> Ready:
        return ready(prepare(model, unchecked, options, given.placement_rules, given.partitioning, writeable=made.writeable))

    overriding = None if other is None else Overriding(other, overridden)
    if profiler is not None:
        profiler.attach(partial(_collect, chosen.providers, prepared.assignment, events))
    if made.leaves_holes:
        heap.give_back()
    for file in files:
        file.give_back()
    if log.hears(options, log.INFO):
        _tell(options, prepared, perf_counter_ns() - begin)
    return SessionState(
        options,
        session_memory,
        ready(prepared),
        prepared,
        chosen,
        made.described,
        made.defaults,
        overriding,
        workers,
        None if report is None else report.trace(),
        later=made.later,
    )


def _is_verified(prepared: Prepared, given: Arguments) -> bool:
    """Return True if the first run is verified: it was asked for, and there is something to compare with the CPU provider."""
    if given.verify is None:
        return False
    return any(provider.name != selection.DEFAULT for provider in lifecycle.taking_part(prepared.assignment))


def _release(prepared: Prepared, options: SessionOptions, session_memory: SessionMemory) -> None:
    """Drop what a compiled model holds for the verification of its first run alone."""
    drop = partial(drop_constants, options, prepared)
    if session_memory.budget.limit is None:
        drop()
    else:
        from ort_lite.session import footprint

        footprint.refund(prepared, session_memory, drop)
    heap.give_back()


def _mapped_files(prepared: Prepared, source: ModelSource | Model, given: Arguments) -> "list[MappedFile]":
    """Return the mapped files that have the model's weights."""
    if not isinstance(source, Model) and (given.parse_options is None or not given.parse_options.no_copy):
        return []
    from ort_lite.load.mapped import mapped_files
    from ort_lite.load.tensors import model_tensors

    return mapped_files(span.owner for slot in model_tensors(prepared.model) if (span := slot.span) is not None)


def _collect(
    providers: Sequence[ExecutionProvider], assignment: Assignment, events: Stream, profiler: "Profiler", since: int
) -> None:
    """Add the providers' events and the node events to a profile that ends."""
    try:
        lifecycle.collect_events(providers, events)
    finally:
        profiler.nodes(hook("node_events")(profiler.trace(), assignment, since))


def _ready(prepared: Prepared, events: Stream, session_memory: SessionMemory, workers: "Workers | None") -> Ready:
    """Return a Ready, which can hold values on devices only if a provider is on one: CPU-only sessions pay nothing."""
    if all(provider.device == CPU for provider in prepared.assignment.providers.values()):
        return Ready(prepared, events, session_memory, workers=workers)
    from ort_lite.session.placed import ReadyOnDevices

    return ReadyOnDevices(prepared, events, session_memory, workers)


@contextmanager
def _report(options: SessionOptions, events: Stream) -> "Iterator[tuple[CreationReport | None, Span]]":
    """Yield a CreationReport, if one is requested, and the span function for the stages."""
    wanted = options.config(config_keys.CREATION_TRACE, "0") == "1" or log.hears(options, log.VERBOSE)
    if not wanted and not events.subscribers:
        yield None, no_span
        return
    from ort_lite.session.creation import CreationReport

    report = CreationReport(options)
    events.subscribe(report)
    try:
        yield report, events.span
    finally:
        events.unsubscribe(report)


def _tell(options: SessionOptions, prepared: Prepared, nanoseconds: int) -> None:
    """Log the number of nodes per provider and the time."""
    counts = dict.fromkeys(prepared.assignment.providers, 0)
    for partition in prepared.assignment.partitions:
        counts[label_of(prepared.assignment.providers, partition.provider)] += len(partition.nodes)
    said = ", ".join(f"{label} {count}" for label, count in counts.items())
    log.info(options, f"session made in {nanoseconds / 1e6:.1f} ms; nodes: {said}")


def _workers(options: SessionOptions, prepared: Prepared) -> "Workers | None":
    """Return the threads that run independent steps, if the options ask for parallel execution."""
    if options.execution_mode != ExecutionMode.ORT_PARALLEL:
        return None
    from ort_lite.execute.parallel import workers_of

    return workers_of(options.inter_op_num_threads, len(lifecycle.taking_part(prepared.assignment)))


def _save_contexts(source: ModelSource | Model, prepared: Prepared, options: SessionOptions) -> None:
    """Save the EPContext model that `ep.context_enable` asks for. Warns if no provider can serialize its partitions.

    Raises InvalidArgument if no path is known, or if it is the model's own.
    """
    from ort_lite.session.context import NothingToSave, save_with_contexts, with_contexts

    own = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    stem, ending = os.path.splitext(os.fsdecode(own))
    path = options.config(config_keys.CONTEXT_PATH, "") or (f"{stem}_ctx{ending}" if own else "")
    if not path or (own and os.path.realpath(path) == os.path.realpath(own)):
        why = "is the model's own file" if path else "is not set, and the model comes from no file"
        raise InvalidArgument(f"{config_keys.CONTEXT_ENABLE}: {config_keys.CONTEXT_PATH} {why}")
    try:
        made = with_contexts(prepared.model, prepared.assignment, prepared.compiled.partitions)
    except NothingToSave as nothing:
        log.warn(options, f"{config_keys.CONTEXT_ENABLE}: {nothing}")
        return
    try:
        save_with_contexts(made, path, options.config(config_keys.CONTEXT_EMBED, "0") == "1")
    except OrtLiteError:
        raise
    except OSError as error:
        raise Fail(f"{config_keys.CONTEXT_PATH} {path!r} cannot be written: {words(error)}") from error
