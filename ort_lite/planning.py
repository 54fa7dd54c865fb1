"""`plan`: who would run what, without compiling anything."""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite import pipeline, selection
from ort_lite.explanation import Explanation
from ort_lite.graph import Model
from ort_lite.opening import open_model
from ort_lite.options import SessionOptions
from ort_lite.placement import PlacementRule
from ort_lite.stages.load import ModelSource


def plan(
    model: ModelSource | Model,
    providers: Sequence[selection.ProviderEntry] | None = None,
    options: SessionOptions | None = None,
    *,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    placement_rules: Sequence[PlacementRule] = (),
    partitioning: Any = None,
) -> Explanation:
    """What `InferenceSession(model, ...).explain()` would say, but for facts that only compiling tells.

    `partitioning` is as for sessions. Loads, transforms and partitions; providers are created and asked. Raises what these raise.
    """
    options = options if options is not None else SessionOptions()
    loaded = open_model(model, options)
    pipeline.apply_options(loaded, options)
    loaded.graph.inputs = [value for value in loaded.graph.inputs if value.constant is None]  # as sessions run it mostly
    chosen = selection.select(providers, provider_options, options)
    pipeline.transformed(loaded, chosen.providers, options)
    terms = pipeline.terms_of(chosen.providers, chosen.policies, placement_rules)
    assignment = pipeline.assigned(loaded, chosen.providers, options, terms=terms, strategy=partitioning)
    return Explanation(assignment, chosen.notes, {})
