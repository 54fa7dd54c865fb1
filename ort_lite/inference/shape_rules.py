"""The rules of shape inference by operator and version: what registers them, and finds the one for a node.

`ort_lite.inference` has these names.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ort_lite.dtypes import DType
from ort_lite.graph.graph import Node
from ort_lite.inference.schema import Schemas
from ort_lite.record import Record

if TYPE_CHECKING:
    from ort_lite.inference.inference import Info, Op
    from ort_lite.inference.schema import SchemaSource
    from ort_lite.inference.schema_text import OpSchema

Rule = Callable[["Op"], list["Info"]]
OutputType = int | DType | Callable[["Op"], DType]


class ShapeRule(Record):
    """A rule and what it is for: the operator from opset `since` on, until a later rule takes over."""

    op_type: str
    since: int
    domain: str
    function: Rule
    types: tuple[OutputType, ...] = ()


def shape_rule(
    *op_types: str, since: int = 1, domain: str = "", types: tuple[OutputType, ...] = (0,)
) -> Callable[[Rule], list[ShapeRule]]:
    """Makes the decorated function the rule of the operators; the result is what `ort_lite_shape_rules` lists.

    `types` are the element types that the outputs have even where the rule finds a rank or contents missing: that of an
    input, by number, or a name, or a function of the Op. The last one stands for all outputs that follow.
    """

    def decorate(function: Rule) -> list[ShapeRule]:
        return [ShapeRule(op_type, since, domain, function, types) for op_type in op_types]

    return decorate


class RuleFamily(NamedTuple):
    """Rules that are loaded when a model first has one of their operators: (domain, op_type) of all that `load` gives."""

    keys: Collection[tuple[str, str]]
    load: Callable[[], Iterable[ShapeRule]]


class ShapeRules:
    """All rules of a process, by (domain, op_type); the newest one not newer than the node's version applies.

    `schemas` are the operators' schemas: whoever infers checks types by them.
    """

    def __init__(self, rules: Iterable[ShapeRule | RuleFamily], schemas: Schemas | None = None) -> None:
        self.schemas = Schemas() if schemas is None else schemas
        self._rules: dict[tuple[str, str], list[ShapeRule | RuleFamily]] = {}
        self._ready: dict[tuple[str, str], list[ShapeRule]] = {}
        for rule in rules:
            for key in rule.keys if isinstance(rule, RuleFamily) else [(rule.domain, rule.op_type)]:
                self._rules.setdefault(key, []).append(rule)

    def preceded_by(
        self, more: "Iterable[ShapeRule | list[ShapeRule] | RuleFamily]", schemas: "Iterable[OpSchema | SchemaSource]" = ()
    ) -> "ShapeRules":
        """These rules and schemas, and before them `more`."""
        given = list(schemas)
        joined = self.schemas.preceded_by(given) if given else self.schemas
        made = ShapeRules((rule for one in more for rule in (one if isinstance(one, list) else [one])), joined)
        for key, rules in self._rules.items():
            made._rules[key] = [*made._rules.get(key, ()), *rules]
        return made

    def find(self, node: Node) -> ShapeRule | None:
        key = (node.domain, node.op_type)
        found = self._ready.get(key)
        if found is None:
            if key not in self._rules:  # names of models that come and go are not kept
                return None
            found = self._ready[key] = self._loaded(key)
        for rule in found:
            if rule.since <= node.version:
                return rule
        return None

    def _loaded(self, key: tuple[str, str]) -> list[ShapeRule]:
        """The rules of an operator, newest first; of two for one version the one that was given first."""
        given = self._rules.get(key, ())
        rules = [rule for one in given for rule in (one.load() if isinstance(one, RuleFamily) else [one])]
        return sorted((rule for rule in rules if (rule.domain, rule.op_type) == key), key=lambda rule: -rule.since)


__all__ = ["OutputType", "Rule", "RuleFamily", "ShapeRule", "ShapeRules", "shape_rule"]
