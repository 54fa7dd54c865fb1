"""LayerNormalization that exporters took apart becomes one node again."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, constant, op, rule

_MEAN = op("ReduceMean", "x", name="mean")
_CENTRED = op("Sub", "x", _MEAN, name="centred")
_SQUARES = (op("Pow", _CENTRED, 2.0), op("Mul", _CENTRED, _CENTRED))
_VARIANCES = tuple(op("ReduceMean", square, name="variance") for square in _SQUARES)
_DEVIATIONS = tuple(op("Sqrt", op("Add", variance, constant("epsilon"), commutative=True)) for variance in _VARIANCES)


@rule(
    *(op("Mul", op("Div", _CENTRED, deviation), "scale", name="root", commutative=True) for deviation in _DEVIATIONS),
    level="extended",
    counterparts=("LayerNormFusion", "LayerNormFusionL1", "LayerNormFusionL2"),
    private=True,
)
def compose_layer_norm(
    rewriter: Rewriter, x: Value, mean: Node, centred: Node, variance: Node, epsilon: Value, scale: Value, root: Node
) -> Done | Skip:
    """(x - mean) / sqrt(variance + epsilon) * scale over the last axes; of opset 17, whatever the model imports."""
    number = rewriter.number(epsilon)
    if number is None or x.dtype not in ("float16", "float32", "float64") or x.shape is None:
        return Skip(f"{x.name} is not known to be a floating-point tensor, or {epsilon.name} no number")
    first = _first_axis(rewriter, mean, len(x.shape))
    if first is None or first != _first_axis(rewriter, variance, len(x.shape)):
        return Skip("the two means are not over the same last axes")
    if scale.shape != x.shape[first:]:
        return Skip(f"{scale.name} is not known to have the shape that is normalised")
    y = rewriter.op("LayerNormalization", x, scale, version=max(17, root.version), axis=first - len(x.shape), epsilon=number)
    return rewriter.replace(root, y)


@rule(
    op("Add", op("LayerNormalization", "x", "scale", None, name="norm"), "bias", name="root", commutative=True),
    level="extended",
    private=True,
)
def fuse_layer_norm_bias(rewriter: Rewriter, x: Value, scale: Value, norm: Node, bias: Value, root: Node) -> Done | Skip:
    """The Add after a LayerNormalization without a bias is its bias."""
    if bias.shape is None or bias.shape != scale.shape:
        return Skip(f"{bias.name} is not known to have the shape that is normalised")
    y = rewriter.op("LayerNormalization", x, scale, bias, version=norm.version, like=norm)
    return rewriter.replace(root, y)


def _first_axis(rewriter: Rewriter, node: Node, rank: int) -> int | None:
    """The first axis of a ReduceMean over all axes from there on, dimensions kept; None for any other."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = node.attr("axes") if given is None else rewriter.info(given).contents
    if axes is None or not node.attr("keepdims", 1):
        return None
    found = sorted(axis % rank for axis in axes if isinstance(axis, int))
    return found[0] if found and len(found) == len(axes) and found == list(range(found[0], rank)) else None
