"""A Sum of two is an Add, which more rules know."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(op("Sum", "a", "b", name="node", since=8), level="basic")
def replace_sum_of_two(rewriter: Rewriter, a: Value, b: Value, node: Node) -> Done | Skip:
    """Both broadcast alike from opset 8 on."""
    if len(node.inputs) != 2:
        return Skip(f"{len(node.inputs)} operands")
    return rewriter.replace(node, rewriter.op("Add", a, b))
