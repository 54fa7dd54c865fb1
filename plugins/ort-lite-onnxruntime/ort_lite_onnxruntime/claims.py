"""Find out which nodes onnxruntime assigns to an execution provider: one session over the offered graph, which is never run."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from ort_lite.errors import OrtLiteError
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.inference import ShapeRules
from ort_lite.provider import ExecutionProvider, Partition
from ort_lite.provider.export import node_model, partition_model
from ort_lite_onnxruntime.libraries import innermost
from ort_lite_onnxruntime.limits import Why
from ort_lite_onnxruntime.sessions import make_safe, misfit
from ort_lite_onnxruntime.targets import CPU, OrtProvider

_MARK = re.compile(r"#(\d+)#")
"""The mark in the names of nodes in an offered model: their position. Nodes in a body have that of the node around it."""
_SMALL = 64
"""The most elements of a constant that may be axes, pads or a shape."""
_CODES = {
    "is not a registered function/op": "operator",
    "Could not find an implementation": "type",
    "Type Error": "type",
    "TypeInferenceError": "type",
    "ShapeInferenceError": "shape",
    "opset": "opset",
    "EP_FAIL": "compile",
}


class OrtClaims:
    """The answers of an execution provider about offered nodes. A model that was asked about before costs no session."""

    def __init__(self, provider: ExecutionProvider, target: OrtProvider) -> None:
        self._provider, self._target = provider, target
        self._answers: dict[bytes, frozenset[int] | Why] = {}

    def reasons(self, nodes: Sequence[Node], rules: ShapeRules) -> dict[Node, Why | None]:
        """Return, for each node, the reason why the execution provider does not run it, or None.

        Creates one session if onnxruntime accepts the nodes. Otherwise it sets aside the node that the error names, or half of
        the nodes, until it accepts a group or one node is left.
        """
        found = {node: misfit(node, self._target) for node in nodes}
        offered = [node for node, why in found.items() if why is None]
        groups = [offered] if offered else []
        while groups:
            group = groups.pop()
            answer = self._answer(group, rules)
            if isinstance(answer, frozenset):
                kinds: dict[str, list[str]] = {}
                for k in sorted(answer):
                    kinds.setdefault(group[k].operator, []).append(_types(group[k]))
                found.update((node, None if k in answer else self._reason(node, kinds)) for k, node in enumerate(group))
            elif len(group) == 1:
                found[group[0]] = answer[0], _MARK.sub("", answer[1])[:400]
            else:
                groups += _split(group, answer[1])
        return found

    def _answer(self, nodes: Sequence[Node], rules: ShapeRules) -> frozenset[int] | Why:
        """Return the positions of the nodes that the execution provider claims, or onnxruntime's error."""
        try:
            model = partition_model(_as_partition(self._provider, nodes, rules), self._prepare).data
        except OrtLiteError as error:
            return "graph", str(error)
        key = sha256(model).digest()
        if key not in self._answers:
            self._answers[key] = self._try(model, len(nodes))
        return self._answers[key]

    def _prepare(self, graph: Graph) -> None:
        """Mark the nodes of a graph, and rewrite them as in a partition: what is put around a node has its mark.

        Weights become inputs for providers that are part of onnxruntime, which saves most of the time. Others may need them.
        """
        for k, node in enumerate(graph):
            for inner in (node, *(each for body in node.subgraphs() for each in body.all_nodes())):
                inner.name = f"#{k}#{inner.name}"
        make_safe(graph)
        for name, value in [] if self._target.is_library else list(graph.initializers.items()):
            if value.constant is not None and value.constant.size > _SMALL:
                del graph.initializers[name]
                value.constant = None
                graph.inputs.append(value)

    def _try(self, model: bytes, count: int) -> frozenset[int] | Why:
        try:
            session = self._target.session(model, _options())
        except Exception as error:  # noqa: BLE001  # onnxruntime's classes have no base of their own
            text = innermost(error)
            return next((code for part, code in _CODES.items() if part in text), "invalid"), text
        if self._target.name == CPU:
            return frozenset(range(count))
        owners: list[set[str]] = [set() for _ in range(count)]
        inlined: set[str] = set()
        for part in session.get_provider_graph_assignment_info():
            for node in part.get_nodes():
                mark = _MARK.match(node.name)
                (inlined if mark is None else owners[int(mark[1])]).add(part.ep_name)
        return frozenset(k for k, names in enumerate(owners) if (names or inlined) == {self._target.name})

    def _reason(self, node: Node, kinds: Mapping[str, Sequence[str]]) -> Why:
        """Return the reason for a node that the execution provider leaves to others, as far as the claimed nodes show it.

        `kinds` has the element types of claimed nodes by operator.
        """
        types, claimed = _types(node), kinds.get(node.operator)
        if claimed is None:
            return "operator", f"{self._target} claims no {node.operator} of {types}"
        if types not in claimed:
            return "type", f"{self._target} claims {node.operator} of {claimed[0]}, not of {types}"
        return "node", f"{self._target} claims other {node.operator} nodes of {types}, not this one"


def _split(group: list[Node], error: str) -> list[list[Node]]:
    """Return the nodes that an error names, by name or operator, and the others; two halves if it names none or all."""
    mark = _MARK.search(error)
    named = {k for k, node in enumerate(group) if (mark[1] == str(k) if mark else f":{node.op_type}(" in error)}
    if not 0 < len(named) < len(group):
        named = set(range(len(group) // 2))
    return [[node for k, node in enumerate(group) if (k in named) == side] for side in (True, False)]


def _as_partition(provider: ExecutionProvider, nodes: Sequence[Node], rules: ShapeRules) -> Partition:
    """Return the nodes as a partition: inputs are what no node of theirs computes, outputs what others read."""
    inside = set(nodes)
    read = [value for node in nodes for value in node.reads() if value is not None and value.constant is None]
    made = [value for node in nodes for value in node.outputs if value is not None]
    inputs = [value for value in dict.fromkeys(read) if value.producer not in inside]
    outputs = [value for value in made if value.is_graph_output() or not value.uses or not inside.issuperset(value.readers)]
    return Partition("offered", provider, tuple(nodes), tuple(inputs), tuple(outputs), rules)


def _types(node: Node) -> str:
    """Return the element types of the inputs, each once."""
    return ", ".join(dict.fromkeys(_type(value) for value in node.inputs if value is not None)) or "nothing"


def _type(value: Value) -> str:
    return value.dtype or str(value.type)


def check_creation(target: OrtProvider) -> None:
    """Create a session of one node. Raises onnxruntime's error if the execution provider cannot be created with its options."""
    x, y = (Value(name, TensorType("float32", (1,))) for name in "xy")
    target.session(node_model(Node("Identity", [x], [y], version=17)), _options())


def _options() -> Any:
    """Return the options of a session that is never run: no optimization, and a record of the assignment."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.disable_prepacking", "1")
    return options
