"""Take a model through the stages of a session up to a given one. Shared by sessions, `plan`, `dump` and `measure_costs`."""

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ort_lite import log
from ort_lite.compile.fusing import fusions_of
from ort_lite.errors import InvalidArgument, hint
from ort_lite.graph.graph import Value
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType
from ort_lite.load.overrides import apply_overrides
from ort_lite.load.source import ModelSource, ParsedSource
from ort_lite.load.tensors import writeable_tensors
from ort_lite.log.events import Span, no_span
from ort_lite.memory.session_memory import SessionMemory, session_memory_of
from ort_lite.native.checkpoint import begin_stage
from ort_lite.options import config_keys
from ort_lite.options.creation_limits import creating
from ort_lite.options.options import SessionOptions, seconds
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.constraints import constraints_of
from ort_lite.partition.placement import PlacementRule
from ort_lite.plugins import plugins, selection
from ort_lite.plugins.rooms import hook
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.session.opening import Params, open_model
from ort_lite.session.settle import settle
from ort_lite.session.simplify import simplify
from ort_lite.transform.contract import names_of
from ort_lite.transform.transform import TransformReport

if TYPE_CHECKING:
    from ort_lite.load.parse_options import ParseOptions

Stage = Literal["load", "transform", "partition"]
FIRST = "first"
"""The value of `verify` that asks for a verified first run, with the default tolerances."""


class Arguments(Record):
    """The arguments of a session besides the model, its options and its parameters."""

    providers: Sequence[selection.ProviderEntry] | None = None
    provider_options: Sequence[Mapping[str, Any]] | None = None
    parse_options: "ParseOptions | None" = None
    placement_rules: tuple[PlacementRule, ...] = ()
    partitioning: Any = None
    verify: Any = None
    """The tolerances with which the first run is verified; None: it is not."""


class Loaded(Record):
    """A loaded model before the transforms, and the providers that are asked to run it.

    Overridable initializers (`defaults`, by name) are constants in `model`, which suits nearly every run. They are inputs in
    the copy `overridable`, which exists only if there are any.
    """

    model: Model
    overridable: Model | None
    defaults: Mapping[str, Value]
    selection: selection.Selection
    writeable: frozenset[int]
    """The ids of constants that somebody outside may write to."""


class Preparation(Record):
    """The results of the stages so far; later ones are None. `notes` are remarks of partitioning about providers."""

    loaded: Loaded
    report: TransformReport | None = None
    assignment: Assignment | None = None
    notes: tuple[str, ...] = ()


def prepare_until(stage: Stage, source: ModelSource | Model, options: SessionOptions, given: Arguments) -> Preparation:
    """Load, transform and partition a model as a session does, up to `stage`.

    Providers are created while loading and asked while partitioning. Raises the errors of the stages; DeadlineExceeded and
    ModelLoadCanceled as sessions do.
    """
    options = options.copy()
    open_session_memory(options)
    with creating(options):
        loaded = load_model(source, options, given)
        if stage == "load":
            return Preparation(loaded)
        chosen = loaded.selection
        begin_stage("transform")
        report = simplify(loaded.model, chosen.providers, options)
        if stage == "transform":
            return Preparation(loaded, report)
        constraints = constraints_of(chosen.providers, chosen.policies, given.placement_rules, options)
        settled = settle(loaded.model, chosen, options, constraints, given.partitioning)
    for warning in settled.warnings:
        log.warn(options, warning)
    return Preparation(loaded, report, settled.assignment, (*chosen.notes, *settled.warnings))


def open_session_memory(options: SessionOptions) -> SessionMemory:
    """Create the memory that the options ask for, and attach it to them so that providers can use it.

    Raises InvalidArgument for malformed config entries.
    """
    options.default_threads()
    session_memory = session_memory_of(options)
    if planner := options.config(config_keys.MEMORY_PLANNER, ""):
        session_memory.planner = plugins.memory_planner(planner)
    if memories := options.config(config_keys.MEMORIES, ""):
        from ort_lite.memory.planning.declarations import parse_memories

        session_memory.stated_memories = parse_memories(memories)
    options.set_session_memory(session_memory)
    return session_memory


def load_model(
    source: ModelSource | ParsedSource | Model,
    options: SessionOptions,
    given: Arguments,
    params: Params | None = None,
    span: Span = no_span,
    chosen: selection.Selection | None = None,
) -> Loaded:
    """Load a model, apply overrides from the options and select the providers unless `chosen`. Raises the errors of both steps."""
    path = source.path if isinstance(source, ParsedSource) else source
    with span("model_loading_uri" if isinstance(path, (str, os.PathLike)) else "model_loading_array"):
        model = open_model(source, options, given.parse_options, params)
    apply_overrides(model, options)
    writeable = writeable_tensors(model)
    if chosen is None:
        chosen = selection.select(*_entries(given, options, model), options)
    warn_of_unknown(options, chosen.providers)
    defaults = _defaults(model)
    return Loaded(model, _split(model, defaults) if defaults else None, defaults, chosen, writeable)


def load_again(source: ModelSource | Model, options: SessionOptions, given: Arguments) -> Model:
    """Load the model as `load_model` does, without selecting providers. Raises the errors of loading."""
    model = open_model(source, options, given.parse_options)
    apply_overrides(model, options)
    if defaults := _defaults(model):
        _split(model, defaults)
    return model


