"""Image operators channels-last, for a provider that prefers them so: Transposes around them, and back again."""

from collections.abc import Callable, Iterable

from ort_lite.graph import Graph, Names, Node, TensorType, Value
from ort_lite.transform import NHWC_DOMAIN

# Their first input and their first output are images; other operands have no layout.
SENSITIVE = frozenset({
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalLpPool",
    "GlobalMaxPool", "InstanceNormalization", "LRN", "LpPool", "MaxPool", "SpaceToDepth",
})  # fmt: skip


class ChannelsLast:
    """What the hook `ort_lite_layout_conversion` gives. Nodes keep their identity; Transposes that undo each other go."""

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
    return not node.domain and node.op_type in SENSITIVE and single and known and len(outputs[0].shape or ()) > 2


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
        image, result = _permuted(x, before(rank), names), _permuted(y, before(rank), names)
        made.append(home.insert_before(node, _transpose(x, image, before(rank), node, names)))
        node.replace_input(0, image)
        node.replace_output(0, result)
        made.append(home.insert_after(node, _transpose(result, y, behind(rank), node, names)))
        node.domain = domain
    for transpose in made:
        for second in (transpose, *transpose.output.readers):
            if second.graph is not None and second.op_type == "Transpose" and not second.domain:
                _cancel(second)
    return [transpose for transpose in made if transpose.graph is not None]


def _cancel(second: Node) -> None:
    """Where it undoes the Transpose before it, its readers take what that one reads."""
    value = second.inputs[0]
    first = value.producer if value is not None else None
    if first is None or first.op_type != "Transpose" or first.domain or first.graph is None:
        return
    source, perm = first.inputs[0], first.attr("perm")
    again = second.attr("perm")
    undone = perm is not None and again is not None and [perm[k] for k in again] == sorted(perm)
    if source is None or not undone or not second.output.can_be_replaced_by(source):
        return
    second.output.replace_all_uses_with(source)
    for node in (second, first):
        if node.graph is not None and not node.output.uses and not node.output.is_graph_output():
            node.graph.remove(node)


def _permuted(value: Value, perm: list[int], names: Names) -> Value:
    assert isinstance(value.type, TensorType) and value.type.shape is not None
    return Value(names(f"{value.name}_layout"), TensorType(value.type.dtype, tuple(value.type.shape[k] for k in perm)))


def _transpose(source: Value, target: Value, perm: list[int], beside: Node, names: Names) -> Node:
    version = beside.version if not beside.domain else 13
    return Node("Transpose", [source], [target], {"perm": perm}, version=version, name=names(f"{beside.name}_layout"))
