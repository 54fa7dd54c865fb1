"""Export a partition as an ONNX model, for accelerators that read ONNX."""

from collections import Counter
from collections.abc import Callable

from ort_lite.errors import InvalidGraph
from ort_lite.graph.graph import Graph, Node, Value, clone_node
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType, Type
from ort_lite.load.proto import serialize, similar_operator
from ort_lite.load.save import to_proto
from ort_lite.provider.provider import Partition
from ort_lite.provider.subgraph import subgraph
from ort_lite.record import Record
from ort_lite.shapes.dims import symbol


class PartitionModel(Record):
    """A serialized ModelProto with the names of its inputs and outputs, in the partition's order."""

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def partition_model(partition: Partition, change: Callable[[Graph], None] | None = None) -> PartitionModel:
    """Export a partition with its constants as initializers and its bodies included. O(size, weights included).

    Names are those of the partition, except where two of its values share one. `change` may rewrite the graph, a copy that
    shares arrays, before it is serialized. Of each domain, the model imports the version that most nodes have. A fused operator
    that this version lacks is kept for readers that go by its name. Raises InvalidGraph for a node whose meaning would change,
    and InvalidProtobuf above 2 GiB.
    """
    graph = subgraph(partition)
    if change is not None:
        change(graph)
    data = serialize(to_proto(Model(graph, _imports(graph))))
    return PartitionModel(data, tuple(v.name for v in graph.inputs), tuple(v.name for v in graph.outputs))


_SMALL = 64  # up to this many elements, a constant may be axes, pads or a shape, and is kept


def node_model(node: Node) -> bytes:
    """Export one node as a model, to ask an accelerator if it supports the node.

    Nodes that differ only in names, lengths and weights give equal models. Raises InvalidGraph if the type of an operand is
    unknown.
    """
    operands = list(dict.fromkeys(v for v in node.reads() if v is not None))
    graph, copies = Graph("node"), dict[Value, Value]()
    for k, value in enumerate(operands):
        if value.type is None:
            raise InvalidGraph(f"the type of {value.name!r} is not known")
        if value.constant is not None and value.constant.size <= _SMALL:
            copies[value] = graph.add_initializer(Value(f"i{k}", value.type, value.constant))
        else:
            copies[value] = Value(f"i{k}", _open(value.type, k))
            graph.inputs.append(copies[value])
    copies.update({value: Value(f"o{k}", _open(value.type, -k)) for k, value in enumerate(node.outputs) if value is not None})
    made = graph.append(clone_node(node, copies))
    made.name = ""
    graph.set_outputs(value for value in made.outputs if value is not None)
    return serialize(to_proto(Model(graph, _imports(graph))))


def _open(type_: Type | None, k: int) -> Type | None:
    """Return the type with symbolic lengths."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return type_
    return type_.replace(shape=tuple(symbol(f"d{k}_{axis}") for axis in range(len(type_.shape))))


def _imports(graph: Graph) -> dict[str, int]:
    """Return the version of each domain that most nodes have, the newest in case of a tie.

    Nodes whose operator means the same in that version are converted to it.
    """
    counts: dict[str, Counter[int]] = {}
    for node in graph.all_nodes():
        counts.setdefault(node.domain, Counter())[node.version] += 1
    chosen = {domain: max(versions, key=lambda v: (versions[v], v)) for domain, versions in counts.items()}
    for node in graph.all_nodes():
        version = chosen[node.domain]
        if node.version != version and similar_operator(node.domain, node.op_type, node.version, version):
            node.version = version
    return chosen
