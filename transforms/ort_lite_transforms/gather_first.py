"""Gather from a constant that is computed (int8 weights through Cast and Mul) gathers first, then computes on what it took."""

from ort_lite.dtypes import FLOATS, INTEGERS
from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_ELEMENTWISE = ("Cast", "Mul", "Div", "Add", "Sub", "DequantizeLinear")


@rule(op("Gather", op(_ELEMENTWISE, name="inner"), "indices", name="gather"), level="extended")
def gather_before_computing(rewriter: Rewriter, inner: Node, indices: Value, gather: Node) -> Done | Skip:
    """Gather(f(data, c), i) is f(Gather(data, i), c'), where data comes from a constant that was too large to fold.

    c is a constant of one element, or one with a row for each of data's, and then c' is Gather(c, i).
    """
    data = _data(rewriter, inner)
    if data is None or data.shape is None or gather.attr("axis", 0) != 0:
        return Skip(f"{inner} does not compute on a constant, or not its rows are gathered")
    operands: list[Value | None] = []
    if not _takes(gather, data):
        return Skip(f"{gather} does not take {data.dtype}")
    for value in inner.inputs:
        array = rewriter.array(value)
        if value is data or (array is not None and len(data.shape) == array.ndim and array.shape[:1] == data.shape[:1]):
            operands.append(rewriter.op("Gather", value, indices, like=gather))
        elif array is not None and array.size == 1 and array.ndim <= 1:
            operands.append(value)
        else:
            return Skip(f"an operand of {inner} beside {data.name} has neither one element nor a row for each of its rows")
    return rewriter.replace(gather, rewriter.op(inner.op_type, *operands, like=inner))


def _takes(gather: Node, data: Value) -> bool:
    """Return True if this version of Gather takes the type of the data, which may be one that only DequantizeLinear takes."""
    return data.dtype in FLOATS | INTEGERS and (data.dtype != "bfloat16" or gather.version >= 13)


def _data(rewriter: Rewriter, node: Node) -> Value | None:
    """The operand that is computed, if it is computed from one constant alone; the first one where all are constant."""
    computed = [value for value in node.inputs if value is not None and rewriter.array(value) is None]
    if not computed:
        return node.inputs[0]
    producer = computed[0].producer
    if len(computed) > 1 or producer is None or producer.op_type not in _ELEMENTWISE or producer.domain:
        return None
    return None if _data(rewriter, producer) is None else computed[0]
