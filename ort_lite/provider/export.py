"""A partition as an ONNX model of its own, for providers whose accelerator reads ONNX."""

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
    """A serialised ModelProto, and what its inputs and outputs are called: those of the partition, in order."""

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def partition_model(partition: Partition, change: Callable[[Graph], None] | None = None) -> PartitionModel:
    """Constants become initialisers; bodies of control flow are inside. O(size, weights included).

    Names are the partition's, save where two of its values share one. `change` may rewrite the graph, a copy whose arrays
    are shared, before it is written. Of each domain the model imports the version that most nodes are of; an operator that
    this version lacks, as fusions put it in, stands there all the same, for readers that go by its name. Raises InvalidGraph
    for a node that would mean something else there, InvalidProtobuf above 2 GiB.
    """
    graph = subgraph(partition)
    if change is not None:
        change(graph)
    data = serialize(to_proto(Model(graph, _imports(graph))))
    return PartitionModel(data, tuple(v.name for v in graph.inputs), tuple(v.name for v in graph.outputs))


_SMALL = 64  # elements up to which a constant may decide what an operator does: axes, pads, a shape


def node_model(node: Node) -> bytes:
    """A model of the node alone, to ask an accelerator whether it knows such a node: two that differ in names, lengths and
    weights alone have the same model. Raises InvalidGraph where the type of an operand is not known.
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
    """The type without lengths."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return type_
    return TensorType(type_.dtype, tuple(symbol(f"d{k}_{axis}") for axis in range(len(type_.shape))))


def _imports(graph: Graph) -> dict[str, int]:
    """The version of each domain that most nodes are of, the newest of several; nodes that mean the same there take it on."""
    counts: dict[str, Counter[int]] = {}
    for node in graph.all_nodes():
        counts.setdefault(node.domain, Counter())[node.version] += 1
    chosen = {domain: max(versions, key=lambda v: (versions[v], v)) for domain, versions in counts.items()}
    for node in graph.all_nodes():
        version = chosen[node.domain]
        if node.version != version and similar_operator(node.domain, node.op_type, node.version, version):
            node.version = version
    return chosen
