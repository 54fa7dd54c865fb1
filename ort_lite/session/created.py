"""The stages of session creation up to compiled code: taken one after the other, or read from a prepared program."""

from collections.abc import Mapping
from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ort_lite.compile import lifecycle
from ort_lite.graph.graph import Value
from ort_lite.graph.model import Model
from ort_lite.inference.declared import merge_outputs
from ort_lite.load.source import ModelSource, ParsedSource
from ort_lite.log.events import Span
from ort_lite.memory.recipes import Recipes, recording
from ort_lite.native.checkpoint import begin_stage, checkpoint
from ort_lite.options import config_keys
from ort_lite.options.options import SessionOptions
from ort_lite.plugins.selection import Selection, rules_of, select
from ort_lite.provider.abilities import prepares_calls
from ort_lite.record import Record
from ort_lite.session.metadata import ModelMetadata, NodeArg, metadata, node_arg, node_args
from ort_lite.session.opening import Params, save_optimized_model
from ort_lite.session.preparation import Arguments, load_model, warn_of_unknown
from ort_lite.session.prepare import Prepared, prepare
from ort_lite.session.prepared import reuse
from ort_lite.session.simplify import form_to_save

if TYPE_CHECKING:
    from ort_lite.execute.profiling import Profiler
    from ort_lite.session.prepared.later import Later
    from ort_lite.session.prepared.program import PreparedProgram

WORTH_SECONDS = 0.003
"""The time of the stages from which on their result is worth a file: storing it takes as long as two sessions save."""


class Described(Record):
    """The description of a session's model."""

    metadata: ModelMetadata
    inputs: tuple[NodeArg, ...]
    outputs: tuple[NodeArg, ...]
    overridable: tuple[NodeArg, ...]


class Created(Record):
    """The result of the stages. See `ort_lite.session.preparation.Loaded` for the fields from `overridable` on."""

    prepared: Prepared
    described: Described
    selection: Selection
    later: "Later | None" = None
    """The reader of the later part of a prepared program; the session keeps it."""
    leaves_holes: bool = True
    """True if large arrays may have been freed, whose memory the C library still holds."""
    dropped: bool = False
    """True if the constants that partitions absorbed were dropped."""
    overridable: Model | None = None
    defaults: Mapping[str, Value] = {}
    writeable: frozenset[int] = frozenset()


def create(
    source: ModelSource | Model,
    options: SessionOptions,
    given: Arguments,
    params: Params | None,
    profiler: "Profiler | None",
    span: Span,
) -> Created:
    """Read the prepared program of a session, or take its model through all stages and store the result."""
    why = reuse.why_not(source, options, given, params, profiler is not None)
    if why:
        return _create(source, options, given, params, profiler, span)
    chosen = select(given.providers, given.provider_options, options)
    with span("prepared_program") as facts:
        program = reuse.open_program(source, options, chosen)
        if isinstance(program, str):
            facts.update(prepared=f"no, because {program}")
            return _create(source, options, given, params, profiler, span, chosen)
    with closing(program.source):
        return _read(program, options, chosen, span) or _store(program, source, options, given, chosen, span)


def _read(program: "PreparedProgram", options: SessionOptions, chosen: Selection, span: Span) -> Created | None:
    """Return what an earlier session stored, or None."""
    begin_stage("load")
    with span("read_prepared_program") as facts:
        found: Any = program.read(span)
        facts.update(found=f"no, because {program.trouble}" if found is None else "yes")
    if found is None:
        return None
    warn_of_unknown(options, chosen.providers)
    (prepared, described), later = found
    begin_stage("finish")
    return Created(prepared, described, chosen, later, leaves_holes=program.tensors > 0, dropped=True)


def _store(
    program: "PreparedProgram", source: Any, options: SessionOptions, given: Arguments, chosen: Selection, span: Span
) -> Created:
    """Take a model through all stages and store the result."""
    begin = perf_counter()
    with recording(program.recipes):
        made = _create(reuse.source_to_load(program, source), options, given, None, None, span, chosen)
        worth = perf_counter() - begin >= WORTH_SECONDS
        for partition in made.prepared.assignment.levels[0].partitions if worth else ():
            compiled = made.prepared.compiled.partitions[partition.name]
            if prepares_calls(compiled):
                compiled.prepare_calls()
                checkpoint()
    if not worth:
        return made
    with span("store_prepared_program") as facts:
        drop_constants(options, made.prepared, program.recipes)
        why = "initializers are inputs" if made.defaults else program.write((made.prepared, made.described))
        facts.update(stored=f"no, because {why}" if why else "yes")
    return made.replace(dropped=True)


def drop_constants(options: SessionOptions, prepared: Prepared, recipes: Recipes | None = None) -> None:
    """Drop the constants that partitions absorbed, unless the options keep them: see `lifecycle.drop_absorbed_constants`."""
    if options.config(config_keys.KEEP_CONSTANTS, "0") != "1":
        lifecycle.drop_absorbed_constants(prepared.assignment, prepared.compiled, recipes)


def _create(
    source: ModelSource | ParsedSource | Model,
    options: SessionOptions,
    given: Arguments,
    params: Params | None,
    profiler: "Profiler | None",
    span: Span,
    chosen: Selection | None = None,
) -> Created:
    loaded = load_model(source, options, given, params, span, chosen)
    model, chosen = loaded.model, loaded.selection
    about = metadata(model)
    inputs = node_args(model.graph.inputs, model.unnamed_dims)
    overridable = node_args(list(loaded.defaults.values()), model.unnamed_dims)
    declared = [value.type for value in model.graph.outputs]
    if profiler is not None:
        lifecycle.start_profiling(chosen.providers)
    if options.optimized_model_filepath:
        begin_stage("save")
        with span("save_optimized_model"):
            save_optimized_model(form_to_save(model, chosen.providers, options), options)
    prepared = prepare(model, chosen, options, given.placement_rules, given.partitioning, span, loaded.writeable)
    types = merge_outputs(model.graph, declared, model.unnamed_dims, rules_of(chosen.providers))
    outputs = [node_arg(v.name, type_, model.unnamed_dims) for v, type_ in zip(model.graph.outputs, types, strict=True)]
    described = Described(about, tuple(inputs), tuple(outputs), tuple(overridable))
    return Created(
        prepared,
        described,
        chosen,
        overridable=loaded.overridable,
        defaults=loaded.defaults,
        writeable=loaded.writeable,
    )
