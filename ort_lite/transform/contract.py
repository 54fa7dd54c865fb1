"""The contract of a transform: rewrite rules, graph passes, and the Rewriter through which both change a graph.

A rule has a pattern, written as the expression that it finds, and a function that rewrites or says why not:

    @rule(op("Transpose", op("Transpose", name="inner"), name="outer"), level="basic")
    def merge_transposes(rewriter: Rewriter, inner: Node, outer: Node) -> Done | Skip: ...

Operands of a pattern, from left to right: another pattern; a string captures the value under that name (a name used twice
means one value); `constant("w")` captures a value that is constant; a number is a constant of one element equal to it; `...`
is anything, also an operand that is left out; None is an operand that is left out. Operands beyond the last are anything.
Rules see the nodes of nested graphs too; all nodes of a match are in one graph.

A graph pass sees the whole graph at once: `@graph_pass(level="basic") def f(graph, rewriter) -> int`, the number of changes.
Both keep what the graph computes, the names of its inputs and outputs included.

`counterparts` are the onnxruntime optimizers that do the same. Disabling one of them disables the transform. Only transforms
with a counterpart change the model that a session saves, because tools match the patterns that onnxruntime leaves in it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from ort_lite.dtypes import DType
from ort_lite.graph.graph import Graph, Node
from ort_lite.record import Record
from ort_lite.transform.patterns import Pattern
from ort_lite.transform.rewriter import Done, Rewriter, Skip

LEVELS = ("required", "basic", "extended", "all")
"""`required` transforms run always; the others from the graph optimisation level of their name on."""


RuleFunction = Callable[..., Done | Skip]
PassFunction = Callable[[Graph, "Rewriter"], int]


class LocalRule(Record, eq=False):
    """A rewrite rule; the first of its patterns that matches counts."""

    name: str
    level: str
    patterns: tuple[Pattern, ...]
    function: RuleFunction
    private: bool
    counterparts: tuple[str, ...] = ()


class GraphPass(Record, eq=False):
    """A transform that looks at the graph as a whole, bodies included; returns how many changes it made."""

    name: str
    level: str
    function: PassFunction
    counterparts: tuple[str, ...] = ()


Transform = LocalRule | GraphPass


def names_of(transforms: Iterable[Transform]) -> set[str]:
    """The names by which the transforms can be disabled: their own and those of their counterparts."""
    return {name for found in transforms for name in (found.name, *found.counterparts)}


class Change(Record):
    """The effect of one application of a transform: nodes by name. A pass sums up one round."""

    transform: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    times: int = 1

    def __str__(self) -> str:
        return f"{self.transform}: {', '.join(self.removed) or 'nothing'} -> {', '.join(self.added) or 'nothing'}"


CastInsertion = Callable[[Graph, Mapping[Node, DType], Collection[DType]], list[Node]]
"""(graph, element type that each node is to compute in, the types rounded between two such nodes) -> the Casts inserted."""

OlderForm = Callable[[Node, int], bool]
"""(node, opset version) -> whether nodes of that version now stand in the place of the node, which is of a newer operator."""


class LayoutConversion(Protocol):
    """Moves nodes to NHWC_DOMAIN, with Transposes around them, and back. Both return the Transposes that were inserted.

    Nodes that have no layout are left alone, or compute in that of their neighbours. Two Transposes that undo each other do not stay.
    """

    def convert(self, graph: Graph, nodes: Iterable[Node]) -> list[Node]: ...

    def restore(self, graph: Graph, nodes: Iterable[Node]) -> list[Node]: ...


def rule(
    *patterns: Pattern, level: str, name: str = "", private: bool = False, counterparts: tuple[str, ...] = ()
) -> Callable[[RuleFunction], LocalRule]:
    """Makes the decorated function a rule: called with the Rewriter and what the pattern captured, by name.

    `private`: it fires only where nobody outside the match reads what the nodes below its root compute.
    """
    _check_level(level)

    def decorate(function: RuleFunction) -> LocalRule:
        return LocalRule(name or function.__name__, level, patterns, function, private, counterparts)

    return decorate


def graph_pass(*, level: str, name: str = "", counterparts: tuple[str, ...] = ()) -> Callable[[PassFunction], GraphPass]:
    """Makes the decorated function a graph pass."""
    _check_level(level)

    def decorate(function: PassFunction) -> GraphPass:
        return GraphPass(name or function.__name__, level, function, counterparts)

    return decorate


def _check_level(level: str) -> None:
    if level not in LEVELS:
        raise ValueError(f"level {level!r} is none of {', '.join(LEVELS)}")


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """The graph and those nested in it, outer ones first."""
    yield graph
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type[0] == "G":  # as in `all_nodes`
                for body in node.subgraphs():
                    yield from all_graphs(body)
                break
