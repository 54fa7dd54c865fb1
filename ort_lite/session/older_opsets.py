"""Bring nodes to the opset versions that the model imports before it is saved.

Nodes of other versions come mostly from inlined functions.
"""

from ort_lite.graph.graph import Node
from ort_lite.graph.model import Model
from ort_lite.load.proto import same_operator, similar_operator
from ort_lite.plugins import plugins


def convert_to_imports(model: Model) -> Model:
    """Return the model, or a copy whose nodes have the opset versions that the model imports. O(nodes).

    A node is converted if its operator means the same in the imported version, or if the hook `ort_lite_older_form` knows an
    older form. `save` rejects the remaining nodes.
    """
    if not any(_strange(model, node) for node in model.graph.all_nodes()):
        return model
    copy = model.clone()
    bring_to_imports(copy)
    return copy


def bring_to_imports(model: Model) -> None:
    """Convert nodes to the imported opset versions in place (see `convert_to_imports`)."""
    for node in [node for node in model.graph.all_nodes() if _strange(model, node)]:
        imported = model.opset_imports[node.domain]
        there = same_operator(node.domain, node.op_type, imported, imported)
        if there and similar_operator(node.domain, node.op_type, node.version, imported):
            node.version = imported
        elif node.version > imported:
            plugins.older_form()(node, imported)


def _strange(model: Model, node: Node) -> bool:
    """Return True if the model imports a different version of the node's operator."""
    imported = model.opset_imports.get(node.domain, node.version)
    if imported == node.version or (node.domain, node.op_type, node.overload) in model.functions:
        return False
    return not same_operator(node.domain, node.op_type, node.version, imported)
