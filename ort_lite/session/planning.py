"""`plan`: show which provider would run each node, without compiling."""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.graph.model import Model
from ort_lite.load.source import ModelSource
from ort_lite.options.options import SessionOptions
from ort_lite.partition.placement import PlacementRule
from ort_lite.plugins import selection
from ort_lite.session.explanation import Explanation
from ort_lite.session.preparation import Arguments, prepare_until, require


def plan(
    model: ModelSource | Model,
    providers: Sequence[selection.ProviderEntry] | None = None,
    options: SessionOptions | None = None,
    *,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    placement_rules: Sequence[PlacementRule] = (),
    partitioning: Any = None,
    strict: bool | None = None,
) -> Explanation:
    """Return the assignment of a model without compiling it.

    The result equals `InferenceSession(model, ...).explain()` except for facts that only compiling yields. Arguments are those
    of `InferenceSession`. Loads, transforms and partitions the model, creates the providers and asks them. Raises the errors of
    these stages.
    """
    options = options.copy() if options is not None else SessionOptions()
    require(options, strict)
    given = Arguments(providers, provider_options, None, tuple(placement_rules), partitioning)
    prepared = prepare_until("partition", model, options, given)
    assert prepared.assignment is not None
    return Explanation(prepared.assignment, prepared.notes, {})
