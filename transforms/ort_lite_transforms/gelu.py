"""The Erf form of Gelu, as exporters write it out, becomes Gelu."""

import math

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule

_ROOT = math.sqrt(2)
_SCALED = (op("Div", "x", _ROOT), op("Mul", "x", 1 / _ROOT, commutative=True))
_GATES = tuple(op("Add", op("Erf", scaled), 1.0, commutative=True) for scaled in _SCALED)


@rule(
    *(op("Mul", op("Mul", "x", gate, commutative=True), 0.5, name="root", commutative=True) for gate in _GATES),
    *(op("Mul", op("Mul", "x", 0.5, commutative=True), gate, name="root", commutative=True) for gate in _GATES),
    *(op("Mul", "x", op("Mul", gate, 0.5, commutative=True), name="root", commutative=True) for gate in _GATES),
    level="extended",
    counterparts=("GeluFusion", "GeluFusionL1", "GeluFusionL2"),
    private=True,
)
def compose_gelu(rewriter: Rewriter, x: Value, root: Node) -> Done | Skip:
    """x * (1 + erf(x / sqrt 2)) / 2. Gelu is of opset 20; in an older model com.microsoft's says the same."""
    domain = "" if root.version >= 20 else "com.microsoft"
    return rewriter.replace(root, rewriter.op("Gelu", x, domain=domain))
