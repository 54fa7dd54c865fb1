"""Parameters of activations, in the order in which fused operators take them."""

import math

import numpy as np

from ort_lite.graph import Node
from ort_lite.transform import Rewriter

_DEFAULTS = {
    "Elu": (("alpha", 1.0),),
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "LeakyRelu": (("alpha", 0.01),),
    "QuickGelu": (("alpha", 1.702),),
    "Swish": (("alpha", 1.0),),
}
_LIMIT = float(np.finfo(np.float32).max)


def parameters(rewriter: Rewriter, node: Node) -> list[float] | str:
    """(alpha, beta) of a HardSigmoid, (min, max) of a Clip, ...; none for Relu. A text says why they are not known.

    The attributes of an older Clip default to the largest finite numbers; an input that is left out is no limit.
    """
    if node.op_type != "Clip":
        return [float(node.attr(name, default)) for name, default in _DEFAULTS.get(node.op_type, ())]
    if node.version < 11:
        return [float(node.attr("min", -_LIMIT)), float(node.attr("max", _LIMIT))]
    limits = []
    for index, default in ((1, -math.inf), (2, math.inf)):
        value = node.inputs[index] if index < len(node.inputs) else None
        number = default if value is None else rewriter.number(value)
        if number is None:
            return f"a limit of {node} is not constant"
        limits.append(float(number))
    return limits
