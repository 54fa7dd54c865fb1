"""Shape rules and schemas of installed plugins. They add operators but never change those that ort_lite knows.

Installing a package is not a request to use it. Still, a model with operators of a plugin's own domain needs the plugin's rules
to have types, so these apply everywhere. A rule for another version of `Relu` would change every program of the environment.
"""

from collections.abc import Iterable, Mapping

from ort_lite import log
from ort_lite.inference.schema import SchemaSource
from ort_lite.inference.schema_text import OpSchema
from ort_lite.inference.shape_rules import RuleFamily, ShapeRule, ShapeRules

Key = tuple[str, str]
"""The domain and type of an operator."""


def new_rules(rules: Iterable[ShapeRule | RuleFamily], known: ShapeRules) -> list[ShapeRule | RuleFamily]:
    """Return the rules for operators that `known` has neither a rule nor a schema for; a warning names the others."""
    added: list[ShapeRule | RuleFamily] = []
    for rule in rules:
        keys = set(rule.keys) if isinstance(rule, RuleFamily) else {(rule.domain, rule.op_type)}
        taken = {key for key in keys if known.knows(*key)}
        _warn("shape rule", taken)
        if isinstance(rule, RuleFamily) and keys != taken:
            added.append(rule.replace(keys=keys - taken))
        elif not taken:
            added.append(rule)
    return added


def new_schemas(schemas: Iterable[OpSchema | SchemaSource], known: ShapeRules) -> list[OpSchema | SchemaSource]:
    """Return the schemas of operators that `known` has neither a rule nor a schema for; a warning names others, except in files."""
    added: list[OpSchema | SchemaSource] = []
    for schema in schemas:
        if not isinstance(schema, OpSchema):
            added.append(_AddedSource(schema, known))
        elif known.knows(schema.domain, schema.op_type):
            _warn("schema", {(schema.domain, schema.op_type)})
        else:
            added.append(schema)
    return added


class _AddedSource:
    """The schemas of a file except those of known operators. The file is read when needed."""

    def __init__(self, source: SchemaSource, known: ShapeRules) -> None:
        self._source, self._known = source, known

    def operators(self) -> Iterable[tuple[str, str]]:
        return [key for key in self._source.operators() if not self._known.knows(*key)]

    def versions(self, domain: str, op_type: str) -> Iterable[int]:
        return () if self._known.knows(domain, op_type) else self._source.versions(domain, op_type)

    def schema(self, domain: str, op_type: str, since: int) -> OpSchema:
        return self._source.schema(domain, op_type, since)

    def complete(self) -> Mapping[str, int]:
        """Return the domains that the file defines completely, without those that ort_lite itself knows completely."""
        return {
            domain: opset for domain, opset in self._source.complete().items() if self._known.schemas.complete(domain) is None
        }


def _warn(what: str, keys: Iterable[Key]) -> None:
    for domain, op_type in sorted(keys):
        name = f"{domain}.{op_type}" if domain else op_type
        log.warn(log.WARNING, f"an installed plugin has a {what} for {name}, which ort_lite knows; it is not used")
