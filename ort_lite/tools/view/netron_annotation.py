"""A model file with the outcome for each node in its metadata, which Netron and other tools show."""

from collections.abc import Iterable, Iterator, Mapping

from ort_lite.graph.model import Model
from ort_lite.load.proto import pb
from ort_lite.load.save import to_proto
from ort_lite.tools.view.document import Document

_IR_VERSION = 10
"""The first in which nodes and graphs have metadata."""


def annotate_model(model: Model, document: Document) -> pb.ModelProto:
    """Return the model, before any transform, as a ModelProto whose metadata keys begin with "ort_lite.". Raises what writing a
    model raises.
    """
    proto = to_proto(model)
    proto.ir_version = max(proto.ir_version, _IR_VERSION)
    gone = _removals(document)
    for node in _nodes(proto.graph):
        _add(node, _place(document, node.name) if node.name in document["placements"] else gone.get(node.name, {}))
    about = dict(document["facts"])
    parts = {part["name"]: f"{len(part['nodes'])} nodes on {part['provider']}" for part in document["partitions"]}
    for thing in (proto, proto.graph):
        _add(thing, {**about, **parts})
    return proto


def _place(document: Document, name: str) -> dict[str, str]:
    place = document["placements"][name]
    told = {"provider": place["provider"], "partition": place["partition"]}
    told |= {f"reason.{r['provider']}": f"{r['verdict']} {r['code']}: {r['detail']}" for r in place["reasons"]}
    if place["rule"]:
        told["rule"] = place["rule"]
    if (cost := document["costs"].get(name)) is not None:
        told["microseconds"] = str(cost["microseconds"])
    return told


def _removals(document: Document) -> dict[str, dict[str, str]]:
    """Return what removed a node, by the node's name."""
    return {
        document["nodes"][key]["name"]: {"removed": change["rule"]}
        for stage in document["stages"]
        for change in stage["changes"]
        for key in change["removed"]
    }


def _nodes(graph: "pb.GraphProto") -> Iterator["pb.NodeProto"]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            bodies: Iterable[pb.GraphProto] = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for body in bodies:
                yield from _nodes(body)


def _add(thing: "pb.ModelProto | pb.GraphProto | pb.NodeProto", told: Mapping[str, str]) -> None:
    for key, value in told.items():
        thing.metadata_props.add(key=f"ort_lite.{key}", value=value)
