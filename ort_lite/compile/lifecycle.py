"""Calls to providers while a session lives, and what the session releases: hooks, profiles, consumed constants, states."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite.compile.compile import Compiled
from ort_lite.errors import InvalidArgument, OrtLiteError, ProviderError, RunTerminated, RuntimeException, format_error
from ort_lite.execute.guard import close
from ort_lite.graph.graph import Value
from ort_lite.graph.released import drop_constant
from ort_lite.inference.shape_rules import constant_info
from ort_lite.load.file_place import reader_of
from ort_lite.log.events import Stream
from ort_lite.memory.recipes import Recipes
from ort_lite.options.config_keys import DISABLE_SYNC
from ort_lite.options.options import RunOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.provider.abilities import consumes_constants, knows_unread, restores
from ort_lite.provider.ask import ask, format_answer, labels_of, who
from ort_lite.provider.current import CURRENT
from ort_lite.provider.provider import CPU, ExecutionProvider, Partition

if TYPE_CHECKING:
    from ort_lite.provider.compiled import ConsumesConstants, Restores

Run = Callable[..., list[Any]]
"""`Executable.run`."""


def with_hook(providers: Iterable[ExecutionProvider], hook: str) -> list[ExecutionProvider]:
    """The providers whose class overrides the hook."""
    base = getattr(ExecutionProvider, hook)
    return [provider for provider in providers if getattr(type(provider), hook) is not base]


def taking_part(assignment: Assignment) -> list[ExecutionProvider]:
    """The providers that have a partition, in order."""
    used = {id(partition.provider) for partition in assignment.partitions}
    return [provider for provider in assignment.providers.values() if id(provider) in used]


_RUN_HOOKS = ("on_run_start", "on_run_end", "sync")


def providers_with_hooks(assignment: Assignment) -> list[ExecutionProvider]:
    """Return the providers that take part, unless no provider has a hook of runs or a device."""
    providers = assignment.providers.values()
    wanted = any(provider.device != CPU for provider in providers) or any(with_hook(providers, hook) for hook in _RUN_HOOKS)
    return taking_part(assignment) if wanted else []


def call_hooks(run: Run, providers: Sequence[ExecutionProvider]) -> Run:
    """Return the run with the hooks of its providers, and the waits for their devices, around it; without any, the run itself."""
    starting, ending, syncing = (with_hook(providers, hook) for hook in _RUN_HOOKS)
    if not (starting or ending or syncing) and all(provider.device == CPU for provider in providers):
        return run
    from ort_lite.execute.waiting import DeviceWork

    hooks = [(provider, provider in starting, provider in ending) for provider in providers]

    def with_hooks(inputs: Sequence[Any], options: RunOptions | None = None, *call: Any) -> list[Any]:
        early, CURRENT.early = CURRENT.early, None
        outer, CURRENT.work = CURRENT.work, early or DeviceWork()
        work, entry = CURRENT.work, "" if options is None else options.config(DISABLE_SYNC, "")
        waits: list[Callable[[], object]] = []
        ends: list[Callable[[], object]] = []
        try:
            for provider, starts, stops in hooks:
                if stops:
                    ends.insert(0, partial(_call, provider, "on_run_end", options))
                if starts:
                    _call(provider, "on_run_start", options)
            waits = [partial(work.wait, options)]
            waits += [partial(_sync, provider, options) for provider in syncing if entry != "1"]
            outputs = run(inputs, options, *call)
        except BaseException as error:
            for failure in failures_of([*waits, *ends]):
                if not isinstance(failure, RunTerminated) and str(failure) != str(error):
                    error.add_note(str(failure))
            raise
        finally:
            CURRENT.work = outer
        if early is not None and entry != "0":
            waits = [partial(work.finish_reads, options)]
        raise_first(failures_of([*waits, *ends]))
        return outputs

    return with_hooks


def _sync(provider: ExecutionProvider, options: RunOptions | None) -> None:
    from ort_lite.execute.waiting import wait_for_device

    wait_for_device(partial(_call, provider, "sync"), options, who(provider))


def failures_of(calls: Iterable[Callable[[], object]]) -> list[OrtLiteError]:
    """Make all calls, also those after one that fails. Return what they raised."""
    failures = []
    for call in calls:
        try:
            call()
        except OrtLiteError as error:
            failures.append(error)
    return failures


def raise_first(failures: Sequence[OrtLiteError]) -> None:
    """Raise the first failure, if there is one, with the others as notes."""
    if failures:
        for other in failures[1:]:
            failures[0].add_note(str(other))
        raise failures[0]


def _call(provider: ExecutionProvider, hook: str, *arguments: Any) -> None:
    ask(provider, hook, *arguments, error=RuntimeException)


def finish_initialization(providers: Sequence[ExecutionProvider]) -> None:
    """Tells them that everything is compiled."""
    for provider in with_hook(providers, "on_session_initialization_end"):
        _call(provider, "on_session_initialization_end")


def set_dynamic_options(providers: Sequence[ExecutionProvider], options: Mapping[str, str]) -> None:
    """Offers them to every provider that has some. Raises InvalidArgument where none has, or none takes these."""
    able = with_hook(providers, "set_dynamic_options")
    if not able:
        names = ", ".join(provider.name for provider in providers)
        raise InvalidArgument(f"no provider of the session has options that change while it lives ({names})")
    given, refusals = {str(key): str(value) for key, value in options.items()}, []
    for provider in able:
        try:
            _call(provider, "set_dynamic_options", given)
        except InvalidArgument as refusal:
            refusals.append(refusal)
    if len(refusals) == len(able):
        raise refusals[0]


# Profiles


def start_profiling(providers: Sequence[ExecutionProvider]) -> None:
    """Call `start_profiling` of each provider, then raise the first error."""
    able = with_hook(providers, "start_profiling")
    raise_first(failures_of(partial(_call, provider, "start_profiling") for provider in able))


def collect_events(providers: Sequence[ExecutionProvider], stream: Stream) -> None:
    """Emit what providers recorded themselves, as Kernel events: of all, also where one fails."""

    def collect(label: str, provider: ExecutionProvider) -> None:
        for event in ask(provider, "end_profiling", label=label):
            stream.emit(event.replace(args={**event.args, "provider": label}, kind="Kernel"))

    able = with_hook(providers, "end_profiling")
    labels = zip(labels_of(providers), providers, strict=True)
    raise_first(failures_of(partial(collect, label, provider) for label, provider in labels if provider in able))


# What a session gives up


def drop_absorbed_constants(assignment: Assignment, compiled: Compiled, recipes: Recipes | None = None) -> list[str]:
    """Gives up the arrays of constants that every partition which reads them absorbed; returns their names.

    recipes: how arrays were derived from those of a file; None: it is not known.

    Partitions that the next provider may have to run keep theirs. A constant that is an output of a graph stays, and so does one
    whose contents shape inference reads: a provider that lowers a node with a body during a run infers the body again. O(constants
    read).
    """
    read: dict[Value, bool] = {}
    restored_by: dict[Value, Callable[[], Any]] = {}
    for partition in assignment.partitions:
        restorers = dict(_restorers(partition, compiled, recipes))
        restored_by.update(restorers)
        replaceable = partition.name in compiled.replaceable
        kept_by = set(partition.constants) if replaceable else _still_read(partition, compiled, restorers)
        for value in partition.constants:
            read[value] = read.get(value, True) and value not in kept_by
    given_up = [value for value, everywhere in read.items() if everywhere and not _is_needed(value)]
    for value in given_up:
        assert value.constant is not None
        value.constant = drop_constant(value, restored_by.get(value))
    for name, fused in compiled.fused.items():
        one = compiled.partitions[name]
        restorer = (lambda value, one=one, name=name: _restorer(one, value, name)) if restores(one) else None
        fused.give_up(_check_absorbed_values(one, name) if consumes_constants(one) else (), restorer)
    return [value.name for value in given_up]


def _is_needed(value: Value) -> bool:
    """Return True for an output of a graph, and for a constant with contents that shape rules may ask for."""
    return value.is_graph_output() or (value.constant is not None and constant_info(value.constant).contents is not None)


def _restorers(partition: Partition, compiled: Compiled, recipes: Recipes | None) -> Iterator[tuple[Value, Callable[[], Any]]]:
    """Return the functions that rebuild consumed constants, by the values of the graph."""
    one, fused = compiled.partitions[partition.name], compiled.fused.get(partition.name)
    if restores(one):
        found = _check_absorbed_values(one, partition.name)
        owns = {value: value if fused is None else fused.copies[value] for value in partition.constants}
        unread = set(one.unread(owns.values())) if knows_unread(one) else ()
        for value, own in owns.items():
            if own in found:
                yield value, _restorer(one, own, partition.name)
            elif own in unread and value.constant is not None and (reader := reader_of(value.constant, recipes)) is not None:
                yield value, reader


def _restorer(one: "Restores", value: Value, name: str) -> Callable[[], Any]:
    """Raises ProviderError where it fails, or returns nothing that can be called."""
    try:
        found: Any = one.restorer(value)
    except Exception as error:
        raise ProviderError(f"{name}: restorer failed for {value.name!r}: {format_error(error)}") from error
    if not callable(found):
        raise ProviderError(f"{name}: restorer returned {format_answer(found)} for {value.name!r}; expected a function")
    restorer: Callable[[], Any] = found
    return restorer


def _still_read(partition: Partition, compiled: Compiled, restored: Iterable[Value]) -> set[Value]:
    """The constants whose arrays the compiled partition did not absorb; of a fused one it has none that no copy stands for. One that
    makes constants again keeps all but those that are `restored`: saving and verifying find all.
    """
    one, fused = compiled.partitions[partition.name], compiled.fused.get(partition.name)
    if not consumes_constants(one):
        return set(partition.constants)
    if restores(one):
        return set(partition.constants).difference(restored)
    if fused is None:
        return set(partition.constants) - _check_absorbed_values(one, partition.name)
    left = set(fused.partition.constants) - _check_absorbed_values(one, partition.name)
    return {value for value in partition.constants if fused.copies[value] in left}


def _check_absorbed_values(one: "ConsumesConstants", name: str) -> set[Value]:
    """Raises ProviderError where they are no Values, or it fails to say them."""
    try:
        found: Any = one.absorbed
    except Exception as error:
        raise ProviderError(f"{name}: absorbed failed: {format_error(error)}") from error
    values = list(found) if isinstance(found, Iterable) else [found]
    if not all(isinstance(value, Value) for value in values):
        raise ProviderError(f"{name}: absorbed is {format_answer(found)}; expected Values of its constants")
    return set(values)


def close_states(compiled: Compiled) -> None:
    """Releases the states of partitions that have one, when no run is in them any more: of all, also where one fails."""
    raise_first(failures_of(partial(close, function) for function in compiled.called.values()))
