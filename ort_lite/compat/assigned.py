"""Node assignment in onnxruntime's words: `InferenceSession.get_provider_graph_assignment_info`. `explain()` says more."""

from ort_lite.partition.assignment import Assignment
from ort_lite.record import Record


class OrtEpAssignedNode(Record):
    """A node, as transforms left it. `domain` is "" for ONNX's own operators."""

    name: str
    domain: str
    op_type: str


class OrtEpAssignedSubgraph(Record):
    """A partition."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        return list(self.nodes)


def assigned_subgraphs(assignment: Assignment) -> list[OrtEpAssignedSubgraph]:
    """Partitions in the order in which they run, those of bodies behind those of their graph."""
    found: dict[str, list[OrtEpAssignedNode]] = {}
    names: dict[str, str] = {}
    for place in assignment.placements.values():
        node = place.node
        found.setdefault(place.partition, []).append(OrtEpAssignedNode(node.name, node.domain, node.op_type))
        names[place.partition] = assignment.providers[place.provider].name
    return [OrtEpAssignedSubgraph(names[partition], tuple(nodes)) for partition, nodes in found.items()]
