"""The result of `InferenceSession.get_provider_graph_assignment_info`. `explain()` has more details."""

from ort_lite.partition.assignment import Assignment
from ort_lite.plugins.selection import DEFAULT
from ort_lite.record import Record


class OrtEpAssignedNode(Record):
    """A node after the transforms. `domain` is "" for ONNX's own operators."""

    name: str
    domain: str
    op_type: str


class OrtEpAssignedSubgraph(Record):
    """A partition and the name of its provider."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """Return the nodes of the partition."""
        return list(self.nodes)


def subgraphs_of(assignment: Assignment) -> list[OrtEpAssignedSubgraph]:
    """Return the partitions in execution order, those of bodies after those of their graph.

    Each node of the CPU provider is listed by itself, as in onnxruntime, whose CPU provider has no partitions.
    """
    found: dict[object, list[OrtEpAssignedNode]] = {}
    names: dict[object, str] = {}
    for place in assignment.placements.values():
        node, name = place.node, assignment.providers[place.provider].name
        key: object = node if name == DEFAULT else place.partition
        found.setdefault(key, []).append(OrtEpAssignedNode(node.name, node.domain, node.op_type))
        names[key] = name
    return [OrtEpAssignedSubgraph(names[key], tuple(nodes)) for key, nodes in found.items()]
