"""Every node of a model that was just loaded against its operator's schema, types aside: operands and attributes."""

from ort_lite.errors import InvalidGraph, said
from ort_lite.graph.graph import Node
from ort_lite.graph.model import Model
from ort_lite.inference.rules import ShapeRules


def check_form(model: Model, rules: ShapeRules) -> None:
    """Raises InvalidGraph naming the node, those of bodies and of functions included, called or not. O(nodes).

    Calls of the model's functions have no schema; nor need operators that only a shape rule knows.
    """
    for node in model.graph.all_nodes():
        check_node(node, model, rules)
    for function in model.functions.values():
        for node in function.graph.all_nodes():
            try:
                check_node(node, model, rules)
            except InvalidGraph as error:
                raise InvalidGraph(f"function {function.name!r} of domain {function.domain!r}: {said(error)}") from None


def check_node(node: Node, model: Model, rules: ShapeRules) -> None:
    """As `check_form`, for one node."""
    schemas = rules.schemas
    if model.functions and (node.domain, node.op_type, node.overload) in model.functions:
        return
    if schemas.find(node) is not None or schemas.versions(node) or rules.find(node) is None:
        schemas.check_form(node)
