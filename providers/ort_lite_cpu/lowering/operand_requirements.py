"""Requirements of a node's operands, from the shapes that its schema states: what is not known to fit when the node is lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_lite.errors import NodeFailure
from ort_lite.graph import Node
from ort_lite.inference.shape_agreement import check_operands
from ort_lite.shapes.expr import Dim

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.values import Values


def require_shapes(values: Values, node: Node) -> None:
    """Require the shapes of the operands to be those that the schema states. Raises NodeFailure for those that never are."""
    templates = values.inference.rules.schemas.templates(node)
    if not templates:
        return
    operands = [None if value is None else values.inference.of(value) for value in node.inputs]

    def refuse(message: str) -> NodeFailure:
        return NodeFailure(f"{node} (CPUExecutionProvider): {message}").about(node)

    def require(condition: Dim, message: str, *numbers: Dim) -> None:
        values.builder.require(node, condition, message, numbers)

    check_operands(node, templates, operands, refuse, require)
