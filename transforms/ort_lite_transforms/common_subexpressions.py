"""Two nodes that compute the same from the same become one."""

from ort_lite.dtypes import Array
from ort_lite.graph import Attr, Graph, Node
from ort_lite.transform import Done, Rewriter, all_graphs, graph_pass
from ort_lite_transforms.schemas import traits

_DOMAINS = frozenset({"", "com.microsoft", "ai.onnx.ml"})  # in others, nodes may do what they like
_ATTRIBUTE_LIMIT = 4096  # bytes of an array in an attribute; larger ones are not compared


@graph_pass(level="basic", counterparts=("CommonSubexpressionElimination",))
def merge_common_subexpressions(graph: Graph, rewriter: Rewriter) -> int:
    """Merge nodes with the same operator, attributes, inputs and omitted outputs into the first of its graph. O(nodes).

    Random ones, Dropout included, nodes with bodies and those of unknown domains are left alone; each graph is looked at for
    itself.
    """
    count = 0
    for body in all_graphs(graph):
        met: dict[object, Node] = {}
        seen: dict[object, Node] = {}
        for node in body:
            if node.domain not in _DOMAINS:
                continue
            alike = (node.op_type, node.domain, node.version, node.inputs)
            earlier = met.setdefault(alike, node)
            if earlier is node or traits(node).random is not None:  # nearly all: only others' attributes are worth a look
                continue
            seen.setdefault((alike, _key(earlier)), earlier)
            key = _key(node)
            first = node if key is None else seen.setdefault((alike, key), node)
            if first is not node:
                count += _merge(node, first, rewriter)
    return count


def _merge(node: Node, first: Node, rewriter: Rewriter) -> bool:
    values = [output for output in first.outputs if output is not None]
    if len(values) != len(first.outputs):
        return False
    result = rewriter.replace(node, *values)
    if isinstance(result, Done):
        return True
    rewriter.skip(node, result.reason)
    return False


def _key(node: Node) -> object:
    """Equal for nodes with the same inputs that may be merged; None for one that may not."""
    attributes = frozenset((name, _freeze(attribute)) for name, attribute in node.attributes.items())
    if (None in dict(attributes).values()) or any(a.type in ("GRAPH", "GRAPHS") for a in node.attributes.values()):
        return None
    return tuple(value is None for value in node.outputs), attributes


def _freeze(attribute: Attr) -> object:
    """A hashable form; None for what is too large to compare."""
    value = attribute.value
    if attribute.ref:
        return ("ref", attribute.ref)
    if attribute.type == "TENSOR":
        return _freeze_array(value)
    if attribute.type in ("INT", "FLOAT", "STRING"):
        return (attribute.type, value)
    if attribute.type in ("INTS", "FLOATS", "STRINGS"):
        return (attribute.type, tuple(value))
    return None


def _freeze_array(array: Array) -> object:
    if array.nbytes > _ATTRIBUTE_LIMIT or array.dtype.kind == "O":
        return None
    return (str(array.dtype), array.shape, array.tobytes())
