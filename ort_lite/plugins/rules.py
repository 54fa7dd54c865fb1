"""Shape rules and schemas for the providers of one session."""

from collections.abc import Sequence

from ort_lite.inference.rules import ShapeRules
from ort_lite.plugins import plugins
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import ExecutionProvider


def rules_of(providers: Sequence[ExecutionProvider]) -> ShapeRules:
    """Return the rules and schemas that providers bring for operators of their own, and then everybody's."""
    classes: dict[type[ExecutionProvider], None] = dict.fromkeys(map(type, providers))
    own = [rule for cls in classes for rule in ask(cls, "shape_rules")]
    schemas = [schema for cls in classes for schema in ask(cls, "schemas")]
    return plugins.shape_rules().preceded_by(own, schemas) if own or schemas else plugins.shape_rules()
