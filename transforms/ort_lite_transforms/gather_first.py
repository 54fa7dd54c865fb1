"""Gather from a constant that is computed (int8 weights through Cast and Mul) gathers first, then computes on what it took."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_ELEMENTWISE = ("Cast", "Mul", "Div", "Add", "Sub", "DequantizeLinear")


@rule(
    op("Gather", op(_ELEMENTWISE, "data", ..., name="inner"), "indices", name="gather"),
    op("Gather", op(("Mul", "Add"), ..., "data", name="inner"), "indices", name="gather"),
    level="extended",
)
def gather_before_computing(rewriter: Rewriter, data: Value, inner: Node, indices: Value, gather: Node) -> Done | Skip:
    """Gather(f(data, c), i) is f(Gather(data, i), c'), where data comes from a constant that was too large to fold.

    c is a constant of one element, or one with a row for each of data's, and then c' is Gather(c, i).
    """
    if not _is_computed_constant(rewriter, data) or data.shape is None or gather.attr("axis", 0) != 0:
        return Skip(f"{data.name} does not come from a constant, or not its rows are gathered")
    operands: list[Value | None] = []
    for value in inner.inputs:
        array = rewriter.array(value)
        if value is data or (array is not None and len(data.shape) == array.ndim and array.shape[:1] == data.shape[:1]):
            operands.append(rewriter.op("Gather", value, indices, like=gather))
        elif array is not None and array.size == 1 and array.ndim <= 1:
            operands.append(value)
        else:
            return Skip(f"an operand of {inner} beside {data.name} has neither one element nor a row for each of its rows")
    return rewriter.replace(gather, rewriter.op(inner.op_type, *operands, like=inner))


def _is_computed_constant(rewriter: Rewriter, value: Value) -> bool:
    """Through operators of one operand that is not constant."""
    while rewriter.array(value) is None:
        node = value.producer
        if node is None or node.op_type not in _ELEMENTWISE:
            return False
        computed = [operand for operand in node.inputs if operand is not None and rewriter.array(operand) is None]
        if len(computed) > 1 or node.inputs[0] is None:
            return False
        value = computed[0] if computed else node.inputs[0]
    return True
