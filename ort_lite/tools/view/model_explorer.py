"""A document in the JSON format of Model Explorer (https://github.com/google-ai-edge/model-explorer): a graph collection.

The keys are those of `model_explorer.graph_builder`. A partition is a layer, and a body is a subgraph of its node. Inputs and
outputs of a graph are nodes with Model Explorer's labels for them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ort_lite.tools.view.document import BodyData, Document, NodeData

INPUTS, OUTPUTS = "GraphInputs", "GraphOutputs"

Source = tuple[str, int]
"""Where a value comes from: a node's id and which of its outputs."""


def model_explorer_json(document: Document) -> str:
    """Return a document as JSON in Model Explorer's format."""
    graphs = [_graph(document, body) for body in document["graphs"] if body["node"] is None or body["node"] in _last(document)]
    return json.dumps({"label": document["title"], "graphs": graphs}, indent=1, allow_nan=False)


def _last(document: Document) -> Mapping[str, Any]:
    """Return the placements, whose keys are the nodes of the stage "partitioned"."""
    return document["placements"]


def _graph(document: Document, body: BodyData) -> dict[str, Any]:
    nodes = {key: document["nodes"][key] for key in _last(document) if document["nodes"][key]["graph"] == body["path"]}
    sources: dict[str, Source] = {value: (INPUTS, k) for k, value in enumerate(body["inputs"])}
    for key, node in nodes.items():
        sources.update((value, (key, k)) for k, value in enumerate(node["outputs"]) if value is not None)
    ends = [_end(document, INPUTS, [], body["inputs"], sources), _end(document, OUTPUTS, body["outputs"], [], sources)]
    made = [_node(document, key, node, sources) for key, node in nodes.items()]
    return {
        "id": body["path"] or document["title"],
        "nodes": [ends[0], *made, ends[1]],
        "groupNodeAttributes": _groups(document),
    }


def _end(
    document: Document, label: str, inputs: list[str], outputs: list[str], sources: Mapping[str, Source]
) -> dict[str, Any]:
    edges = list(_edges(inputs, sources))
    return {"id": label, "label": label, "incomingEdges": edges, "outputsMetadata": _metadata(document, outputs)}


def _node(document: Document, key: str, node: NodeData, sources: Mapping[str, Source]) -> dict[str, Any]:
    inputs, outputs = [*node["inputs"], *node.get("captures", ())], node["outputs"]
    return {
        "id": key,
        "label": node["operator"],
        "namespace": document["placements"][key]["partition"],
        "subgraphIds": node.get("bodies", []),
        "attrs": _pairs(_attributes(document, key, node)),
        "incomingEdges": list(_edges(inputs, sources)),
        "inputsMetadata": _metadata(document, inputs),
        "outputsMetadata": _metadata(document, outputs),
    }


def _attributes(document: Document, key: str, node: NodeData) -> dict[str, str]:
    place = document["placements"][key]
    told = {"name": node["name"], **node["attributes"], "provider": place["provider"], "partition": place["partition"]}
    told |= {f"{r['provider']} {r['verdict']}": f"{r['code']}: {r['detail']}" for r in place["reasons"]}
    told |= {name: text for name, text in (("rule", place["rule"]), ("inserted", place["inserted"])) if text}
    if (cost := document["costs"].get(key)) is not None:
        told["microseconds"] = str(cost["microseconds"])
    return told


def _edges(inputs: Iterable[str | None], sources: Mapping[str, Source]) -> Iterable[dict[str, str]]:
    for place, value in enumerate(inputs):
        if value is not None and value in sources:
            node, output = sources[value]
            yield {"sourceNodeId": node, "sourceNodeOutputId": str(output), "targetNodeInputId": str(place)}


def _metadata(document: Document, values: Iterable[str | None]) -> list[dict[str, Any]]:
    return [
        {"id": str(place), "attrs": _pairs(_describe_value(document, value))}
        for place, value in enumerate(values)
        if value is not None
    ]


def _describe_value(document: Document, value: str) -> dict[str, str]:
    known = document["values"][value]
    told = {"__tensor_tag": value, "type": known["type"]}
    return {**told, "constant": known["constant"]} if "constant" in known else told


def _groups(document: Document) -> dict[str, dict[str, str]]:
    return {
        part["name"]: {"provider": part["provider"], "device": part["device"], **{k: str(v) for k, v in part["facts"].items()}}
        for part in document["partitions"]
    }


def _pairs(told: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in told.items()]
