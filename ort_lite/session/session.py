"""The Session class: load, run, explain and close a model. Creation lives in `session_state`.

The file is long because it documents the arguments and errors of every public method.
"""

import os
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ort_lite.compile import lifecycle
from ort_lite.errors import InvalidArgument, OrtLiteError, RuntimeException
from ort_lite.graph.model import Model
from ort_lite.load.source import ModelSource
from ort_lite.log.events import Stream
from ort_lite.memory import locks
from ort_lite.options import config_keys
from ort_lite.options.creation_limits import creating
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.partition.placement import PlacementRule
from ort_lite.plugins import selection
from ort_lite.plugins.rooms import hook
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import CPU, Device, ExecutionProvider
from ort_lite.session.creation_line import show_creation
from ort_lite.session.metadata import ModelMetadata, NodeArg, summarize
from ort_lite.session.opening import Params, source_to_keep
from ort_lite.session.preparation import (
    Arguments,
    disable,
    first_run_tolerances,
    limit_creation,
    note_unknown,
    require,
    with_mmap,
)
from ort_lite.session.prepare import Prepared
from ort_lite.session.ready import Ready
from ort_lite.session.session_state import make_state

if TYPE_CHECKING:
    from ort_lite.execute.donation import Donations
    from ort_lite.execute.profiling import Profiler
    from ort_lite.execute.replay import KeptMemory
    from ort_lite.load.parse_options import ParseOptions
    from ort_lite.partition.cost.strategy import Strategy
    from ort_lite.session.creation import CreationTrace
    from ort_lite.session.explanation import Explanation
    from ort_lite.session.run_state import RunState


