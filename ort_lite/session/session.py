"""Session: load a model, run it, explain it, close it. `session_state` makes what it calls, and keeps `run` short."""

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
from ort_lite.native.progress import Logged, piece
from ort_lite.options import config_keys
from ort_lite.options.creation import creating
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.partition.placement import PlacementRule
from ort_lite.plugins import selection
from ort_lite.plugins.rooms import hook
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import Device, ExecutionProvider
from ort_lite.session.metadata import ModelMetadata, NodeArg
from ort_lite.session.opening import Params, source_to_keep
from ort_lite.session.preparation import Arguments, disable, limit_creation, note_unknown, require, with_mmap
from ort_lite.session.prepare import Prepared
from ort_lite.session.ready import Closed, Ready
from ort_lite.session.session_state import SessionState, make_state

if TYPE_CHECKING:
    from ort_lite.execute.profiling import Profiler
    from ort_lite.load.parse_options import ParseOptions
    from ort_lite.partition.cost.strategy import Strategy
    from ort_lite.session.creation import CreationTrace
    from ort_lite.session.explanation import Explanation


class Session:
    """A model, ready to run. `run` may be called from many threads at once.

    `path_or_bytes`: a path, bytes, bytearray, memoryview, ModelProto, binary file or Model. `providers` lists names,
    (name, options), classes or instances in order of preference; None: those of `ort_lite.set_default_providers`, which are the CPU
    provider alone unless a program sets others. The CPU provider comes last in any case. A provider that is not installed, has no
    device or is assigned no node costs a warning; with `strict=True` (config entry `ort_lite.strict`) it is a ProviderError, but for
    the CPU provider. Options may hold those of `ort_lite.options.policies`. Keywords:
    `placement_rules` (see `ort_lite.partition.placement`), `partitioning` ("greedy", "cost" or a strategy, see
    `ort_lite.partition.cost`), `disabled_optimizers`, `parse_options` (ParseOptions), `params` (see `load_params`), `mmap`: with
    True, weights are not copied but stay in the mapped files of external data (and in a buffer that the caller passes); files that
    change end the next run with Fail, see docs/memory.md; `creation_timeout` (seconds; that of the options may be less). Raises what
    loading, transforms, providers and compilation raise, DeadlineExceeded after the creation timeout, ModelLoadCanceled after
    `SessionOptions.set_load_cancellation_flag(True)`.
    """

    _model_path: str | None = None
    """The path that the model came by. None: it came as something else."""

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
        **kwargs: Any,
    ) -> None:
        options = self._own_options(sess_options)
        require(options, strict)
        limit_creation(options, creation_timeout)
        disable(options, disabled_optimizers)
        note_unknown(options, kwargs)
        chosen = selection.readable(providers, provider_options, options)
        self._arguments = Arguments(*chosen, with_mmap(parse_options, mmap), tuple(placement_rules), partitioning)
        self._events = Stream(locks.rlock())
        self._profiler = _profiler(options, self._events)
        self._kept, self._own_params = source_to_keep(path_or_bytes), params is not None
        with piece(Logged(options)), creating(options):
            self._state = make_state(path_or_bytes, options, self._arguments, params, self._events, self._profiler)
        if entries := options.config_entries:
            acting = config_keys.ACTING.union(*(provider.config_keys for provider in self._state.selection.providers))
            config_keys.note_without_effect(entries, acting, "session", options)
        if self._profiler is not None:
            weakref.finalize(self, self._profiler.write_left)
        self._changing, self._told = locks.lock(), threading.local()
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path = os.fspath(path_or_bytes)

    def __repr__(self) -> str:
        state = self._state
        if state.prepared is None:
            return f"{type(self).__name__}(closed)"
        sides = {
            name: [f"{arg.name}: {arg.type}{arg.shape}" for arg in args]
            for name, args in (("inputs", state.inputs), ("outputs", state.outputs))
        }
        facts = {**sides, "providers": list(state.prepared.assignment.providers)}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in facts.items())})"

    @staticmethod
    def _own_options(given: SessionOptions | None) -> SessionOptions:
        """A copy of the options that came, which is the session's."""
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
    ) -> list[Any]:
        """The outputs by name, all in the model's order for None. Arrays that are returned are the caller's.

        `verify`: "partition" or a Verification: each partition of another provider runs on the CPU provider as well, from the
        same inputs (see `ort_lite.tools.verify`). `timeout`: seconds, after which the run is ended; that of the options may be less.
        Raises InvalidArgument for a feed or name that does not fit, RuntimeException naming node and provider, VerificationError
        where a partition is off, DeadlineExceeded after the timeout, Cancelled where `RunOptions.terminate` was set.
        """
        if timeout is not None or verify is not None:
            return self._run_watched(output_names, input_feed, run_options, verify, timeout)
        if run_options is not None:
            input_feed = run_options.extend_feed(input_feed)
        state = self._state
        if state.defaults and not state.defaults.keys().isdisjoint(input_feed):
            ready, input_feed = _override(state, input_feed, run_options)
            return ready.run(output_names, input_feed, run_options)
        return state.ready.run(output_names, input_feed, run_options)

    def _run_watched(
        self,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        options: RunOptions | None,
        verify: Any,
        timeout: float | None = None,
    ) -> list[Any]:
        """A run with a deadline, or beside the CPU provider, or both."""
        if timeout is not None:
            from ort_lite.options.deadline import limited

            with limited(options, timeout) as own:
                return self.run(names, feed, own, verify=verify)
        assert verify is not None
        ready, feed = self._ready_for(feed, options)
        if isinstance(ready, Closed):
            return ready.run(names, feed, options)
        run = partial(ready.run_other, names, feed, options)
        outputs: list[Any] = hook("verify")(
            ready, self._state.options, verify, run, lambda report: setattr(self._told, "report", report)
        )
        return outputs

    def _ready_for(self, feed: Mapping[str, Any], options: RunOptions | None) -> tuple[Ready | Closed, Mapping[str, Any]]:
        """Return what runs this feed, and the feed with the parameters of adapters, without overridden initializers."""
        if options is not None:
            feed = options.extend_feed(feed)
        state = self._state
        if state.defaults and not state.defaults.keys().isdisjoint(feed):
            return _override(state, feed, options)
        return state.ready, feed

    def _run_into(self, input_feed: Mapping[str, Any], targets: Mapping[str, Any]) -> dict[str, Any] | None:
        """See `Ready.run_into`; None as well where the feed overrides initialisers, and once the session is closed."""
        state = self._state
        if not isinstance(state.ready, Ready) or not state.defaults.keys().isdisjoint(input_feed):
            return None
        return state.ready.run_into(input_feed, targets)

    def _run_placed(
        self,
        names: Sequence[str],
        feed: Mapping[str, Any],
        options: RunOptions | None,
        wanted: Mapping[str, Device],
    ) -> list[Any]:
        """Run the model; outputs in `wanted` stay on a device of the session, as DeviceTensors."""
        ready, feed = self._ready_for(feed, options)
        if wanted:
            from ort_lite.session.placed import ReadyOnDevices

            if isinstance(ready, ReadyOnDevices):
                return ready.run_placed(names, feed, options, wanted)
        return ready.run(names, feed, options)

    def _devices(self) -> dict[Device, ExecutionProvider]:
        """Devices of the session's providers, the CPU too; of several on one the first."""
        return {provider.device: provider for provider in reversed(self._state.selection.providers)}

    @property
    def verification(self) -> Any:
        """The `ort_lite.tools.verify.VerificationReport` of the last `run(verify=...)` of this thread, or None if there was none."""
        return getattr(self._told, "report", None)

    def save_compiled(self, path: str | os.PathLike[str], embed: bool = True) -> None:
        """Writes a model in which partitions that providers can save are compiled already (see `ort_lite.session.context`), in the
        model's file or, without `embed`, in files of their own beside it.

        A session of it compiles the other nodes alone. Raises ProviderError when no provider can save its partitions or one fails to,
        and RuntimeException once the session is closed; then no file is written.
        """
        prepared = self._state.prepared
        if prepared is None:
            raise RuntimeException("the session is closed")
        from ort_lite.session.context import save_with_contexts, with_contexts

        made = with_contexts(prepared.model, prepared.assignment, prepared.compiled.partitions)
        save_with_contexts(made, os.fspath(path), embed)

    def close(self) -> None:
        """Gives up what is compiled, once the runs in flight are done with it; later runs raise. A second time does nothing.

        States of partitions are released when nobody is in them any more. What the session says of itself stays. If a provider fails
        meanwhile, everything else is released all the same, and its error is raised at the end.
        """
        failures: list[OrtLiteError] = []
        with self._changing:
            state = self._state
            if state.prepared is None:
                return
            self._state = state.closed(failures)
            forms = state.forms()
            state.account.close()
        if state.workers is not None:
            state.workers.close()
        failures += lifecycle.failures_of(partial(lifecycle.close_states, prepared.compiled) for prepared in forms)
        lifecycle.raise_first(failures)

    def load_params(self, params: Params) -> None:
        """Gives the model's parameters other values: arrays by name, or the bytes that `ort_lite.save_params` made.

        A name is that of an initialiser, or of an input, which then need not be fed any more. Parameters that are not named
        have the values of the model's file. The session is prepared anew, from the file or object that it was made from; runs
        in flight end with the old values. Raises InvalidArgument for a name that the model lacks, another element type or
        shape, a parameter that has no value at all, once the session is closed, and where it was made from a large buffer,
        which it has not kept; InvalidParams for bytes that are no parameters. The session is unchanged then.
        """
        self._remake("load_params", self._arguments, params)

    def _remake(self, who: str, arguments: Arguments, params: Params | None) -> None:
        """Prepares the session anew; without parameters those of the file, which may not be where others were loaded before."""
        state = self._state
        if self._kept is None or (params is None and self._own_params):
            raise InvalidArgument(
                f"{who}: the session was made from a buffer or file object that it has not kept, or with parameters; "
                "make it from a path or a Model (`ort_lite.load`), or make another session"
            )
        if state.prepared is not None:
            with piece(Logged(state.options)), creating(state.options):
                profiler = None if self._profiler is None or self._profiler.ended else self._profiler
                fresh = make_state(self._kept, state.options.copy(), arguments, params, self._events, profiler)
            with self._changing:
                if self._state.prepared is not None:
                    self._state, self._arguments = fresh, arguments
                    self._own_params = params is not None
                    return
            fresh.account.close()
        raise InvalidArgument(f"{who}: the session is closed")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source of the session: see `ort_lite.session.pickling`. Raises InvalidArgument if it was not kept, and
        RuntimeException once the session is closed.
        """
        if self._state.prepared is None:
            raise RuntimeException("the session is closed")
        from ort_lite.session.pickling import made_again, parts

        return made_again, parts(type(self), self._kept, self._state.options, self._arguments, self._own_params)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What the session is

    @property
    def _prepared(self) -> Prepared:
        """Return the results of the stages, for tools. Raises RuntimeException once the session is closed."""
        prepared = self._state.prepared
        if prepared is None:
            raise RuntimeException("the session is closed")
        return prepared

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs: names, types and shapes."""
        return list(self._state.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs: names, types and shapes."""
        return list(self._state.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initialisers that a feed may replace (IR version 4 and newer, listed as inputs too)."""
        return list(self._state.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Return the model's metadata."""
        return self._state.metadata

    def get_providers(self) -> list[str]:
        """Names in order of preference."""
        return list(dict.fromkeys(provider.name for provider in self._state.selection.providers))

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """The options in force, by name; of two instances of one provider those of the first."""
        return {provider.name: ask(provider, "get_options") for provider in reversed(self._state.selection.providers)}

    def get_session_options(self) -> SessionOptions:
        """A copy: changing it changes nothing."""
        return self._state.options.copy()

    def explain(self) -> "Explanation":
        """Return the provider of each node and the reasons why others do not run it."""
        return self._state.explain()

    def view(
        self,
        feeds: Mapping[str, Any] | None = None,
        *,
        other: "Session | None" = None,
        profile: "str | os.PathLike[str] | None" = None,
    ) -> Any:
        """Show the model, stage by stage, as a document and as a page for a browser: `session.view().save("page.html")`.

        With `feeds` the session runs on them, and the page shows the time of each node, one of the runs and the memory that it
        planned. With `profile` times are read from a file that `end_profiling` wrote. `other`: a session to compare with, of the same
        model. Raises InvalidArgument for a file that is no profile, and what a run raises.
        """
        view = hook("view")(self, feeds, profile)
        return view if other is None else view.beside(other.view(feeds))

    def _repr_html_(self) -> str:
        title = os.path.basename(self._model_path or "") or self.get_modelmeta().graph_name or "model"
        html: str = hook("notebook")(title, self.explain(), self._state.inputs, self._state.outputs)
        return html

    @property
    def creation_trace(self) -> "CreationTrace | None":
        """Return the steps of session creation and their times. None unless the config entry `ort_lite.creation_trace` is "1"
        or the session is profiled or logs verbose messages.
        """
        return self._state.creation

    def memory_plans(self) -> dict[str, Any]:
        """Return the positions of tensors, by partition, as far as compiled partitions state them; those of runs so far."""
        return self._state.memory_plans()

    def memory(self) -> dict[str, Any]:
        """Return the memory that the session holds now, in bytes: constants (of them those in mapped files), packed weights,
        scratch (held, in use by runs, held at most; leases, arenas), and data cached by shape; by provider too, with the
        counts of their allocators.

        Arrays that sessions share count in each. Nothing once the session is closed.
        """
        from ort_lite.session import footprint

        state = self._state
        return footprint.figures(state.forms(), state.account)

    def trim(self) -> None:
        """Gives back scratch memory that no run has, and forgets what is kept for each shape; the next run makes it anew.

        Constants and packed weights stay. With `session.use_env_allocators` idle memory of all sessions goes.
        """
        from ort_lite.session import footprint

        state = self._state
        footprint.trim(state.forms(), state.account)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Options that providers let change while a session lives. Raises InvalidArgument for those that none of them knows."""
        lifecycle.set_dynamic_options(self._state.selection.providers, options)

    # Profiling

    def get_profiling_start_time_ns(self) -> int:
        """Return the start of profiling on the clock of `time.perf_counter_ns`; 0 when profiling is off."""
        return self._profiler.start if self._profiler is not None else 0

    def end_profiling(self) -> str:
        """Write the profile and return the file's name; "" when profiling is off or has ended.

        A session that is deleted without it, or there when the process exits, writes its profile then.
        """
        return "" if self._profiler is None else self._profiler.end()

    def discard_profile(self) -> None:
        """End profiling without a file."""
        if self._profiler is not None:
            self._profiler.discard()


def _profiler(options: SessionOptions, events: Stream) -> "Profiler | None":
    if not options.enable_profiling:
        return None
    from ort_lite.execute.profiling import Profiler

    return Profiler(events, options.profile_file_prefix)


def _override(
    state: SessionState, feed: Mapping[str, Any], options: RunOptions | None
) -> tuple[Ready | Closed, Mapping[str, Any]]:
    """The model compiled with overridable initialisers as inputs, and the whole feed. One that is fed None keeps its value."""
    ready = state.ready if state.overriding is None else state.overriding.ready(options)
    given = {name: array for name, array in feed.items() if array is not None or name not in state.defaults}
    return ready, {**{name: value.constant for name, value in state.defaults.items()}, **given}


def __getattr__(name: str) -> Any:
    """Names that were here before they moved."""
    from ort_lite.plugins.moved import moved_name

    return moved_name(__name__, name)
