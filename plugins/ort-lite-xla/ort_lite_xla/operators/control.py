"""Control flow whose conditions are known while a program is traced."""

from ort_lite_xla.registry import BOOL, Array, XlaOp, lowering


@lowering("If", types=BOOL, contents=(0,))
def if_(op: XlaOp, condition: Array) -> list[Array]:
    """Compute the branch that is taken. The other one is not part of the program. Spec: ONNX If-25."""
    return op.body("then_branch" if condition.item() else "else_branch")
