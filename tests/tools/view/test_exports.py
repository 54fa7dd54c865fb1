"""A document for other tools: metadata that Netron shows, JSON that Model Explorer reads."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.models.light_models import FOLDER
from tests.tools.view.models import BODIES, CHAIN, SAMPLE, model, session_of

# model_explorer.graph_builder's dataclasses, of ai-edge-model-explorer 0.1.34: their fields, those without a default first.
GRAPH = ("id",), ("nodes", "groupNodeAttributes", "groupNodeConfigs", "nodeLabelsToHide", "tasksData", "layoutConfigs")
NODE = (
    ("id", "label"),
    ("namespace", "subgraphIds", "attrs", "incomingEdges", "outputsMetadata", "inputsMetadata", "style", "config"),
)
EDGE = ("sourceNodeId",), ("sourceNodeOutputId", "targetNodeInputId")
ITEM = ("id",), ("attrs",)
PAIR = ("key", "value"), ()


def as_dataclass(found: Any, fields: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    required, optional = fields
    assert set(required) <= found.keys() <= {*required, *optional}


def explored(source: Any, tmp_path: Path) -> dict[str, Any]:
    path = session_of(source).view().save_model_explorer(tmp_path / "graph.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("text", [CHAIN, BODIES])
def test_model_explorer_finds_the_fields_that_it_knows(text: str, tmp_path: Path) -> None:
    found = explored(model(text), tmp_path)
    assert found.keys() == {"label", "graphs"}
    for graph in found["graphs"]:
        as_dataclass(graph, GRAPH)
        for node in graph["nodes"]:
            as_dataclass(node, NODE)
            metadata = [*node.get("inputsMetadata", []), *node["outputsMetadata"]]
            for edge in node["incomingEdges"]:
                as_dataclass(edge, EDGE)
            for item in metadata:
                as_dataclass(item, ITEM)
            for pair in [*node.get("attrs", []), *(pair for item in metadata for pair in item["attrs"])]:
                as_dataclass(pair, PAIR)
                assert isinstance(pair["value"], str)
        assert all(isinstance(value, str) for group in graph["groupNodeAttributes"].values() for value in group.values())


@pytest.mark.parametrize("text", [CHAIN, BODIES])
def test_edges_lead_from_nodes_of_their_graph_and_bodies_are_graphs(text: str, tmp_path: Path) -> None:
    graphs = {graph["id"]: graph["nodes"] for graph in explored(model(text), tmp_path)["graphs"]}
    for nodes in graphs.values():
        ids = [node["id"] for node in nodes]
        assert len(ids) == len(set(ids))
        assert {edge["sourceNodeId"] for node in nodes for edge in node["incomingEdges"]} <= set(ids)
        assert {body for node in nodes for body in node.get("subgraphIds", [])} <= graphs.keys()


def test_partitions_are_layers(tmp_path: Path) -> None:
    (graph,) = explored(model(CHAIN), tmp_path)["graphs"]
    layers = {node["id"]: node.get("namespace", "") for node in graph["nodes"]}
    assert layers["GraphInputs"] == layers["GraphOutputs"] == ""
    assert layers["last"] == "CPUExecutionProvider_0"
    assert graph["groupNodeAttributes"]["CPUExecutionProvider_0"]["provider"] == "CPUExecutionProvider"
    (scale,) = (node for node in graph["nodes"] if node["id"] == "scale")
    assert scale["incomingEdges"] == [{"sourceNodeId": "GraphInputs", "sourceNodeOutputId": "0", "targetNodeInputId": "0"}]


def annotated(source: Any, tmp_path: Path, feeds: dict[str, Any] | None = None) -> onnx.ModelProto:
    path = session_of(source).view(feeds).annotate(source, tmp_path / "annotated.onnx")
    return onnx.load(path)


def told(thing: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in thing.metadata_props}


def test_nodes_say_who_runs_them_and_who_removed_them(tmp_path: Path) -> None:
    found = annotated(model(CHAIN), tmp_path, {"x": np.ones((3, 4), np.float32)})
    onnx.checker.check_model(found, full_check=True)
    nodes = {node.name: told(node) for node in found.graph.node}
    assert nodes["sum"] == {"ort_lite.removed": "fold_constants"}
    assert nodes["copy"] == {"ort_lite.removed": "remove_no_op"}
    assert nodes["last"]["ort_lite.provider"] == "CPUExecutionProvider"
    assert nodes["last"]["ort_lite.reason.SampleExecutionProvider"].startswith("declined operator: Softmax")
    assert float(nodes["last"]["ort_lite.microseconds"]) > 0
    assert told(found.graph)["ort_lite.CPUExecutionProvider_0"] == "1 nodes on CPUExecutionProvider"


def test_nodes_of_bodies_say_so_too(tmp_path: Path) -> None:
    found = annotated(model(BODIES), tmp_path)
    (then, other) = (attribute.g for attribute in found.graph.node[0].attribute)
    assert told(then.node[1])["ort_lite.provider"]
    assert told(then.node[0])["ort_lite.removed"]
    assert told(other.node[0])["ort_lite.provider"]


def test_the_annotated_model_computes_the_same(tmp_path: Path) -> None:
    source = FOLDER / "light_squeezenet.onnx"
    feeds = {"data_0": np.ones((1, 3, 224, 224), np.float32)}
    expected = session_of(source, SAMPLE[1:]).run(None, feeds)
    path = session_of(source, SAMPLE[1:]).view().annotate(source, tmp_path / "annotated.onnx")
    np.testing.assert_array_equal(session_of(path, SAMPLE[1:]).run(None, feeds)[0], expected[0])
