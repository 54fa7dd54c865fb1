"""Image operators channels-last, for a provider that prefers them so: Transposes around them, and back again."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ort_lite.graph import Attr, Graph, Names, Node, TensorType, Value
from ort_lite.transform import NHWC_DOMAIN
from ort_lite_transforms.schemas import traits

AHEAD = 4
"""Elementwise nodes in a row that are looked at for whether a Transpose will get past all its readers."""


class ChannelsLast:
    """The answer of the hook `ort_lite_layout_conversion`. Nodes keep their identity; Transposes that undo each other go.

    Elementwise nodes and Concat between such nodes compute in the layout that these have: Transposes move behind them in place.
    """

    def convert(self, graph: Graph, nodes: Iterable[Node]) -> list[Node]:
        """Moves those of the nodes that have a layout to NHWC_DOMAIN; returns the Transposes that stay. O(graph)."""
        wanted = [node for node in nodes if _fits(node)]
        return _around(graph, wanted, NHWC_DOMAIN, _last, _first)

    def restore(self, graph: Graph, nodes: Iterable[Node]) -> list[Node]:
        """Makes nodes of NHWC_DOMAIN those of ONNX again; returns the Transposes that this needed. O(graph)."""
        wanted = [node for node in nodes if node.domain == NHWC_DOMAIN]
        return _around(graph, wanted, "", _first, _last)


def _fits(node: Node) -> bool:
    value, outputs = node.inputs[0] if node.inputs else None, [v for v in node.outputs if v is not None]
    images = (value, *outputs)
    known = all(isinstance(v.type, TensorType) and v.type.shape is not None for v in images if v is not None)
    single = len(outputs) == 1 and value is not None and value.constant is None
    return not node.domain and traits(node).image and single and known and len(outputs[0].shape or ()) > 2


def _last(rank: int) -> list[int]:
    """NCHW to NHWC."""
    return [0, *range(2, rank), 1]


def _first(rank: int) -> list[int]:
    """NHWC to NCHW."""
    return [0, rank - 1, *range(1, rank - 1)]


def _around(
    graph: Graph, nodes: list[Node], domain: str, before: Callable[[int], list[int]], behind: Callable[[int], list[int]]
) -> list[Node]:
    names = Names(graph)
    made = []
    for node in nodes:
        x, y = node.inputs[0], node.output
        home = node.graph
        assert x is not None and home is not None and x.shape is not None
        rank = len(x.shape)
        image, result = _permute(x, before(rank), names), _permute(y, before(rank), names)
        made.append(home.insert_before(node, _transpose(x, image, before(rank), node, names)))
        node.replace_input(0, image)
        node.replace_output(0, result)
        made.append(home.insert_after(node, _transpose(result, y, behind(rank), node, names)))
        node.domain = domain
    return _Settling(made, names).run()


class _Settling:
    """Transposes that were inserted move down, behind nodes that any layout suits, until they meet one that undoes them."""

    def __init__(self, made: Iterable[Node], names: Names) -> None:
        self._made, self._names = dict.fromkeys(made), names

    def run(self) -> list[Node]:
        """Return the nodes that stay channels last. Ends: each move takes a Transpose behind a node."""
        moved = True
        while moved:
            moved = False
            for transpose in list(self._made):
                for second in (transpose, *transpose.output.readers):
                    if second.graph is not None and second.op_type == "Transpose" and not second.domain:
                        _cancel(second)
                for reader in transpose.output.readers if transpose.graph is not None else ():
                    moved = self._sink(reader, transpose) or moved
        return [transpose for transpose in self._made if transpose.graph is not None]

    def _sink(self, node: Node, transpose: Node) -> bool:
        """Moves the node's Transposes behind it, where they go by that or the new one does; whether it did."""
        perm, home = transpose.attr("perm"), transpose.graph
        if home is None or not self._moves(node, perm, home, 0):
            return False
        before = [maker for v in node.inputs if v is not None and (maker := v.producer) in self._made and maker is not None]
        if not all(self._leaves(t) for t in before) and not _undone(node.output, perm):
            return False
        self._turn(node, perm, home)
        for t in before:
            if t.graph is not None and not t.output.uses and not t.output.is_graph_output():
                t.graph.remove(t)
        return True

    def _turn(self, node: Node, perm: list[int], home: Graph) -> None:
        """The node computes in the layout that its operands had before they were transposed; a Transpose comes behind it."""
        back = [int(k) for k in np.argsort(perm)]
        for index, value in enumerate(node.inputs):
            if value is not None:
                node.replace_input(index, self._source(value, back, home))
        if node.op_type == "Concat":
            node.attributes["axis"] = Attr.of("axis", perm[node.attr("axis")])
        y, result = node.output, _permute(node.output, back, self._names)
        node.replace_output(0, result)
        self._made[home.insert_after(node, _transpose(result, y, perm, node, self._names))] = None

    def _source(self, value: Value, back: Sequence[int], home: Graph) -> Value:
        """An operand with its axes put back: what its Transpose reads, or another constant."""
        if value.producer is not None and value.producer in self._made:
            source = value.producer.inputs[0]
            assert source is not None
            return source
        if value.constant is None or (value.constant.size == 1 and value.constant.ndim <= 1):
            return value
        full = value.constant.reshape((1,) * (len(back) - value.constant.ndim) + value.constant.shape)
        moved = np.ascontiguousarray(full.transpose(back))
        return home.add_initializer(Value(self._names(f"{value.name}_layout"), constant=moved))

    def _leaves(self, transpose: Node) -> bool:
        """Return True if nobody will read the Transpose once those after it that can have moved."""
        perm, home, y = transpose.attr("perm"), transpose.graph, transpose.output
        readers = [reader for reader in y.readers if not _undoes(reader, perm)]
        return not y.is_graph_output() and all(self._moves(reader, perm, home, AHEAD) for reader in readers)

    def _moves(self, node: Node, perm: list[int], home: Graph | None, ahead: int) -> bool:
        """Return True if its operands come out of such Transposes or have no layout, now or after so many nodes before it moved."""
        many = node.op_type == "Concat"
        known = traits(node)
        if node.graph is not home or node.domain or not (many or known.elementwise or known.broadcasts):
            return False
        if len(node.outputs) != 1 or len(node.output.shape or ()) != len(perm):
            return False
        return all(
            v is None or (not many and _has_no_layout(v, len(perm))) or self._arrives(v, perm, home, ahead) for v in node.inputs
        )

    def _arrives(self, value: Value, perm: list[int], home: Graph | None, ahead: int) -> bool:
        maker = value.producer
        if maker is None or maker.graph is not home:
            return False
        if maker in self._made:
            return bool(maker.attr("perm") == perm)
        return ahead > 0 and self._moves(maker, perm, home, ahead - 1)


