"""Nodes that hand their first input on unchanged go.

The cases, each decided from types and constants alone:
1. Identity. 2. Dropout outside training. 3. Cast to the type that the input has. 4. Reshape, Flatten, Squeeze, Unsqueeze and
Expand to the shape that the input has. 5. Transpose with axes in order. 6. Slice that takes all, Pad that adds nothing, Tile
once, Resize by 1. 7. Concat, Sum, Mean, Max and Min of one. 8. + 0, - 0, * 1, / 1, ** 1. 9. Reduce over no axes.
onnxruntime removes cases 1 to 3, 5 and 8. The others are a transform of their own, which leaves saved models alone: tools that
fuse attention match a Reshape or Slice even where the sizes show that it does nothing.
A node whose result is a graph output stays where its input is no node's result: the graph would lose the output's name.
"""

from collections.abc import Callable

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_Check = Callable[[Rewriter, Node], bool]
_CHANGES = Skip("it changes its input, or may do so")


def _always(rewriter: Rewriter, node: Node) -> bool:
    return True


def _same_type(rewriter: Rewriter, node: Node) -> bool:
    """Element type and every dimension of input and output are equal, whatever the free dimensions are."""
    x, y = node.inputs[0], node.output
    return x is not None and x.shape is not None and (x.dtype, x.shape) == (y.dtype, y.shape)


def _is_inference_dropout(rewriter: Rewriter, node: Node) -> bool:
    training = node.inputs[2] if node.version >= 12 and len(node.inputs) > 2 else None
    return training is None or rewriter.number(training) is False


def _is_cast_to_itself(rewriter: Rewriter, node: Node) -> bool:
    x = node.inputs[0]
    return x is not None and x.dtype is not None and x.dtype == node.output.dtype


def _keeps_axes(rewriter: Rewriter, node: Node) -> bool:
    perm = node.attr("perm") or None
    rank = len(node.inputs[0].shape) if node.inputs[0] is not None and node.inputs[0].shape is not None else None
    return perm == sorted(perm) if perm is not None else rank is not None and rank <= 1


def _takes_all(rewriter: Rewriter, node: Node) -> bool:
    """Equal shapes leave no choice for the starts, as long as no step is negative."""
    steps = _contents(rewriter, node, 4) if len(node.inputs) > 4 else (1,)
    return steps is not None and all(step == 1 for step in steps) and _same_type(rewriter, node)


def _pads_nothing(rewriter: Rewriter, node: Node) -> bool:
    pads = node.attr("pads", node.attr("paddings")) if node.version < 11 else _contents(rewriter, node, 1)
    return pads is not None and all(isinstance(pad, int) and pad == 0 for pad in pads)


def _repeats_once(rewriter: Rewriter, node: Node) -> bool:
    repeats = _contents(rewriter, node, 1) if node.version >= 6 else None
    return repeats is not None and all(isinstance(count, int) and count == 1 for count in repeats)


def _scales_by_one(rewriter: Rewriter, node: Node) -> bool:
    """Equal shapes are not enough: a scale of 1.1 may round to them, and crops move the image. Strings have no other mode than
    nearest: a provider refuses the node.
    """
    x = node.inputs[0]
    texts = x is not None and rewriter.info(x).dtype == "string"
    if texts and node.attr("mode", "nearest") != "nearest":
        return False
    index = 1 if node.op_type == "Upsample" or node.version < 11 else 2
    given = rewriter.array(node.inputs[index]) if len(node.inputs) > index else None
    scales = node.attr("scales") if given is None else given.tolist()
    crops = node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    return bool(scales) and all(scale == 1 for scale in scales) and not crops


def _has_one_operand(rewriter: Rewriter, node: Node) -> bool:
    return len(node.inputs) == 1


def _reduces_nothing(rewriter: Rewriter, node: Node) -> bool:
    axes = _contents(rewriter, node, 1) if len(node.inputs) > 1 and node.inputs[1] is not None else ()
    return node.attr("noop_with_empty_axes", 0) == 1 and axes == () and node.attr("axes") is None


def _contents(rewriter: Rewriter, node: Node, index: int) -> tuple[object, ...] | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else rewriter.info(value).contents


CHECKS: dict[str, _Check] = {
    "Identity": _always,
    "Dropout": _is_inference_dropout,
    "Cast": _is_cast_to_itself,
    "Transpose": _keeps_axes,
}
SHAPE_CHECKS: dict[str, _Check] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"), _same_type),
    "Slice": _takes_all,
    "Pad": _pads_nothing,
    "Tile": _repeats_once,
    **dict.fromkeys(("Resize", "Upsample"), _scales_by_one),
    **dict.fromkeys(("Concat", "Sum", "Mean", "Max", "Min"), _has_one_operand),
    # Of the others, those that do something else than the identity over no axes (LogSum, SumSquare, ...) are missing.
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), _reduces_nothing),
}


@rule(
    op(CHECKS, "x", name="node"),
    level="basic",
    counterparts=("EliminateIdentity", "EliminateDropout", "CastElimination", "TransposeOptimizer"),
)
def remove_no_op(rewriter: Rewriter, x: Value, node: Node) -> Done | Skip:
    """Remove the nodes of cases 1, 2, 3 and 5."""
    return rewriter.replace(node, x) if CHECKS[node.op_type](rewriter, node) else _CHANGES


@rule(op(SHAPE_CHECKS, "x", name="node"), level="basic")
def remove_same_shape(rewriter: Rewriter, x: Value, node: Node) -> Done | Skip:
    """Remove the nodes of cases 4, 6, 7 and 9, which sizes and contents show to have no effect."""
    return rewriter.replace(node, x) if SHAPE_CHECKS[node.op_type](rewriter, node) else _CHANGES


@rule(
    op("Add", "x", 0.0, name="node", since=7, commutative=True),
    op("Sub", "x", 0.0, name="node", since=7),
    op("Mul", "x", 1.0, name="node", since=7, commutative=True),
    op("Div", "x", 1.0, name="node", since=7),
    op("Pow", "x", 1.0, name="node", since=7),
    level="basic",
    counterparts=("NoopElimination",),
)
def remove_neutral_operand(rewriter: Rewriter, x: Value, node: Node) -> Done | Skip:
    """Case 8. The other operand may add axes to the result, so types must agree."""
    return rewriter.replace(node, x) if x.shape is not None and x.type == node.output.type else _CHANGES
