"""InferenceSession: wires the stages, and keeps `run` short."""

import os
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite import config_keys, footprint, lifecycle, log, plugins, selection
from ort_lite.errors import RuntimeException
from ort_lite.explanation import Explanation
from ort_lite.graph import Model, Value
from ort_lite.metadata import ModelMetadata, NodeArg, metadata, node_args, refined
from ort_lite.opening import open_model, save_optimized, source_to_keep
from ort_lite.options import RunOptions, SessionOptions
from ort_lite.pipeline import Prepared, Span, apply_options, no_span, prepare
from ort_lite.ready import Closed, Ready
from ort_lite.stages.load import ModelSource
from ort_lite.tensors.session_methods import TensorMethods

if TYPE_CHECKING:
    from ort_lite.profiling import Profiler
    from ort_lite.verification.report import Report
    from ort_lite.verification.settings import Verification


class InferenceSession(TensorMethods):
    """A model, ready to run. `run` may be called from many threads at once.

    `path_or_bytes`: a path, bytes, bytearray, memoryview, ModelProto, binary file or Model. `providers` lists names,
    (name, options), classes or instances in order of preference; None: all that are installed and take part by default.
    The CPU provider comes last in any case. Options may hold those of `ort_lite.policies`. Keywords: `placement_rules` (see
    `ort_lite.placement`), `partitioning` ("greedy", "cost" or a strategy, see `ort_lite.partitioning`), `disabled_optimizers`,
    `parse_options` (ParseOptions), `params` (see `load_params`). Raises what loading, transforms, providers and compilation
    raise.
    """

    def __init__(
        self,
        path_or_bytes: ModelSource | Model,
        sess_options: SessionOptions | None = None,
        providers: Sequence[selection.ProviderEntry] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self._options = options = sess_options.copy() if sess_options is not None else SessionOptions()
        parse, params = kwargs.pop("parse_options", None), kwargs.pop("params", None)
        arguments = {"providers": providers, "provider_options": provider_options, "parse_options": parse, **kwargs}
        self._given = (source_to_keep(path_or_bytes), {"sess_options": options, **arguments})
        self._placement = tuple(kwargs.pop("placement_rules", ()))
        self._partitioning = kwargs.pop("partitioning", None)
        self._disabled = _disabled_transforms(kwargs, options)
        self._profiler = _profiler(options)
        span = self._profiler.span if self._profiler is not None else no_span
        with span("session_initialization"):
            with span("model_loading_uri" if isinstance(path_or_bytes, (str, os.PathLike)) else "model_loading_array"):
                model = open_model(path_or_bytes, options, parse, params)
            apply_options(model, options)
            self._metadata = metadata(model)
            self._selection = selection.select(providers, provider_options, options)
            self._defaults = _overridable(model)
            self._source = _split(model, self._defaults) if self._defaults else None
            self._inputs = node_args(model.graph.inputs, model.unnamed_dims)
            self._overridable = node_args(list(self._defaults.values()), model.unnamed_dims)
            outputs = node_args(model.graph.outputs, model.unnamed_dims)
            names = {dim for arg in self._inputs for dim in arg.shape if isinstance(dim, str)}
            if self._profiler is not None:
                lifecycle.start_profiling(self._selection.providers)
            self._prepared = self._prepare(model, span)
            self._outputs = refined(outputs, model.graph.outputs, names)
            if options.optimized_model_filepath:
                save_optimized(model, options)
            if options.config(config_keys.KEEP_CONSTANTS, "0") != "1":
                lifecycle.drop_absorbed(self._prepared.assignment, self._prepared.compiled, self._prepared.keeping)
            lifecycle.initialized(self._selection.providers)
            footprint.charge(self._prepared, options.account)
        self._ready: Ready | Closed = Ready(self._prepared, self._profiler, options)
        self._overriding: Ready | None = None
        self._explained: Explanation | None = None
        self._lock, self._told = threading.Lock(), threading.local()

    def _prepare(self, model: Model, span: Span = no_span) -> Prepared:
        chosen, rules, strategy = self._selection, self._placement, self._partitioning
        return prepare(model, chosen.providers, self._options, span, self._disabled, chosen.policies, rules, strategy)

    # Running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        *,
        verify: "str | Verification | None" = None,
    ) -> list[Any]:
        """The outputs by name, all in the model's order for None. Arrays that are returned are the caller's.

        `verify`: "partition" or a Verification: each partition of another provider runs on the CPU provider as well, from the
        same inputs (see `ort_lite.verification`). Raises InvalidArgument for a feed or name that does not fit,
        RuntimeException naming node and provider, VerificationError where a partition is off.
        """
        if verify is not None:
            return self._verified(output_names, input_feed, run_options, verify)
        if self._defaults and not self._defaults.keys().isdisjoint(input_feed):
            ready, input_feed = self._override(input_feed)
            return ready.run(output_names, input_feed, run_options)
        return self._ready.run(output_names, input_feed, run_options)

    def _override(self, feed: Mapping[str, Any]) -> "tuple[Ready | Closed, Mapping[str, Any]]":
        """The model compiled with overridable initialisers as inputs, made at the first such run, and the whole feed."""
        with self._lock:
            if isinstance(self._ready, Closed):
                return self._ready, feed
            if self._overriding is None:
                assert self._source is not None
                self._overriding = Ready(self._prepare(self._source.clone()), self._profiler, self._options)
            ready = self._overriding
        return ready, {**{name: value.constant for name, value in self._defaults.items()}, **feed}

    def _verified(
        self, names: Sequence[str] | None, feed: Mapping[str, Any], options: RunOptions | None, verify: "str | Verification"
    ) -> list[Any]:
        ready: Ready | Closed = self._ready
        if self._defaults and not self._defaults.keys().isdisjoint(feed):
            ready, feed = self._override(feed)
        if isinstance(ready, Closed):
            return ready.run(names, feed, options)
        from ort_lite.verification.settings import settings
        from ort_lite.verification.watch import Verifier

        checks = settings(verify)
        if ready.verifier is None:
            ready.verifier = Verifier(ready.prepared, self._options)
        run = partial(ready.run_other, names, feed, options, self._options)
        return ready.verifier.run(checks, run, lambda report: setattr(self._told, "report", report))

    @property
    def verification(self) -> "Report | None":
        """What the last `run(verify=...)` of this thread found; None: there was none."""
        return getattr(self._told, "report", None)

    def save_compiled(self, path: str | os.PathLike[str], embed: bool = True) -> None:
        """Writes a model in which partitions that providers can save are compiled already (see `ort_lite.stages.context`), in the
        model's file or, without `embed`, in files of their own beside it.

        A session of it compiles the other nodes alone. Raises ProviderError when no provider can save its partitions, and
        RuntimeException once the session is closed.
        """
        with self._lock:
            if isinstance(self._ready, Closed):
                raise RuntimeException("the session is closed")
            prepared = self._prepared
        from ort_lite.stages.context import with_contexts, write_files
        from ort_lite.stages.save import save

        made = with_contexts(prepared.model, prepared.assignment, prepared.compiled.partitions)
        if not embed:
            write_files(made, os.fspath(path))
        save(made, path)

    def close(self) -> None:
        """Gives up what is compiled, once the runs in flight are done with it; later runs raise. A second time does nothing.

        States of partitions are released when nobody is in them any more. What the session says of itself stays.
        """
        with self._lock:
            if isinstance(self._ready, Closed):
                return
            self._explained, closing = self.explain(), [self._ready.compiled]
            if self._overriding is not None:
                closing.append(self._overriding.compiled)
            self._ready, self._overriding, self._source = Closed(), None, None
            del self._prepared
            self._options.account.close()
        for compiled in closing:
            lifecycle.close_states(compiled)

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What the session is

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initialisers that a feed may replace (IR version 4 and newer, listed as inputs too)."""
        return list(self._overridable)

    def get_modelmeta(self) -> ModelMetadata:
        return self._metadata

    def get_providers(self) -> list[str]:
        """Names in order of preference."""
        return list(dict.fromkeys(provider.name for provider in self._selection.providers))

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """The options in force, by name; of two instances of one provider those of the first."""
        return {provider.name: provider.get_options() for provider in reversed(self._selection.providers)}

    def get_session_options(self) -> SessionOptions:
        """A copy: changing it changes nothing."""
        return self._options.copy()

    def explain(self) -> Explanation:
        """Who runs each node and why nobody else does."""
        if self._explained is not None:
            return self._explained
        notes = (*self._selection.notes, *self._prepared.incidents)
        return Explanation(self._prepared.assignment, notes, self._prepared.compiled.facts())

    def memory_plans(self) -> dict[str, Any]:
        """Where tensors live, by partition, as far as compiled partitions state it; those of runs so far."""
        if self._explained is not None:
            return {}
        partitions = self._prepared.compiled.partitions
        return {name: p.memory_plan() for name, p in partitions.items() if hasattr(p, "memory_plan")}

    def memory(self) -> dict[str, Any]:
        """What the session holds now, in bytes: constants (of them those that lie in mapped files), packed weights, scratch (held,
        in use by runs, held at most; leases, arenas), what is kept by shape; by provider too, and what their allocators count.

        Arrays that sessions share count in each. Nothing once the session is closed.
        """
        return footprint.figures(self._compiled_forms(), self._options.account)

    def trim(self) -> None:
        """Gives back scratch memory that no run has, and forgets what is kept for each shape; the next run makes it anew.

        Constants and packed weights stay. With `session.use_env_allocators` idle memory of all sessions goes.
        """
        footprint.trim(self._compiled_forms(), self._options.account)

    def _compiled_forms(self) -> list[Prepared]:
        return [ready.prepared for ready in (self._ready, self._overriding) if isinstance(ready, Ready)]

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Options that providers let change while a session lives. Raises InvalidArgument for those that none of them knows."""
        lifecycle.set_dynamic_options(self._selection.providers, options)

    # Profiling

    def get_profiling_start_time_ns(self) -> int:
        """On the clock of `time.perf_counter_ns`; 0 when profiling is off."""
        return self._profiler.start if self._profiler is not None else 0

    def end_profiling(self) -> str:
        """Writes the profile and returns the file's name; "" when profiling is off."""
        if self._profiler is None:
            return ""
        lifecycle.collect_events(self._selection.providers, self._profiler)
        return self._profiler.end()

    # There is no fallback behind the caller's back that these could turn on or off.

    def disable_fallback(self) -> None:
        """Accepted for compatibility."""

    def enable_fallback(self) -> None:
        """Accepted for compatibility."""


