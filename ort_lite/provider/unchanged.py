"""Detect providers that change a graph which they may only read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Graph, Node
from ort_lite.provider.ask import ask, who
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Rejection

_SMALL = 64
"""The maximum number of attribute elements that are compared; of larger attributes, only the identity is."""


class GraphChanged(ProviderError):
    """The error for a provider that changed a graph."""


def capabilities(provider: ExecutionProvider, view: GraphView, label: str = "") -> list[Capability | Rejection]:
    """Return the answers of `get_capability`. Raises the errors of `ask`, and GraphChanged if it changed the graph."""
    with forbid_changes(provider, "get_capability", [view.graph], label):
        answers: list[Capability | Rejection] = ask(provider, "get_capability", view, label=label)
    return answers


@contextmanager
def forbid_changes(provider: ExecutionProvider, hook: str, graphs: Iterable[Graph | None], label: str = "") -> Iterator[None]:
    """Raise GraphChanged, naming provider, hook and place, if the graphs differ after the block. O(nodes).

    Providers with `exact` are not checked.
    """
    if provider.exact:
        yield
        return
    before = [_State(graph) for graph in graphs if graph is not None]
    yield
    for state in before:
        if where := state.change():
            raise GraphChanged(
                f"{label or who(provider)}: {hook} changed the graph: {where}. Providers do not change graphs; transforms do, "
                "through the Rewriter (`ExecutionProvider.fusions`, or the hook `ort_lite_transforms`)"
            )


class _State:
    """The state of a graph and its bodies: the identities of its objects, and the contents of small attributes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = [(node, _node(node), [*node.attributes.values()]) for node in graph.all_nodes()]
        self._frames = [_frame(found) for found in dict.fromkeys((graph, *(node.graph for node, _, _ in self._nodes)))]

    def change(self) -> str:
        """Describe the first difference from the earlier state; "" if there is none."""
        now = _State(self._graph)
        for (node, was, _), (other, found, _) in zip(self._nodes, now._nodes, strict=False):
            if node is not other or was != found:
                return f"the node {was[0]} {was[1]!r}"
        if self._frames != now._frames or len(self._nodes) != len(now._nodes):
            return f"nodes, inputs, outputs or initialisers of {self._graph.name!r}"
        return ""


def _node(node: Node) -> tuple[Any, ...]:
    """Return the state of a node. Attributes are held so that no new one reuses the address of an old one."""
    made = [(v.name, v.type, v.producer, id(v.constant)) for v in node.outputs if v is not None]
    attributes = node.attributes
    said = [(name, id(found), _contents(found.value)) for name, found in attributes.items()] if attributes else None
    return node.op_type, node.name, node.domain, node.version, node.overload, node.graph, node.inputs, node.outputs, made, said


def _contents(value: Any) -> Any:
    if type(value) is list:
        return tuple(value) if len(value) <= _SMALL else len(value)
    return value.tobytes() if isinstance(value, np.ndarray) and value.size <= _SMALL and value.dtype != object else None


def _frame(graph: Graph | None) -> tuple[Any, ...]:
    if graph is None:
        return ()
    own = [(v, v.name, v.type, v.producer, id(v.constant)) for v in (*graph.inputs, *graph.initializers.values())]
    return graph, graph.name, len(graph.inputs), *own, *graph.initializers, graph.outputs
