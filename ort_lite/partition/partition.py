"""Partitioning: a graph and providers in order become an Assignment.

Greedy: each node goes to the first provider that takes it. Bodies of control flow are offered before the graph around them, provider by
provider. What a provider claims is joined into maximal convex partitions. A strategy may improve the result.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite.errors import Fail, OrtLiteError, PlacementError, UnknownOperator, format_error
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph.graph import Graph, Node
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.partition.assembly import Assembly
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.claims import Claims
from ort_lite.partition.constraints import Constraints, constraints_of
from ort_lite.provider.ask import format_answer
from ort_lite.provider.provider import ExecutionProvider

if TYPE_CHECKING:
    from ort_lite.partition.cost.strategy import Strategy


class Partitioner:
    """Assigns the nodes of a graph to providers, as often as the graph or the constraints change.

    O(providers * (nodes + edges)) each time, beside what the providers themselves need. The same input gives the same result.
    """

    def __init__(
        self, graph: Graph, providers: Sequence[ExecutionProvider], rules: ShapeRules, constraints: Constraints | None = None
    ) -> None:
        self.graph, self.providers, self.rules = graph, providers, rules
        self.constraints = constraints if constraints is not None else constraints_of(providers)

    def claim(self, taken: Collection[Node] = ()) -> Claims:
        """Offer all nodes to all providers in order, but for those of the graph's own that are `taken`.

        `unclaimed()` of the result are nodes that no provider takes.
        """
        self.constraints.begin(self.graph)
        root = _claims(self.graph, "", self.constraints)
        for node in taken:
            root.taken_by[root.number[node]] = len(self.providers)
        for index, provider in enumerate(self.providers):
            for claims in _inner_first(root):
                claims.ask(index, provider, self.rules)
        return root

    def assignment(self, claims: Claims, strategy: "Strategy | None" = None, forbidden: Collection[str] = ()) -> Assignment:
        """Return the Assignment of claims that leave no node, improved by the strategy (see `ort_lite.partition.cost`).

        No strategy moves a node to providers that are `forbidden`. Raises Fail, naming it, where it fails or returns nonsense.
        """
        greedy = Assembly(claims, self.providers, self.rules).assignment()
        if strategy is None:
            return greedy
        name = f"the partitioning strategy {getattr(strategy, '__name__', type(strategy).__name__)}"
        try:
            found: Any = strategy(greedy, partial(self._giving_back, forbidden))
        except OrtLiteError as error:
            error.add_note(f"in {name}")
            raise
        except Exception as error:
            raise Fail(f"{name} failed: {format_error(error)}") from error
        if isinstance(found, Assignment) and found.graph is self.graph and found.placements.keys() == greedy.placements.keys():
            return found
        came = "an Assignment of other nodes" if isinstance(found, Assignment) else format_answer(found)
        raise Fail(f"{name} returned {came}; expected the Assignment that it was given, or one that `again` made")

    def _giving_back(self, forbidden: Collection[str], nodes: Mapping[tuple[str, Node], str]) -> Assignment | None:
        """Assign without these pairs of provider and node. Return None where nobody else takes a node, or is allowed to."""
        with self.constraints.exclusions.giving_back(nodes):
            claims = self.claim()
        if claims.find_unclaimed_nodes():
            return None
        found = Assembly(claims, self.providers, self.rules).assignment()
        return None if any(place.provider in forbidden for place in found.placements.values()) else found

    def error(self, claims: Claims) -> OrtLiteError:
        """Return the error for nodes that nobody takes, with every provider's reason.

        PlacementError where a hard rule keeps a node from those that might; UnknownOperator where no schema knows any of them;
        else NotImplemented.
        """
        left = claims.find_unclaimed_nodes()
        text = _complaint(claims, self.constraints.labels)
        if hard := self.constraints.rules.hard_rules(left):
            return PlacementError("\n".join(["a hard rule cannot be kept:", *hard, text])).about(left[0])
        unknown = all(self.rules.schemas.find(node) is None and self.rules.find(node) is None for node in left)
        if not unknown:
            return NotSupported(text).about(left[0])
        named = f"{left[0].domain or 'ai.onnx'}:{left[0].op_type}(-1)"
        return UnknownOperator(text).about(left[0], words=f"{named} is not a registered function/op")


def partition(
    graph: Graph,
    providers: Sequence[ExecutionProvider],
    rules: ShapeRules,
    constraints: Constraints | None = None,
    strategy: "Strategy | None" = None,
) -> Assignment:
    """Return who runs each node, in which partition, and why nobody else does. Does not change the graph.

    Raises what `Partitioner.error` describes where nobody takes a node.
    """
    partitioner = Partitioner(graph, providers, rules, constraints)
    claims = partitioner.claim()
    while left := claims.find_unclaimed_nodes():
        if not partitioner.constraints.release(left):
            raise partitioner.error(claims)
        claims = partitioner.claim()
    return partitioner.assignment(claims, strategy)


def _claims(graph: Graph, path: str, constraints: Constraints) -> Claims:
    claims = Claims(graph, path, constraints)
    for node in claims.nodes:
        for attribute in node.attributes.values():
            bodies = {"GRAPH": [attribute.value], "GRAPHS": attribute.value}.get(attribute.type, [])
            for body in bodies:
                inner = _claims(body, f"{node}.{attribute.name}", constraints)
                claims.bodies.setdefault(node, []).append(inner)
    return claims


def _inner_first(claims: Claims) -> Iterator[Claims]:
    """Yield the levels that are still to be offered, bodies before the graph around them."""
    for node, bodies in claims.bodies.items():
        if node not in claims.whole:
            for body in bodies:
                yield from _inner_first(body)
    yield claims


def _complaint(root: Claims, labels: Sequence[str]) -> str:
    lines = []
    for claims in root.levels():
        for k, owner in enumerate(claims.taken_by):
            if owner is None:
                reasons = "; ".join(f"{r.provider} {r}" for _, r in sorted(claims.reasons[k].items()))
                where = f" in {claims.path}" if claims.path else ""
                lines.append(f"  {_describe(claims.nodes[k])}{where}: {reasons or 'no provider was asked'}")
    some = "a node" if len(lines) == 1 else f"{len(lines)} nodes"
    return f"no provider of {', '.join(labels) or 'none'} runs {some}:\n" + "\n".join(lines)


def _describe(node: Node) -> str:
    types = ", ".join("(left out)" if v is None else str(v.type or "unknown type") for v in node.inputs)
    return f"{node} ({node.domain or 'ai.onnx'} {node.version}; {types})"
