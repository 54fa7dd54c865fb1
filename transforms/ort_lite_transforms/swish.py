"""x * Sigmoid(x) becomes Swish."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(
    op("Mul", "x", op("Sigmoid", "x"), name="root", since=7, commutative=True),
    level="extended",
    private=True,
)
def compose_swish(rewriter: Rewriter, x: Value, root: Node) -> Done | Skip:
    """Swish is of opset 24, whatever the model imports."""
    return rewriter.replace(root, rewriter.op("Swish", x, version=max(24, root.version)))
