"""The invariants of transforms: nodes find their inputs, and the model's own inputs and outputs stay."""

from collections.abc import Iterable, Sequence

from ort_lite.errors import Fail, InvalidGraph
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.types import Type
from ort_lite.record import Record
from ort_lite.transform.contract import Change
from ort_lite.transform.rewriter import clash


class _Fault(Record):
    """A violated invariant and the nodes involved: the transform that made or removed one of them is to blame."""

    text: str
    nodes: tuple[Node, ...] = ()


class Outline:
    """The inputs and outputs of a graph before transforms see it."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._inputs = graph, list(graph.inputs)
        self._outputs: list[tuple[Node | None, str, Type | None]] = [(v.producer, v.name, v.type) for v in graph.outputs]
        self._seen = graph.outputs

    def look(self, transform: str) -> None:
        """After a change: raises Fail naming the transform if it took outputs away. Nothing where it set none."""
        if self._graph.outputs is not self._seen:  # a new tuple, mostly of the same names
            self._seen = self._graph.outputs
            if (fault := self._check_output_names()) is not None:
                raise self._fail(fault, [transform])

    def look_closely(self, transform: str) -> None:
        """Raises Fail naming a transform that left an invalid graph, past the Rewriter. O(nodes + edges)."""
        if (fault := _unavailable(self._graph, set())) is not None:
            raise self._fail(fault, [transform])

    def check(self, changes: Sequence[Change], transforms: Iterable[str]) -> None:
        """Raises Fail naming the transform that left an invalid graph. O(nodes + edges)."""
        fault = _unavailable(self._graph, set()) or self._check_interface()
        if fault is not None:
            raise self._fail(fault, _to_blame(fault, changes) or list(transforms))

    def _fail(self, fault: _Fault, names: list[str]) -> Fail:
        who = f"the transform {names[0]}" if len(names) == 1 else f"one of the transforms {', '.join(names)}"
        return Fail(f"{who} left {self._graph.name!r} an invalid graph: {fault.text}; without it: disabled_optimizers={names}")

    def _check_output_names(self) -> _Fault | None:
        now, before = [value.name for value in self._graph.outputs], [name for _, name, _ in self._outputs]
        if now == before:
            return None
        gone = tuple(producer for producer, name, _ in self._outputs if producer is not None and name not in now)
        return _Fault(f"its outputs are {', '.join(now) or 'none'}; expected {', '.join(before)}", gone)

    def _check_interface(self) -> _Fault | None:
        graph = self._graph
        if graph.inputs != self._inputs:
            return _Fault("the inputs of the graph are others")
        if (lost := self._check_output_names()) is not None:
            return lost
        for value, (_, name, type_) in zip(graph.outputs, self._outputs, strict=True):
            if clash(type_, value.type):
                made = () if value.producer is None else (value.producer,)
                return _Fault(f"its output {name!r} is {value.type}; expected {type_}", made)
        return None


def _unavailable(graph: Graph, known: set[Value]) -> _Fault | None:
    """The first node with an input that neither the graph nor one around it has by then; `known` are the values of these."""
    own = [*graph.inputs, *graph.initializers.values()]
    known.update(own)
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in known:
                return _missing(node, value)
        for attribute in node.attributes.values():
            if attribute.type[0] == "G":  # GRAPH or GRAPHS
                for body in node.subgraphs():
                    if (fault := _unavailable(body, known)) is not None:
                        return fault
                break
        for value in node.outputs:
            if value is not None:
                own.append(value)
                known.add(value)
    for value in graph.outputs:
        if value not in known and value.constant is None:
            return _Fault(f"nobody makes its output {value.name!r}", () if value.producer is None else (value.producer,))
    known.difference_update(own)
    return None


def _missing(node: Node, value: Value) -> _Fault:
    producer = value.producer
    if producer is None or producer.graph is None:
        return _Fault(f"{node} reads {value.name!r}, which nobody makes", (node, *([] if producer is None else [producer])))
    try:
        assert node.graph is not None
        node.graph.sort()
    except InvalidGraph as cycle:
        return _Fault(str(cycle), (node, producer))
    return _Fault(f"{node} reads {value.name!r}, which {producer} makes after it or in another graph", (node, producer))


def _to_blame(fault: _Fault, changes: Sequence[Change]) -> list[str]:
    """Return the transforms that last made or removed one of the nodes; else those that bypassed the Rewriter; else all."""
    involved = {node.name or str(node) for node in fault.nodes}
    for change in reversed(changes):
        if not involved.isdisjoint((*change.added, *change.removed)):
            return [change.transform]
    direct = [change.transform for change in changes if not (change.added or change.removed)]
    return list(dict.fromkeys(direct or [change.transform for change in changes]))