def _has_no_layout(value: Value, rank: int) -> bool:
    """A scalar, or a constant whose axes can be put in another order."""
    return value.shape == () or (isinstance(value.constant, np.ndarray) and value.constant.ndim <= rank)


def _undoes(node: Node, perm: list[int]) -> bool:
    again = node.attr("perm") if node.op_type == "Transpose" and not node.domain else None
    return again is not None and [perm[k] for k in again] == sorted(perm)


def _undone(value: Value, perm: list[int]) -> bool:
    return bool(value.uses) and not value.is_graph_output() and all(_undoes(reader, perm) for reader in value.readers)


def _cancel(second: Node) -> None:
    """Remove a Transpose that undoes the one before it: its readers read that one's input."""
    value = second.inputs[0]
    first = value.producer if value is not None else None
    if first is None or first.op_type != "Transpose" or first.domain or first.graph is None:
        return
    source, perm = first.inputs[0], first.attr("perm")
    if source is None or perm is None or not _undoes(second, perm) or not second.output.can_be_replaced_by(source):
        return
    second.output.replace_all_uses_with(source)
    for node in (second, first):
        if node.graph is not None and not node.output.uses and not node.output.is_graph_output():
            node.graph.remove(node)


def _permute(value: Value, perm: list[int], names: Names) -> Value:
    assert isinstance(value.type, TensorType) and value.type.shape is not None
    return Value(names(f"{value.name}_layout"), TensorType(value.type.dtype, tuple(value.type.shape[k] for k in perm)))


def _transpose(source: Value, target: Value, perm: list[int], beside: Node, names: Names) -> Node:
    version = beside.version if not beside.domain else 13
    return Node("Transpose", [source], [target], {"perm": perm}, version=version, name=names(f"{beside.name}_layout"))
