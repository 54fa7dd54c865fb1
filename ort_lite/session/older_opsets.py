"""Before a transformed model is saved: nodes of other opset versions than it imports, which inlined functions bring above all."""

from ort_lite.graph.graph import Node
from ort_lite.graph.model import Model
from ort_lite.load.proto import same_operator, similar_operator
from ort_lite.plugins import plugins


def as_imported(model: Model) -> Model:
    """The model, or a copy in which nodes have the versions that it imports, as far as they mean the same there or have an older
    form (hook `ort_lite_older_form`). O(nodes). The others are for `save` to refuse.
    """
    if not any(_strange(model, node) for node in model.graph.all_nodes()):
        return model
    copy = model.clone()
    bring_to_imports(copy)
    return copy


def bring_to_imports(model: Model) -> None:
    """Do the same as `as_imported`, in place."""
    for node in [node for node in model.graph.all_nodes() if _strange(model, node)]:
        imported = model.opset_imports[node.domain]
        there = same_operator(node.domain, node.op_type, imported, imported)
        if there and similar_operator(node.domain, node.op_type, node.version, imported):
            node.version = imported
        elif node.version > imported:
            plugins.older_form()(node, imported)


def _strange(model: Model, node: Node) -> bool:
    """Return True if the model imports another version of the operator than the node's."""
    imported = model.opset_imports.get(node.domain, node.version)
    if imported == node.version or (node.domain, node.op_type, node.overload) in model.functions:
        return False
    return not same_operator(node.domain, node.op_type, node.version, imported)
