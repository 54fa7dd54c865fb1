"""Two changes of shape in a row become one."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(
    op("Reshape", op(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), "x", name="inner"), "shape", name="outer", since=5),
    level="basic",
)
def merge_reshapes(rewriter: Rewriter, x: Value, inner: Node, shape: Value, outer: Node) -> Done | Skip:
    """Reshape(Reshape(x, s), t) is Reshape(x, t), unless t copies a dimension from s by a 0."""
    contents = rewriter.info(shape).contents
    if contents is None or not all(isinstance(size, int) and size != 0 for size in contents):
        return Skip(f"{shape.name} may copy a dimension from {inner.output.name}")
    return rewriter.replace(outer, rewriter.op("Reshape", x, shape, like=outer))
