"""Every node of a model that was just loaded against its operator's schema, types aside: operands and attributes."""

from collections.abc import Iterator

from ort_lite.errors import InvalidGraph, describe
from ort_lite.graph.graph import Node
from ort_lite.graph.model import Model
from ort_lite.inference.shape_rules import ShapeRules


def check_form(model: Model, rules: ShapeRules) -> None:
    """Raises InvalidGraph naming the node, those of bodies and of functions included, called or not. O(nodes).

    Calls of the model's functions have no schema; nor need operators that only a shape rule knows.
    """
    for error in wrong_forms(model, rules):
        raise error


def wrong_forms(model: Model, rules: ShapeRules) -> Iterator[InvalidGraph]:
    """Return every error that `check_form` would raise."""
    for domain, version in model.opset_imports.items():
        newest = rules.schemas.complete(domain)
        if newest is not None and version > newest:
            yield InvalidGraph(f"the model imports opset {version} of {domain or 'ai.onnx'}; ort_lite knows up to {newest}")
    for node in model.graph.all_nodes():
        try:
            check_node(node, model, rules)
        except InvalidGraph as error:
            yield error
    for function in model.functions.values():
        for node in function.graph.all_nodes():
            try:
                check_node(node, model, rules)
            except InvalidGraph as error:
                yield InvalidGraph(f"function {function.name!r} of domain {function.domain!r}: {describe(error)}")


def check_node(node: Node, model: Model, rules: ShapeRules) -> None:
    """Check one node as `check_form` does."""
    schemas = rules.schemas
    if model.functions and (node.domain, node.op_type, node.overload) in model.functions:
        return
    schema = schemas.find(node)
    if schema is not None:
        schemas.check_against(node, schema)
    elif schemas.versions(node) or rules.find(node) is None:
        schemas.check_form(node)
