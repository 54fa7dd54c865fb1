"""Transforms that a provider wants for its partitions: which of them may find something, and their run over a copy."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from ort_lite.dtypes import Array
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Names
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.transform.contract import Change, GraphPass, LocalRule, Transform
from ort_lite.transform.patterns import find, operators_before
from ort_lite.transform.rewriter import Rewriter
from ort_lite.transform.transform import Driver, Index, index_of, phases_of


class Fusions:
    """The transforms in the order in which they are tried, made ready once for all partitions."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self._phases = phases_of(tuple(transforms))
        self._index = _index_of(tuple(t for t in transforms if isinstance(t, LocalRule)))
        self._passes = any(isinstance(t, GraphPass) for t in transforms)

    def may_find_something(self, nodes: Iterable[Node], fixed: Collection[Graph] = ()) -> bool:
        """Return True if a pattern matches at one of the nodes or inside it, before anything is copied. Passes always may."""
        return self._passes or any(self._matches(node) or self._matches_inside(node, fixed) for node in nodes)

    def _matches_inside(self, node: Node, fixed: Collection[Graph]) -> bool:
        return any(self._matches(inner) for body in node.subgraphs() if body not in fixed for inner in body.all_nodes())

    def _matches(self, node: Node) -> bool:
        rules = self._index.get(node.op_type) or self._index.get("*")
        if not rules:
            return False
        before = operators_before(node)
        return any(find(pattern, node, _array, before) is not None for _, patterns in rules for pattern in patterns)

    def apply(
        self,
        graph: Graph,
        rules: ShapeRules,
        opset_imports: dict[str, int],
        fixed: Collection[Graph] = (),
        names: Names | None = None,
        certain: bool = True,
    ) -> tuple[Change, ...]:
        """Changes the graph, whose values have their types, in place; returns what was done. Graphs in `fixed` stay.

        What is new is of the opset versions in `opset_imports`, and has names that are not taken in `names`; None: in the graph.
        `certain`: the graph is no body, which may never run. Raises Fail for a transform that left an invalid graph.
        """
        driver = Driver(Rewriter(graph, Inference(rules, inferred=True, certain=certain), opset_imports, names=names), fixed)
        for phase in self._phases:
            driver.run(phase)
        if driver.changes:
            driver.outline.check(driver.changes, ())
        return tuple(driver.changes)


@lru_cache(maxsize=16)
def _index_of(rules: tuple[LocalRule, ...]) -> Index:
    """Return the index of patterns, cached as that of `phases_of`."""
    return index_of(rules)


def _array(value: Value | None) -> Array | None:
    return None if value is None else value.constant
