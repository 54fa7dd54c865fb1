"""The rounding of a convolution in 16-bit float models: the Casts that follow it, and an activation between two of them.

The convolution's epilogue does all of it, with the same roundings, so that the result goes through memory once (decision 0039).
"""

from ort_lite.dtypes import to_onnx
from ort_lite.graph import Node, Value
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation, activation
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.types import HALVES

_FLOAT, _HALVES = to_onnx("float32"), {to_onnx(half): half for half in HALVES}
_PARAMETERS = {"HardSigmoid": (("alpha", 0.2), ("beta", 0.5)), "LeakyRelu": (("alpha", 0.01),)}
_ACTIVATIONS = ("HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid")


def result_of(op: NodeLowering) -> Value | None:
    """Return output 0, or what it is behind the Casts and the activation that the epilogue does."""
    behind = rounding_behind(op, NONE)[1]
    return behind[-1].outputs[0] if behind else op.node.outputs[0]


def rounding_behind(op: NodeLowering, act: Activation) -> tuple[Activation, list[Node]]:
    """Return `act` with what is behind the node, and the nodes that this does; the value that the last of them gives is the result."""
    if not op.options.fusion or act != NONE or op.info().dtype != "float32":
        return act, []
    first = _rounding(op, op.node.outputs[0])
    if not first:
        return act, []
    half = _HALVES[first[0].attr("to")]
    alone = Activation(half)
    node = only_reader(op, first[-1].outputs[0])
    if node is None or node.op_type not in _ACTIVATIONS or node.domain:
        return alone, first
    second = _rounding(op, node.outputs[0])
    if not second or _HALVES[second[0].attr("to")] != half:
        return alone, first
    params = [node.attr(name, default) for name, default in _PARAMETERS.get(node.op_type, ())]
    made = activation(node.op_type, params)
    assert made is not None
    return made.replace(kind=f"{half} {made.kind}".strip()), [*first, node, *second]


def _rounding(op: NodeLowering, value: Value | None) -> list[Node]:
    """Return the Cast of an f32 to 16 bits and the one back, if nobody else reads what is between."""
    narrow = only_reader(op, value)
    if narrow is None or narrow.op_type != "Cast" or narrow.attr("to") not in _HALVES:
        return []
    wide = only_reader(op, narrow.outputs[0])
    return [narrow, wide] if wide is not None and wide.op_type == "Cast" and wide.attr("to") == _FLOAT else []


def only_reader(op: NodeLowering, value: Value | None) -> Node | None:
    """Return the node of this program that alone reads the value."""
    if value is None or op.values.remaining.get(value) != 1 or len(value.readers) != 1:
        return None
    [node] = value.readers
    return node if node in op.values.coming else None
