"""An activation becomes part of the Gemm before it: com.microsoft FusedGemm.

Attributes are onnxruntime's: `activation`, `activation_alpha`, `activation_beta`.
"""

from ort_lite.graph import Node
from ort_lite.transform import Done, Rewriter, Skip, op, rule
from ort_lite_transforms.activations import parameters


@rule(
    op(("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid"), op("Gemm", name="gemm", since=11), name="root"),
    level="extended",
    counterparts=("GemmActivationFusion",),
    private=True,
)
def fuse_gemm_activation(rewriter: Rewriter, gemm: Node, root: Node) -> Done | Skip:
    """Fuse an activation into the Gemm before it, as com.microsoft.FusedGemm."""
    if gemm.output.dtype != "float32":
        return Skip(f"{gemm.output.dtype}, takes float32")
    params = parameters(rewriter, root)
    if isinstance(params, str):
        return Skip(params)
    names = ("activation_alpha", "activation_beta")
    fused = rewriter.op(
        "FusedGemm",
        *gemm.inputs,
        domain="com.microsoft",
        like=gemm,
        activation=root.op_type,
        **dict(zip(names, params, strict=False)),
    )
    return rewriter.replace(root, fused)
