"""Loop-invariant code motion: what a Loop computes alike in each turn is computed once, in front of it."""

from ort_lite.graph import Graph, Node, Value
from ort_lite.shapes import Shape
from ort_lite.transform import Done, Rewriter, Skip, op, rule
from ort_lite_transforms.transpose_sink import ELEMENTWISE

_ALONE = frozenset(ELEMENTWISE) - {"Cast"} | {"Identity", "Transpose"}
"""Text may not be a number."""
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
        if any(value is None or value.is_graph_output() for value in inner.outputs):
            continue
        if not _cannot_fail(rewriter, inner, outside):
            continue
        for value in inner.inputs:
            if value is not None and body.initializers.get(value.name) is value and value not in outside:
                assert value.constant is not None
                outside[value] = rewriter.constant(value.constant, value.name)
        copy = rewriter.insert_copy(inner, node, outside)
        moved += isinstance(rewriter.replace(inner, *[value for value in copy.outputs if value is not None]), Done)
    return Done() if moved else Skip("each node of its body depends on the turn, or may fail")


def _unchanging(node: Node, body: Graph) -> dict[Value, Value]:
    """Inputs of the body that each turn hands on as they are -> the values outside."""
    states = zip(body.inputs[2:], node.inputs[2:], body.outputs[1:], strict=False)
    return {inner: outer for inner, outer, result in states if inner is result and outer is not None}


def _cannot_fail(rewriter: Rewriter, node: Node, outside: dict[Value, Value]) -> bool:
    """True where shapes fit whatever a run feeds: dimensions of one name may differ there. The result must not be much larger than
    the operands either, as there may be no room for it.
    """
    values = [None if value is None else outside.get(value, value) for value in node.inputs]
    shapes = [None if value is None else rewriter.info(value).shape for value in values]
    known = [shape for shape in shapes if shape is not None]
    if node.domain or len(known) < len(shapes):
        return False
    if node.op_type == "MatMul":
        a, b = known
        fits = len(a) > 1 and len(b) == 2 and isinstance(b[0], int) and a[-1] == b[0]
        return fits and (rewriter.array(values[1]) is not None or b[0] == b[1])
    return node.op_type in _ALONE or (node.op_type in _TOGETHER and (_spread(*known) or _spread(*known[::-1])))


def _spread(a: Shape, b: Shape) -> bool:
    """Return True if b is known to broadcast to the shape of a."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return len(a) >= len(b) and all(y == 1 or (isinstance(y, int) and x == y) for x, y in pairs)
