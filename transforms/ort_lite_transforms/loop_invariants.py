"""What a Loop computes anew in each turn, and always alike, is computed once, in front of it."""

from ort_lite.graph import Graph, Node, Value, clone_node
from ort_lite.shapes import Shape, same
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_ALONE = frozenset(
    [
        "Abs",
        "Cos",
        "Erf",
        "Exp",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Neg",
        "Relu",
        "Sigmoid",
        "Sin",
        "Softplus",
        "Sqrt",
        "Tanh",
    ]
)
_TOGETHER = frozenset(["Add", "Mul", "Sub"])


@rule(op("Loop", name="node"), level="extended")
def hoist_loop_invariants(rewriter: Rewriter, node: Node) -> Done | Skip:
    """Nodes of the body whose inputs are constants, values from outside, or states that each turn hands on as they are.

    A Loop may take no turn: only what cannot fail is moved, products and elementwise operators whose shapes are known to fit. The
    values are the same, and live as long as the Loop runs. O(body).
    """
    body: Graph = node.attr("body")
    outside = _unchanging(node, body)
    inside = {value for inner in body for value in inner.outputs if value is not None} | set(body.inputs)
    moved = 0
    for inner in list(body):
        if any(value in inside and value not in outside for value in inner.inputs):
            continue
        if any(value is None or value.is_graph_output() for value in inner.outputs) or not _cannot_fail(
            rewriter, inner, outside
        ):
            continue
        for value in inner.inputs:
            if value is not None and body.initializers.get(value.name) is value and value not in outside:
                assert value.constant is not None
                outside[value] = rewriter.constant(value.constant, value.name)
        moved += _move(rewriter, inner, node, outside)
    return Done() if moved else Skip("each node of its body depends on the turn, or may fail")


def _unchanging(node: Node, body: Graph) -> dict[Value, Value]:
    """Inputs of the body that each turn hands on as they are -> the values outside."""
    states = zip(body.inputs[2:], node.inputs[2:], body.outputs[1:], strict=False)
    return {inner: outer for inner, outer, result in states if inner is result and outer is not None}


def _cannot_fail(rewriter: Rewriter, node: Node, outside: dict[Value, Value]) -> bool:
    shapes = [None if value is None else rewriter.info(outside.get(value, value)).shape for value in node.inputs]
    if node.domain or None in shapes:
        return False
    if node.op_type in _ALONE or node.op_type == "Transpose":
        return True
    a, b = shapes[0], shapes[-1]
    assert a is not None and b is not None
    if node.op_type == "MatMul":
        return len(a) > 1 and len(b) == 2 and same(a[-1], b[0])
    return node.op_type in _TOGETHER and _fit(a, b)


def _fit(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to broadcast."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(x == 1 or y == 1 or same(x, y) for x, y in pairs)


def _move(rewriter: Rewriter, inner: Node, node: Node, outside: dict[Value, Value]) -> bool:
    copy = clone_node(inner, outside)
    results = [value for value in copy.outputs if value is not None]
    for value in results:
        value.name = rewriter.names(value.name)
    copy.name = rewriter.names(copy.name)
    rewriter.insert(copy, node)
    return isinstance(rewriter.replace(inner, *results), Done)
