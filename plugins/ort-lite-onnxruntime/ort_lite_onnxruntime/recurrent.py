"""Recurrent networks on empty inputs: onnxruntime's GRU ends the process, so an If keeps empty inputs away from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph, Names, Node, Value

OPERATORS = frozenset({"GRU", "LSTM", "RNN"})
OLDEST = 9
"""The first opset version in which an If can be put around them: that of ConstantOfShape."""
_BOOL = 9


def may_be_empty(node: Node) -> bool:
    """Return True if a node may get no sequences, or sequences without steps."""
    x = node.inputs[0]
    sizes = x.shape[:2] if x is not None and x.shape is not None else (0,)
    return not all(isinstance(size, int) and size for size in sizes)


def guard(graph: Graph) -> None:
    """Put an If around each recurrent node that may get an empty input, bodies included.

    The then-branch runs the node; the else-branch returns what the CPU provider does for sequences without steps.
    """
    fresh = Names(graph)
    for node in list(graph.all_nodes()):
        if not node.domain and node.op_type in OPERATORS and may_be_empty(node):
            _replace(node, fresh)


def _replace(node: Node, fresh: Names) -> None:
    graph, outputs = node.graph, node.outputs
    assert graph is not None, "it is in the graph that is walked"
    itself, nothing = _itself(node, fresh), _Nothing(node, fresh).build()
    for k, value in enumerate(outputs):
        if value is not None:
            node.replace_output(k, Value(""))
    size = _like(node, fresh, "Size", [node.inputs[0]])
    some = _like(node, fresh, "Cast", [size.output], to=_BOOL)
    branch = Node(
        "If",
        [some.output],
        [value for value in outputs if value is not None],
        {"then_branch": itself, "else_branch": nothing},
        version=node.version,
        name=fresh(node.name),
    )
    for made in (size, some, branch):
        graph.insert_before(node, made)
    graph.remove(node)


def _itself(node: Node, fresh: Names) -> Graph:
    body = Graph(fresh("some"))
    outputs = [None if value is None else Value(fresh(value.name), value.type) for value in node.outputs]
    attributes = list(node.attributes.values())
    body.append(Node(node.op_type, node.inputs, outputs, attributes, version=node.version, name=node.name))
    body.set_outputs(value for value in outputs if value is not None)
    return body


def _like(node: Node, fresh: Names, op_type: str, inputs: Sequence[Value | None], **attributes: Any) -> Node:
    """Create a node of the same opset version with one output."""
    name = fresh(f"{node.name}_{op_type}")
    return Node(op_type, inputs, [Value(fresh(name))], attributes, version=node.version, name=name)


class _Nothing:
    """The body for sequences without steps: an output without elements, and states of zeros."""

    def __init__(self, node: Node, fresh: Names) -> None:
        self._node, self._fresh, self._body = node, fresh, Graph(fresh("nothing"))

    def build(self) -> Graph:
        node = self._node
        shape = self._add("Shape", [node.inputs[0]])
        steps, batch = (self._add("Gather", [shape, self._constant([axis])]) for axis in (0, 1))
        ways = self._constant([2 if node.attr("direction") == "bidirectional" else 1])
        state = [ways, batch, self._constant([node.attr("hidden_size")])]
        outputs = []
        for value, sizes in zip(node.outputs, ([steps, *state], state, state), strict=False):
            if value is not None:
                made = self._zeros(sizes, value)
                made.type = value.type
                outputs.append(made)
        self._body.set_outputs(outputs)
        return self._body

    def _zeros(self, sizes: Sequence[Value], like: Value) -> Value:
        shape = self._add("Concat", sizes, axis=0)
        return self._add("ConstantOfShape", [shape], value=np.zeros(1, to_numpy(like.dtype or "float32")))

    def _add(self, op_type: str, inputs: Sequence[Value | None], **attributes: Any) -> Value:
        return self._body.append(_like(self._node, self._fresh, op_type, inputs, **attributes)).output

    def _constant(self, numbers: list[int]) -> Value:
        array: Array = np.array(numbers, np.int64)
        return self._body.add_initializer(Value(self._fresh("size"), constant=array))