def _defaults(model: Model) -> dict[str, Value]:
    return {value.name: value for value in model.graph.inputs if value.constant is not None}


def _entries(given: Arguments, options: SessionOptions, model: Model) -> tuple[Any, Any]:
    """Return the providers and their options from the arguments or, if they choose any, from the session options."""
    if not options.has_providers():
        return given.providers, given.provider_options
    if given.providers:
        what = "providers were given to InferenceSession and to SessionOptions; those of InferenceSession hold"
        warnings.warn(what, stacklevel=2)
        return given.providers, given.provider_options
    about = {
        **model.metadata_props,
        "producer_name": model.producer_name,
        "domain": model.domain,
        "graph_name": model.graph.name,
        "version": str(model.model_version),
    }
    return options.choose_providers(about), None


def _split(model: Model, overridable: Mapping[str, Value]) -> Model:
    """Turn the overridable initializers of `model` into constants. Return a copy in which they are inputs."""
    source = model.clone()
    for value in source.graph.inputs:
        if source.graph.initializers.pop(value.name, None) is not None:
            value.constant = None
    for value in overridable.values():
        if value.constant is not None and isinstance(value.type, TensorType):
            value.type = TensorType(value.type.dtype, tuple(value.constant.shape))
    model.graph.inputs = [value for value in model.graph.inputs if value.name not in overridable]
    return source


_KEYWORDS = frozenset({
    "path_or_bytes", "sess_options", "providers", "provider_options", "params", "parse_options", "placement_rules",
    "partitioning", "disabled_optimizers", "strict", "mmap", "creation_timeout", "verify", "enable_fallback",
    "read_config_from_model",
})  # fmt: skip
"""The keywords of InferenceSession. The last two are onnxruntime's and have no effect here."""


def note_unknown(options: SessionOptions, keywords: Mapping[str, Any]) -> None:
    """Warn once about keywords that InferenceSession does not have. They are ignored, as in onnxruntime."""
    if unknown := keywords.keys() - _KEYWORDS:
        named = ", ".join(f"{name!r}{hint(name, _KEYWORDS)}" for name in sorted(unknown))
        log.warn(options, f"InferenceSession ignores keywords that it does not have: {named}")


def disable(options: SessionOptions, optimizers: Collection[str] | None) -> None:
    """Add names of transforms to the config entry that disables them."""
    if optimizers:
        names = ";".join(sorted({*options.disabled_optimizers, *optimizers}))
        options.add_session_config_entry(config_keys.DISABLED_OPTIMIZERS, names)


def with_mmap(parse: "ParseOptions | None", mmap: bool) -> "ParseOptions | None":
    """Return the parse options with `mmap` applied, which sets `no_copy`. Raises InvalidArgument for another type."""
    if not isinstance(mmap, bool):
        raise InvalidArgument(f"mmap is {mmap!r}; expected True or False")
    if not mmap:
        return parse
    from ort_lite.load.parse_options import ParseOptions

    return ParseOptions(**(vars(parse) if isinstance(parse, ParseOptions) else {}) | {"no_copy": True})


def require(options: SessionOptions, strict: bool | None) -> None:
    """Store the keyword `strict` in the config of `options`; None changes nothing. Raises InvalidArgument for another type."""
    if strict is None:
        return
    if not isinstance(strict, bool):
        raise InvalidArgument(f"strict is {strict!r}; expected True or False")
    options.add_session_config_entry(config_keys.STRICT, "1" if strict else "0")


def first_run_tolerances(options: SessionOptions, verify: Any) -> Any:
    """Return the tolerances that the keyword `verify` or else the config entry asks for; None if the first run is not verified.

    Raises InvalidArgument for other values.
    """
    if verify is None:
        verify = options.config(config_keys.VERIFY, "") or None
        if verify not in (None, FIRST):
            raise InvalidArgument(f"{config_keys.VERIFY} is {verify!r}; expected {FIRST!r}")
    return None if verify is None else hook("verification")(verify, FIRST)


def limit_creation(options: SessionOptions, timeout: float | None) -> None:
    """Apply the keyword `creation_timeout` (seconds) to `options` unless they have a smaller one. None changes nothing.

    Raises InvalidArgument for 0 and for anything that is not a number of seconds.
    """
    if timeout is None:
        return
    timeout = seconds(timeout, "creation_timeout")
    if not timeout:
        raise InvalidArgument("creation_timeout: got 0, expected seconds; None is no timeout")
    options.creation_timeout = min(timeout, options.creation_timeout or timeout)


def warn_of_unknown(options: SessionOptions, providers: Sequence[ExecutionProvider]) -> None:
    """Warn about disabled transforms that neither an installed transform nor any onnxruntime release is named after."""
    disabled = options.disabled_optimizers
    if disabled:
        named = options.installed_transforms
        own = [found for provider in providers for found in fusions_of(provider, named)]
        known = options.other_optimizers | names_of([*plugins.transforms(named), *plugins.fusions(named), *own])
        for name in sorted(disabled - known):
            log.warn(options, f"no transform is called {name!r}: it cannot be disabled")
