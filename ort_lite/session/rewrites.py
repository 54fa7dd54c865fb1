"""Rewrite nodes between two assignments: unclaimed nodes, and nodes whose provider prefers another layout."""

from collections.abc import Mapping, Sequence

from ort_lite.dtypes import DType
from ort_lite.graph.graph import Node
from ort_lite.graph.model import Model
from ort_lite.inference.schema import NHWC_DOMAIN
from ort_lite.options.config_keys import ROUNDING, types_to_round
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.changes import Changes
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import rules_of
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.session.simplify import apply_transforms, fuser_of, inline_calls

_WIDER: dict[DType, DType] = {"float16": "float32", "bfloat16": "float32"}


def rewrite_nodes(
    model: Model, nodes: Sequence[Node], providers: Sequence[ExecutionProvider], options: SessionOptions, changes: Changes
) -> bool:
    """Apply the first rewrite that fits nodes which no provider claims. Return True if one was applied.

    A channels-last node gets its original layout back, a function call is replaced by the function's nodes, and a node of
    16-bit floats computes in float32 between Casts.
    """
    return (
        _restore_layouts(model, nodes, changes)
        or _inline(model, nodes, providers, options)
        or _widen(model, nodes, providers, options, changes)
    )


def _restore_layouts(model: Model, nodes: Sequence[Node], changes: Changes) -> bool:
    channels_last = [node for node in nodes if node.domain == NHWC_DOMAIN]
    if channels_last:
        transposes = plugins.layout_conversion().restore(model.graph, channels_last)
        changes.insert(transposes, "layout, around a node that was channels-last")
        changes.restore(channels_last)
    return bool(channels_last)


def _inline(model: Model, nodes: Sequence[Node], providers: Sequence[ExecutionProvider], options: SessionOptions) -> bool:
    if not inline_calls(model, nodes, providers):
        return False
    apply_transforms(model, providers, options, plugins.transforms(options.installed_transforms))
    return True


def _widen(
    model: Model, nodes: Sequence[Node], providers: Sequence[ExecutionProvider], options: SessionOptions, changes: Changes
) -> bool:
    """Put Casts around nodes, once.

    With a single provider its fusions are tried first: patterns do not match across Casts, and no other provider could run the
    parts.
    """
    wanted = {node: dtype for node in changes.select_narrow(nodes) if (dtype := _wider(node, providers)) is not None}
    if not wanted:
        return False
    if len(providers) == 1 and fuser_of(options).fuse(model, providers[0], rules_of(providers)):
        return True
    changes.widen(wanted)
    casts = plugins.cast_insertion()(model.graph, wanted, types_to_round(options.config(ROUNDING, "")))
    changes.insert(casts, "cast, for a node that nobody runs in its element type")
    return True


def _wider(node: Node, providers: Sequence[ExecutionProvider]) -> DType | None:
    """Return a wider floating-point type with which a provider could run the node, or None."""
    for value in (*node.inputs, *node.outputs):
        dtype = _WIDER.get(value.dtype or "") if value is not None else None
        if dtype is not None and any(ask(provider, "supports_type", node, dtype) for provider in providers):
            return dtype
    return None


def find_layouts(assignment: Assignment, changes: Changes) -> dict[Node, str]:
    """Return the nodes whose provider prefers them channels-last, with that provider. Each node is offered once."""
    default = ExecutionProvider.preferred_layout
    able = {label: p for label, p in assignment.providers.items() if type(p).preferred_layout is not default}
    offers = [place for place in assignment.placements.values() if place.provider in able and changes.offer(place.node)]
    return {
        place.node: place.provider for place in offers if ask(able[place.provider], "preferred_layout", place.node) == "NHWC"
    }


def convert_layouts(model: Model, layouts: Mapping[Node, str], changes: Changes) -> None:
    """Convert nodes to channels-last and put Transposes around them."""
    transposes = plugins.layout_conversion().convert(model.graph, layouts)
    changes.insert(transposes, f"layout, for {', '.join(dict.fromkeys(layouts.values()))}, which prefers NHWC")