def _profiler(options: SessionOptions) -> "Profiler | None":
    if not options.enable_profiling:
        return None
    from ort_lite.profiling import Profiler

    return Profiler(options.profile_file_prefix)


def _overridable(model: Model) -> dict[str, Value]:
    """Initialisers that are inputs too, by name."""
    return {value.name: value for value in model.graph.inputs if value.constant is not None}


def _split(model: Model, overridable: Mapping[str, Value]) -> Model:
    """Makes the overridable initialisers of `model` constants, which nearly every run wants.

    Returns a copy of it in which they are inputs.
    """
    source = model.clone()
    for value in source.graph.inputs:
        if source.graph.initializers.pop(value.name, None) is not None:
            value.constant = None
    model.graph.inputs = [value for value in model.graph.inputs if value.name not in overridable]
    return source


def _disabled_transforms(kwargs: Mapping[str, Any], options: SessionOptions) -> list[str]:
    """Names in `disabled_optimizers`; those that only onnxruntime has cost a warning. Raises TypeError for other keywords."""
    unknown = kwargs.keys() - {"disabled_optimizers", "enable_fallback", "read_config_from_model"}
    if unknown:
        raise TypeError(f"InferenceSession takes no keyword {', '.join(sorted(unknown))}")
    disabled = list(kwargs.get("disabled_optimizers") or ())
    known = {transform.name for transform in plugins.transforms()} if disabled else set()
    for name in disabled:
        if name not in known:
            log.warn(options.log_severity_level, f"no transform is called {name!r}: it cannot be disabled")
    return [name for name in disabled if name in known]
