"""The operators of the card: why it rejects a node, and which nodes one instruction runs together."""

from collections.abc import Collection
from math import prod

from ort_lite.graph import Node, Value
from ort_lite.provider import Rejection
from ort_lite.transform import NHWC_DOMAIN, Done, Rewriter, Skip, op, rule

SINCE = {
    "Add": 7, "Concat": 4, "Conv": 1, "Flatten": 1, "Gather": 1, "Gemm": 7, "GlobalAveragePool": 1, "MatMul": 1, "MaxPool": 1,
    "Mul": 7, "Relu": 6, "Reshape": 5, "Shape": 1, "Unsqueeze": 13,
}  # fmt: skip
"""Operator -> the first supported opset version."""
SIZES = ("Concat", "Gather", "Reshape", "Shape", "Unsqueeze")
"""Operators with int64 operands or results, which are host values: sizes, axes, indices."""
IMAGES = ("Conv", "MaxPool", "GlobalAveragePool")
OWN = "npu"
"""The domain of the fused operator FusedConv(x, w, b, z), channels-last, with the attribute `relu`."""


def misfit(node: Node) -> Rejection | None:
    """Return the reason why the card cannot run a node, or None if it can."""
    if node.op_type not in SINCE or node.domain not in (("", NHWC_DOMAIN) if node.op_type in IMAGES else ("",)):
        return Rejection(node, "operator", f"{node.op_type} is none of {', '.join(SINCE)}")
    if node.version < SINCE[node.op_type]:
        return Rejection(node, "opset", f"{node.op_type} of opset {node.version}, takes {SINCE[node.op_type]} and newer")
    types = ("float32", "int64") if node.op_type in SIZES else ("float32",)
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dtype not in types:
            return Rejection(node, "type", f"{value.name!r} is {value.dtype or 'of unknown type'}, takes {', '.join(types)}")
    for value in node.inputs[1:] if node.op_type == "Conv" else ():
        if value is not None and value.constant is None:
            return Rejection(node, "constant", f"{value.name!r} is computed when the model runs, takes constants")
    if node.attr("auto_pad", "NOTSET") != "NOTSET" or node.attr("ceil_mode", 0) or len(node.outputs) > 1:
        return Rejection(node, "attribute", "auto_pad, ceil_mode or a second output; takes explicit pads and one output")
    return None


def unit(node: Node, free: Collection[Node]) -> list[Node]:
    """Return a node and the nodes after it that the same instruction runs: Conv + Add + Relu, or MatMul + Add."""
    found = [node]
    for wanted in {"Conv": ("Add", "Relu"), "MatMul": ("Add",)}.get(node.op_type, ()):
        result = found[-1].output
        readers = result.readers if len(result.uses) == 1 and not result.is_graph_output() else []
        found += [n for n in readers if n in free and n.op_type == wanted and n.output.type == result.type]
    return found


def work(node: Node) -> int | None:
    """Return the approximate number of multiplications and additions; None if a size is known only at run time."""
    operand, axes = (node.inputs[1], slice(1, None)) if node.op_type == "Conv" else (node.inputs[0], slice(-1, None))
    if node.output.shape is None or operand is None or operand.shape is None:
        return None
    depth = operand.shape[axes] if node.op_type in ("Conv", "Gemm", "MatMul") else ()
    sizes = [dim for dim in (*node.output.shape, *depth) if isinstance(dim, int)]
    return prod(sizes) if len(sizes) == len(node.output.shape) + len(depth) else None


@rule(
    op("Add", op("Conv", name="conv", domain=NHWC_DOMAIN), "z", name="root", since=7, commutative=True),
    level="extended",
    private=True,
)
def fuse_conv_add(rewriter: Rewriter, conv: Node, z: Value, root: Node) -> Done | Skip:
    """Fuse Conv + Add into FusedConv, which adds z before it rounds. z must not broadcast the result to a larger shape."""
    if root.output.type != conv.output.type:
        return Skip(f"{z.name} may widen the result")
    x, w, b = (*conv.inputs, None)[:3]
    return rewriter.replace(root, rewriter.op("FusedConv", x, w, b, z, domain=OWN, like=conv))


@rule(
    op("Relu", op("Conv", name="conv", domain=NHWC_DOMAIN), name="root"),
    op("Relu", op("FusedConv", name="conv", domain=OWN), name="root"),
    level="extended",
    private=True,
)
def fuse_conv_relu(rewriter: Rewriter, conv: Node, root: Node) -> Done | Skip:
    """Fuse Conv + Relu into FusedConv, whose Relu costs nothing extra."""
    return rewriter.replace(root, rewriter.op("FusedConv", *conv.inputs, domain=OWN, like=conv, relu=1))
