"""Attributes that no family varies: one after the other gets another value than a node test has, as the operator's schema allows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from ort_lite.testing.cases import Case
from ort_lite.testing.drawing.sketch import Row, Sketch, attributes_of, kinds_of

MOST = 8
"""Sketches an operator."""
NO_NUMBERS = ("dtype", "output_dtype", "seed", "stash_type", "storage_order", "to")
"""Element types and the like: the next number is another thing altogether."""


def varied(cases: Iterable[Case], known: Collection[str]) -> Iterator[Sketch]:
    """Of each node test of one node whose operator is not `known`. What the CPU provider refuses too is nobody's fault.

    Attributes that a test leaves out and that have no default stay out: being there is a meaning of its own.
    """
    for case in cases:
        node = case.model.graph.node[0]
        plain = len(case.model.graph.node) == 1 and not node.domain and set(case.feed) == set(filter(None, node.input))
        if plain and node.op_type not in known:
            version = max(imported.version for imported in case.model.opset_import if not imported.domain)
            yield from list(_of_node(case, node, version))[:MOST]


def _of_node(case: Case, node: Any, version: int) -> Iterator[Sketch]:
    given = attributes_of(node)
    outputs = tuple(filter(None, node.output))
    for name, (kind, default) in kinds_of(node.op_type, version).items():
        value = given.get(name, default)
        for other in _OTHERS[kind](value) if value is not None and kind in _OTHERS and name not in NO_NUMBERS else ():
            row = Row(node.op_type, tuple(node.input), tuple(node.output), {**given, name: other})
            yield Sketch(f"{case.name} with {name}={other}", "attributes", (row,), (dict(case.feed),), {}, outputs, version)


def _whole(value: int) -> tuple[int, ...]:
    """The other way of a flag; a number more, and one less."""
    return (1 - value,) if value in (0, 1) else (value + 1, value - 1)


def _real(value: float) -> tuple[float, ...]:
    return value / 2, value + 1


def _several(value: list[int]) -> tuple[list[int], ...]:
    return list(value[::-1]), [each + 1 for each in value]


_OTHERS: Mapping[str, Callable[[Any], tuple[Any, ...]]] = {"INT": _whole, "FLOAT": _real, "INTS": _several}
