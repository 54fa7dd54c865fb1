"""Allowed values of an attribute: `>=1`, `=LEFT/RIGHT`, `=type`, as schemas write them after its kind."""

from collections.abc import Callable
from typing import Any

from ort_lite.dtypes import from_onnx
from ort_lite.errors import InvalidGraph, hint
from ort_lite.graph.graph import Attr, Node
from ort_lite.inference.schema_text import OpSchema


def check_limit(node: Node, attribute: Attr, limit: str, schema: OpSchema) -> None:
    """Raises InvalidGraph that names the node, the attribute and its value. Of a list, each element counts."""
    if attribute.ref:  # a function's, which the call gives a value
        return
    given = attribute.value
    values = given if attribute.type.endswith("S") else [given]
    fits, expected = _rule(limit)
    for value in values:
        if not fits(value):
            each = ", each of its elements" if values is given else ""
            near = hint(value, limit[1:].split("/")) if isinstance(value, str) and value else ""
            raise InvalidGraph(
                f"{node}: attribute {attribute.name!r} is {given!r}; in {schema} it is{each} {expected}{near}"
            ).about(node)


def _rule(limit: str) -> tuple[Callable[[Any], bool], str]:
    """(whether a value fits, what is expected)."""
    if limit.startswith(">="):
        least = int(limit[2:])
        return lambda value: least <= value < 2**31, f"{least} or more, and less than 2**31"
    if limit in ("=type", "=type0"):
        zero = limit == "=type0"
        return lambda value: (zero and value == 0) or _is_type(value), "the number of an element type"
    choices = limit[1:].split("/")
    return lambda value: str(value) in choices, f"one of {', '.join(repr(choice) for choice in choices if choice)}"


def _is_type(code: int) -> bool:
    try:
        from_onnx(code)
    except KeyError:
        return False
    return True
