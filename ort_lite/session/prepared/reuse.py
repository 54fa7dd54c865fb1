"""Decide if a session can use a prepared program, and open its entry (see `ort_lite.session.prepared.program`)."""

import os
from typing import Any

from ort_lite.errors import InvalidProtobuf
from ort_lite.graph.model import Model
from ort_lite.load.source import ModelSource, ParsedSource, read_outline
from ort_lite.options import config_keys
from ort_lite.options.options import SessionOptions
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import Selection, rules_of
from ort_lite.session.opening import Params
from ort_lite.session.preparation import Arguments
from ort_lite.session.prepared.program import PreparedProgram

_OBJECTS = (config_keys.INITIALIZERS_FOLDER, config_keys.LAYERS_BY_NAME, config_keys.CONTEXT_ENABLE, "ort_lite.partitioning")
"""Config entries with which a session depends on more than its key covers."""


def why_not(
    source: ModelSource | Model, options: SessionOptions, given: Arguments, params: Params | None, profiled: bool
) -> str:
    """Return the reason why a session with these arguments uses no prepared program, or "" if it may use one."""
    if options.config(config_keys.PREPARED, "1") == "0":
        return f"{config_keys.PREPARED} is 0"
    if not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        return f"the model came as {type(source).__name__}"
    arrays, files = options.external_initializers
    for found, what in (
        (given.parse_options, "it has parse options"),
        (params is not None, "it has parameters"),
        (given.placement_rules, "it has placement rules"),
        (given.partitioning, "it has a partitioning strategy"),
        (profiled, "it is profiled"),
        (options.optimized_model_filepath, "it saves its optimized model"),
        (options.has_providers(), "its options choose providers"),
        (options.context_reader(), "it reads contexts by a function"),
        (options.initializers or arrays or files, "its options have initializers"),
        (options.installed_transforms or plugins.has_additions(), "it uses plugins"),
    ):
        if found:
            return what
    return next((f"its config has {key}" for key in _OBJECTS if options.config(key, "")), "")


def open_program(source: Any, options: SessionOptions, chosen: Selection) -> "PreparedProgram | str":
    """Return the entry of a session that `why_not` has nothing against, or the reason why there is none."""
    if len(chosen.providers) != 1 or chosen.notes:
        return "it has several providers"
    [provider] = chosen.providers
    if not hasattr(provider, "prepared_state"):
        return f"{provider.name} does not support it"
    state = provider.prepared_state()
    if isinstance(state, str):
        return state
    described, objects = state
    outlined = read_outline(source)
    if outlined is None:
        return "the model cannot be outlined"
    named = {"provider": provider, "session options": options, "rules": rules_of(chosen.providers), **objects}
    return PreparedProgram(outlined, options, f"{described} {chosen.policies}", named)


def source_to_load(program: PreparedProgram, source: Any) -> ModelSource | ParsedSource:
    """Return the source of a model without an entry. Malformed models are read from the beginning, for the error that says why."""
    try:
        return program.source.parse()
    except InvalidProtobuf:
        program.source.close()
        result: ModelSource = source
        return result
