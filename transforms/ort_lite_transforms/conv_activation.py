"""A residual sum and an activation become part of the convolution before them: com.microsoft FusedConv.

Attributes and inputs are onnxruntime's: `activation`, `activation_params`, and Z, which is added before the activation. Elu and Swish
are not among onnxruntime's activations.
"""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule
from ort_lite_transforms.activations import parameters

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish", "Elu", "Swish")
_CONV = op("Conv", name="conv")
_FUSED = op("FusedConv", domain="com.microsoft", name="conv")
_NAMES = {"QuickGelu": "Swish"}
"""Activations of com.microsoft, and what they are called in ONNX."""


@rule(
    op("Add", op("Conv", "x", "w", "b", name="conv"), "z", name="sum", since=7, commutative=True),
    op("Add", op("Conv", "x", "w", None, name="conv"), "z", name="sum", since=7, commutative=True),
    level="extended",
    counterparts=("ConvAddActivationFusion",),
    private=True,
)
def fuse_conv_sum(
    rewriter: Rewriter, conv: Node, x: Value, w: Value, z: Value, sum: Node, b: Value | None = None
) -> Done | Skip:
    """Conv(x, w, b) + z, z of the result's very type. Another convolution that is added may be taken just as well."""
    if x.dtype != "float32":
        return Skip(f"{x.dtype}, takes float32")
    if z.shape is None or z.type != conv.output.type:
        return Skip(f"{z.name}, {z.type}, is not known to have the type of the convolution, {conv.output.type}")
    return rewriter.replace(sum, rewriter.op("FusedConv", x, w, b, z, domain="com.microsoft", like=conv))


@rule(
    op(_ACTIVATIONS, _CONV, name="root"),
    op(_ACTIVATIONS, _FUSED, name="root"),
    op(_NAMES, _CONV, name="root", domain="com.microsoft"),
    op(_NAMES, _FUSED, name="root", domain="com.microsoft"),
    level="extended",
    counterparts=("ConvActivationFusion",),
    private=True,
)
def fuse_conv_activation(rewriter: Rewriter, conv: Node, root: Node) -> Done | Skip:
    """One activation a convolution, with constant parameters."""
    if conv.output.dtype != "float32":
        return Skip(f"{conv.output.dtype}, takes float32")
    if conv.attr("activation"):
        return Skip(f"{conv} has an activation already")
    params = parameters(rewriter, root)
    if isinstance(params, str):
        return Skip(params)
    fused = rewriter.op(
        "FusedConv",
        *conv.inputs,
        domain="com.microsoft",
        like=conv,
        activation=_NAMES.get(root.op_type, root.op_type),
        activation_params=params or None,
    )
    return rewriter.replace(root, fused)