class Session:
    """A model that is ready to run. `run` may be called from several threads at once.

    See `InferenceSession` for the class with onnxruntime's conversions; both take the same arguments.

    Args:
        path_or_bytes: a path, bytes, bytearray, memoryview, ModelProto, binary file or Model.
        sess_options: the options, which are copied. May hold the policies of `ort_lite.options.policies`.
        providers: names, (name, options) pairs, classes or instances in order of preference. None: the providers of
            `ort_lite.set_default_providers`, by default the CPU provider alone. The CPU provider always comes last.
        provider_options: one mapping per provider, as in onnxruntime.
        params: parameter values (see `load_params`).
        parse_options: the ParseOptions for loading.
        placement_rules: rules that pin nodes to providers (see `ort_lite.partition.placement`).
        partitioning: "greedy", "cost" or a strategy (see `ort_lite.partition.cost`). None: the config's.
        disabled_optimizers: names of transforms to skip.
        strict: True raises ProviderError for a listed provider that is not installed, has no device or runs no node; the CPU
            provider is exempt. False warns. None: the config entry `ort_lite.strict`.
        mmap: True leaves weights in mapped external data files, and in a buffer that the caller passes, instead of copying them.
            If a file changes, the next run raises Fail (see docs/memory.md).
        creation_timeout: a limit in seconds; a smaller one in the options holds.
        verify: "first", or a Verification with tolerances: compare each partition of another provider with the CPU provider in the
            first run, and in later ones until a run passes (see docs/reference/verification.md). None: the config entry
            `ort_lite.verify`.

    Raises the errors of loading, transforms, providers and compiling; DeadlineExceeded after the creation timeout;
    ModelLoadCanceled after `SessionOptions.set_load_cancellation_flag(True)`.
    """

    _model_path: str | None = None
    """The path of the model's file. None: the model came in another form."""

    def __init__(
        self,
        path_or_bytes: ModelSource | Model,
        sess_options: SessionOptions | None = None,
        providers: Sequence[selection.ProviderEntry] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        params: Params | None = None,
        parse_options: "ParseOptions | None" = None,
        mmap: bool = False,
        placement_rules: Sequence[PlacementRule] = (),
        partitioning: "Strategy | str | None" = None,
        disabled_optimizers: Collection[str] | None = None,
        strict: bool | None = None,
        creation_timeout: float | None = None,
        verify: Any = None,
        **unknown: Any,
    ) -> None:
        options = self._own_options(sess_options)
        require(options, strict)
        limit_creation(options, creation_timeout)
        disable(options, disabled_optimizers)
        note_unknown(options, unknown)
        chosen = selection.readable(providers, provider_options, options)
        tolerances = first_run_tolerances(options, verify)
        self._arguments = Arguments(*chosen, with_mmap(parse_options, mmap), tuple(placement_rules), partitioning, tolerances)
        self._events = Stream(locks.rlock())
        self._profiler = _profiler(options, self._events)
        self._kept, self._own_params = source_to_keep(path_or_bytes), params is not None
        self._changing, self._told = locks.lock(), threading.local()
        self._tell = partial(setattr, self._told, "report")
        with show_creation(self._events, options), creating(options):
            self._state = make_state(path_or_bytes, options, self._arguments, params, self._events, self._profiler, self._tell)
        if entries := options.config_entries:
            acting = config_keys.ACTING.union(*(provider.config_keys for provider in self._state.selection.providers))
            config_keys.note_without_effect(entries, acting, "session", options)
        if self._profiler is not None:
            weakref.finalize(self, self._profiler.write_pending)
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path = os.fspath(path_or_bytes)

    @staticmethod
    def _own_options(given: SessionOptions | None) -> SessionOptions:
        """Return a copy of the options for this session."""
        return SessionOptions() if given is None else given.copy()

    # Running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        *,
        verify: Any = None,
        timeout: float | None = None,
        state: "RunState | None" = None,
    ) -> list[Any]:
        """Run the model and return the outputs with these names, or all outputs for None.

        The returned arrays belong to the caller.

        Args:
            output_names: names of outputs, in the order of the results.
            input_feed: values by input name.
            run_options: options of this run.
            verify: "partition" or a Verification: also run each partition of another provider on the CPU provider, and compare.
            timeout: a limit in seconds; a smaller one in the options holds.
            state: values of `create_run_state` that are fed as well and replaced by the run. Their outputs are not returned.

        Raises:
            InvalidArgument: a value or name does not fit the model, or another run uses the state.
            RuntimeException: a node failed; the message names node and provider.
            VerificationError: a partition's results differ, with `verify` or in the first run of a session with `verify`.
            DeadlineExceeded: the timeout has passed.
            Cancelled: `RunOptions.terminate` was set.
        """
        if state is not None or timeout is not None or verify is not None:
            return self._run_with(output_names, input_feed, run_options, verify, timeout, state)
        made = self._state
        if run_options is None and not made.defaults:
            return made.ready.run(output_names, input_feed, None)
        ready, input_feed = self._ready_for(input_feed, run_options)
        return ready.run(output_names, input_feed, run_options)

    def _run_with(
        self,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        options: RunOptions | None,
        verify: Any,
        timeout: float | None,
        state: "RunState | None",
    ) -> list[Any]:
        """Run with a timeout, with the values of a state, with verification, or with several of these."""
        if timeout is not None:
            from ort_lite.options.deadline import limit_run

            with limit_run(options, timeout) as own:
                return self.run(names, feed, own, verify=verify, state=state)
        if state is not None:
            return state.run(partial(self._run_with_values, options, verify), self, names, feed)
        ready, feed = self._ready_for(feed, options)
        run = partial(ready.run_other, names, feed, options)
        outputs: list[Any] = hook("verify")(ready, self._state.options, verify, run, self._tell)
        return outputs

    def _run_with_values(
        self,
        options: RunOptions | None,
        verify: Any,
        names: Sequence[str],
        feed: Mapping[str, Any],
        wanted: Mapping[str, Device],
        donations: "Donations",
    ) -> list[Any]:
        """Run with the values of a state in the feed. A verified run makes its values on the CPU."""
        if verify is None:
            return self._start_run(names, feed, options, wanted, donations, waits=True)
        from ort_lite.session.device_values import on_cpu

        return self.run(names, {name: on_cpu(x) for name, x in feed.items()}, options, verify=verify)

    def create_run_state(self, links: Mapping[str, str], initial: Mapping[str, Any]) -> "RunState":
        """Return values that stay in the session between runs, such as the caches of a language model.

        Args:
            links: the output that replaces each input after a run, by input: `{"past": "present"}`.
            initial: the first value of each of these inputs: arrays, OrtValues, or lists for sequences. They are copied.

        Raises InvalidArgument for unknown names, types that differ, and missing values.
        """
        from ort_lite.session.run_state import create_run_state

        return create_run_state(self, links, initial)

    def _ready_for(self, feed: Mapping[str, Any], options: RunOptions | None) -> tuple[Ready, Mapping[str, Any]]:
        """Return the compiled form for this feed, and the complete feed with adapters and overridden initializers.

        An initializer that is fed None keeps its value. Raises RuntimeException if the session is closed.
        """
        if options is not None:
            feed = options.extend_feed(feed)
        state = self._state
        if not isinstance(state.ready, Ready):
            raise RuntimeException("the session is closed")
        if not state.defaults or state.defaults.keys().isdisjoint(feed):
            return state.ready, feed
        ready = state.ready if state.overriding is None else state.overriding.ready(options)
        given = {name: array for name, array in feed.items() if array is not None or name not in state.defaults}
        return ready, {**{name: value.constant for name, value in state.defaults.items()}, **given}

    def _run_into(self, input_feed: Mapping[str, Any], targets: Sequence[Any]) -> list[Any] | None:
        """Call `Ready.run_into`. None if the feed overrides initializers or the session is closed."""
        state = self._state
        if not isinstance(state.ready, Ready) or not state.defaults.keys().isdisjoint(input_feed):
            return None
        return state.ready.run_into(input_feed, targets)

    def _start_run(
        self,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        options: RunOptions | None,
        wanted: Mapping[str, Device],
        donations: "Donations | None" = None,
        memory: "KeptMemory | None" = None,
        waits: bool = False,
    ) -> list[Any]:
        """Run the model and return before its devices have finished, unless `waits`. Outputs in `wanted` are DeviceTensors there."""
        ready, feed = self._ready_for(feed, options)
        return ready.start_run(names, feed, options, wanted, donations, memory, waits)

    def _aliases(self) -> dict[str, str]:
        """Return the inputs in whose memory `_run_into` may compute outputs, by output."""
        ready = self._state.ready
        return ready.aliases() if isinstance(ready, Ready) else {}

    def _home(self, name: str) -> Device:
        """Return the device on which a partition makes an output."""
        ready = self._state.ready
        return ready.home(name) if isinstance(ready, Ready) else CPU

    def _devices(self) -> dict[Device, ExecutionProvider]:
        """Return the session's devices with their first provider, the CPU included."""
        return {provider.device: provider for provider in reversed(self._state.selection.providers)}

    @property
    def verification(self) -> Any:
        """The `ort_lite.tools.verify.VerificationReport` of this thread's last verified run, or None."""
        return getattr(self._told, "report", None)

    def save_compiled(self, path: str | os.PathLike[str], embed: bool = True) -> None:
        """Write a model in which partitions are already compiled, where their providers can serialize them.

        Compiled partitions are EPContext nodes (see `ort_lite.session.context`), stored in the model's file or, without
        `embed`, in files next to it. A session of the new model compiles only the remaining nodes. Raises ProviderError if no
        provider can serialize its partitions or one fails, and RuntimeException if the session is closed; no file is written
        then.
        """
        prepared = self._stage_results
        from ort_lite.session.context import save_with_contexts, with_contexts

        made = with_contexts(prepared.model, prepared.assignment, prepared.compiled.partitions)
        save_with_contexts(made, os.fspath(path), embed)

    def close(self) -> None:
        """Release compiled code once in-flight runs finish. Later runs raise; a second call does nothing.

        States of partitions are released when no run uses them any more. Metadata and the explanation stay available. If a
        provider fails while closing, everything else is still released, and its error is raised at the end.
        """
        failures: list[OrtLiteError] = []
        with self._changing:
            state = self._state
            if state.prepared is None:
                return
            self._state = state.after_closing(failures)
            made, forms = state.ready_forms(), state.forms()
            state.session_memory.close()
        if state.workers is not None:
            state.workers.close()
        failures += lifecycle.failures_of(ready.finish for ready in made)
        failures += lifecycle.failures_of(partial(lifecycle.close_states, prepared.compiled) for prepared in forms)
        lifecycle.raise_first(failures)

    def load_params(self, params: Params) -> None:
        """Set parameters to other values: arrays by name, or the bytes that `ort_lite.save_params` returned.

        A name is that of an initializer, or of an input, which then need not be fed. Parameters that are not named have the
        values of the model's file. The session is prepared again from its source; runs in flight finish with the old values.

        Raises:
            InvalidArgument: an unknown name, another element type or shape, a parameter without any value, a closed session, or a
                session whose source was a large buffer, which is not kept.
            InvalidParams: bytes that do not hold parameters. The session is unchanged after an error.
        """
        self._remake("load_params", self._arguments, params)

    def _remake(self, who: str, arguments: Arguments, params: Params | None) -> None:
        """Prepare the session again. Without `params` it gets the file's values, so loaded parameters must not be in use."""
        state = self._state
        if self._kept is None or (params is None and self._own_params):
            raise InvalidArgument(
                f"{who}: the session was made from a buffer or file object that it has not kept, or with parameters; "
                "make it from a path or a Model (`ort_lite.load`), or make another session"
            )
        if state.prepared is not None:
            with show_creation(self._events, state.options), creating(state.options):
                profiler = None if self._profiler is None or self._profiler.ended else self._profiler
                fresh = make_state(self._kept, state.options.copy(), arguments, params, self._events, profiler, self._tell)
            with self._changing:
                if self._state.prepared is not None:
                    self._state, self._arguments = fresh, arguments
                    self._own_params = params is not None
                    return
            fresh.session_memory.close()
        raise InvalidArgument(f"{who}: the session is closed")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the session as its source and arguments (see `ort_lite.session.pickling`).

        Raises InvalidArgument if the source was not kept, and RuntimeException if the session is closed.
        """
        if self._state.prepared is None:
            raise RuntimeException("the session is closed")
        from ort_lite.session.pickling import parts, recreate

        return recreate, parts(type(self), self._kept, self._state.options, self._arguments, self._own_params)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Description

    @property
    def _stage_results(self) -> Prepared:
        """The results of the stages, for tools. Raises RuntimeException if the session is closed."""
        prepared = self._state.prepared
        if prepared is None:
            raise RuntimeException("the session is closed")
        return prepared

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs: names, types and shapes."""
        return list(self._state.described.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs: names, types and shapes."""
        return list(self._state.described.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that a feed may replace (IR version 4 and newer: those that are also inputs)."""
        return list(self._state.described.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Return the model's metadata."""
        return self._state.described.metadata

    def get_providers(self) -> list[str]:
        """Return the names of the providers in order of preference."""
        return list(dict.fromkeys(provider.name for provider in self._state.selection.providers))

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Return the options in force by provider name; of several instances, those of the first."""
        return {provider.name: ask(provider, "get_options") for provider in reversed(self._state.selection.providers)}

    def get_session_options(self) -> SessionOptions:
        """Return a copy of the session's options."""
        return self._state.options.copy()

    def explain(self, *, kernels: bool = False) -> "Explanation":
        """Return the provider of each node and the reasons of the other providers.

        With `kernels`, also the kernels of each node, and why other candidates were not taken; after `close()`, without these.
        """
        return self._state.explain(kernels=kernels)

    def view(
        self,
        feeds: Mapping[str, Any] | None = None,
        *,
        other: "Session | None" = None,
        profile: "str | os.PathLike[str] | None" = None,
    ) -> Any:
        """Show the model after each stage as a page for a browser: `session.view().save("page.html")`.

        Args:
            feeds: inputs for a run; the page then shows the time of each node and the planned memory.
            other: another session of the same model to compare with.
            profile: a file written by `end_profiling`, from which the times are read.

        Raises InvalidArgument for a file that is not a profile, and the errors of a run.
        """
        view = hook("view")(self, feeds, profile)
        return view if other is None else view.beside(other.view(feeds))

    def _repr_html_(self) -> str:
        described = self._state.described
        html: str = hook("notebook")(self._title(), self.explain(), described.inputs, described.outputs)
        return html

    def __repr__(self) -> str:
        state, described = self._state, self._state.described
        sides = f"inputs: {summarize(described.inputs)}; outputs: {summarize(described.outputs)}"
        closed = "; closed" if state.prepared is None else ""
        return f"{type(self).__name__}({self._title()!r}; {sides}; providers: {', '.join(self.get_providers())}{closed})"

    def _title(self) -> str:
        return os.path.basename(self._model_path or "") or self.get_modelmeta().graph_name or "model"

    @property
    def creation_trace(self) -> "CreationTrace | None":
        """The steps of session creation with their times, or None if they were not recorded.

        They are recorded if the config entry `ort_lite.creation_trace` is "1", or the session is profiled or logs verbose
        messages.
        """
        return self._state.creation

    def memory_plans(self) -> dict[str, Any]:
        """Return the planned positions of tensors by partition, for the shapes run so far."""
        return self._state.memory_plans()

    def memory(self) -> dict[str, Any]:
        """Return the memory that the session holds now, in bytes.

        The figures cover constants (and those in mapped files), packed weights, scratch memory and data cached per shape, in
        total and by provider, with the statistics of the providers' allocators. Arrays that sessions share count in each of
        them. A closed session holds nothing.
        """
        from ort_lite.session import footprint

        state = self._state
        return footprint.figures(state.forms(), state.session_memory)

    def trim(self) -> None:
        """Release idle scratch memory and data cached per shape. The next run creates them again.

        Constants and packed weights stay. With `session.use_env_allocators`, idle memory of all sessions is released.
        """
        from ort_lite.session import footprint

        state = self._state
        footprint.trim(state.forms(), state.session_memory)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Set provider options that may change while a session lives. Raises InvalidArgument for unknown ones."""
        lifecycle.set_dynamic_options(self._state.selection.providers, options)

    # Profiling

    def get_profiling_start_time_ns(self) -> int:
        """Return the start of profiling on the clock of `time.perf_counter_ns`; 0 when profiling is off."""
        return self._profiler.start if self._profiler is not None else 0

    def end_profiling(self) -> str:
        """Write the profile and return the file's name; "" if profiling is off or has ended.

        Otherwise the profile is written when the session is deleted or the process exits.
        """
        return "" if self._profiler is None else self._profiler.end()

    def discard_profile(self) -> None:
        """End profiling without writing a file."""
        if self._profiler is not None:
            self._profiler.discard()


def _profiler(options: SessionOptions, events: Stream) -> "Profiler | None":
    if not options.enable_profiling:
        return None
    from ort_lite.execute.profiling import Profiler

    return Profiler(events, options.profile_file_prefix)


def __getattr__(name: str) -> Any:
    """Resolve a name that has moved to another module."""
    from ort_lite.plugins.moved import resolve_name

    return resolve_name(__name__, name)
