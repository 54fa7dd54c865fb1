"""x * Sigmoid(x) becomes one node."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(
    op("Mul", "x", op("Sigmoid", "x"), name="root", since=7, commutative=True),
    level="extended",
    counterparts=("QuickGeluFusion",),
    private=True,
)
def compose_swish(rewriter: Rewriter, x: Value, root: Node) -> Done | Skip:
    """Swish is of opset 24; in an older model com.microsoft's QuickGelu says the same, so that it can be saved."""
    if root.version >= 24:
        return rewriter.replace(root, rewriter.op("Swish", x))
    return rewriter.replace(root, rewriter.op("QuickGelu", x, domain="com.microsoft", alpha=1.0))
