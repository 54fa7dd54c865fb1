"""The stages of a document, from the model's file to what providers compile."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider

import ort_lite
from ort_lite.tools.view.document import Document, StageData
from tests.models.light_models import FOLDER
from tests.tools.view.models import BODIES, CHAIN, SAMPLE, check, model, moments, partitioned, session_of

CPU = SAMPLE[1:]


def stage(document: Document, title: str) -> StageData:
    return next(found for found in document["stages"] if found["title"] == title)


def test_each_pass_is_a_stage_with_what_went_and_what_came() -> None:
    document = session_of(model(CHAIN), CPU).view().document
    check(document)
    assert [found["id"] for found in document["stages"]] == ["loaded", "transform:1", "transform:2", "partitioned"]
    loaded, folded, copied, parted = document["stages"]
    assert loaded["added"] == ["sum", "copy", "scale~1", "act", "last"]
    assert (folded["title"], folded["removed"], folded["added"]) == ("fold_constants", ["sum"], [])
    assert folded["changes"] == [{"rule": "fold_constants", "removed": ["sum"], "added": []}]
    assert folded["note"].startswith("Nodes whose inputs are all constant are computed now")
    assert folded["level"] == "basic"
    assert (copied["title"], copied["removed"], copied["added"]) == ("remove_no_op", ["copy", "scale~1"], ["scale"])
    assert (parted["removed"], parted["added"]) == ([], [])


def test_a_node_that_reads_something_else_has_another_key_before() -> None:
    document = session_of(model(CHAIN), CPU).view().document
    nodes = document["nodes"]
    assert nodes["scale~1"]["inputs"] == ["c", "s"]
    assert nodes["scale"]["inputs"] == ["x", "s"]
    assert nodes["scale~1"]["name"] == nodes["scale"]["name"] == "scale"


def test_rules_that_take_turns_are_one_stage() -> None:
    """Convolution, BatchNormalization and bias, again and again: a change for each convolution, by the rules that took part."""
    document = session_of(FOLDER / "light_inception_v2.onnx", CPU).view().document
    rules = [found for found in document["stages"] if " more rules" in found["title"]]
    assert len(document["stages"]) < 10
    assert len(rules) == 1
    change = max(rules[0]["changes"], key=lambda change: len(change["removed"]))
    assert "fuse_conv_batch_norm" in change["rule"]
    assert {document["nodes"][key]["operator"] for key in change["removed"]} >= {"Conv", "BatchNormalization"}
    assert [document["nodes"][key]["operator"] for key in change["added"]] == ["Conv"]


def test_what_partitioning_inserts_is_told_with_its_reason() -> None:
    text = "(float16[4] x) => (float16[4] y) { [act] a = Erf(x) [last] y = Neg(a) }"
    document = session_of(model(text), CPU).view().document
    check(document)
    changes = stage(document, "Partitioned")["changes"]
    inserted = {key for change in changes for key in change["added"]}
    assert inserted == {name for name, place in document["placements"].items() if place["inserted"]}
    assert all(document["nodes"][key]["operator"] == "Cast" for key in inserted)


def test_functions_are_inlined_in_a_stage_of_its_own() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "own": 1]> main (float[4] x) => (float[4] y) { [call] y = own.Twice(x) }
        <domain: "own", opset_import: ["": 21]> Twice (a) => (b) { b = Add(a, a) }"""
    document = session_of(onnx.parser.parse_model(text), CPU).view().document
    check(document)
    found = stage(document, "Functions inlined")
    assert found["removed"] == ["call"]
    assert [document["nodes"][key]["operator"] for key in found["added"]] == ["Add"]


def test_fused_nodes_say_what_they_are_made_of() -> None:
    document = session_of(FOLDER / "light_squeezenet.onnx").view().document
    check(document)
    compiled = document["stages"][-1]
    assert compiled["id"] == "compiled"
    fused = [found for part in document["partitions"] for found in part["fused"]]
    assert {key for found in fused for key in found["parts"]} <= set(compiled["removed"])
    assert {found["name"] for found in fused} <= set(compiled["added"])
    one = next(found for found in fused if found["operator"] == "com.microsoft.FusedConv")
    assert [document["nodes"][key]["operator"] for key in one["parts"]] == ["Conv", "Relu"]


def test_a_fused_node_at_a_border_makes_what_the_partition_gives() -> None:
    text = """(float[1, 1, 8, 8] x) => (float[1, 1, 6, 6] y) <float[1, 1, 3, 3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1}> {
        [conv] c = Conv(x, w) [act] r = Relu(c) [last] y = Erf(r) }"""
    document = session_of(model(text), [AcceleratorExecutionProvider, *CPU]).view().document
    check(document)
    given = next(part["outputs"] for part in document["partitions"] if "conv" in part["nodes"])
    fused = next(found["name"] for part in document["partitions"] for found in part["fused"])
    assert document["nodes"][fused]["outputs"] == given


def test_bodies_have_stages_too() -> None:
    document = session_of(model(BODIES)).view().document
    check(document)
    assert [body["path"] for body in document["graphs"]] == ["", "choice.then_branch", "choice.else_branch", "turns.body"]
    assert "same" in moments(document)[0] - partitioned(document)
    assert document["nodes"]["twice"]["inputs"] == ["x", "x"]
    assert document["nodes"]["twice~1"]["inputs"] == ["choice.then_branch/i", "x"]
    assert document["nodes"]["turns"].get("captures") == ["y"]


def test_the_same_model_gives_the_same_document() -> None:
    once, again = (session_of(FOLDER / "light_squeezenet.onnx").view().to_json() for _ in range(2))
    assert once == again


def test_without_its_source_a_session_says_so_and_begins_with_the_assignment() -> None:
    data = model(CHAIN).SerializeToString()
    document = session_of(bytearray(data)).view().document
    check(document)
    assert [found["id"] for found in document["stages"]] == ["partitioned"]
    assert (
        "The stages before partitioning are not known of this session: it was made from a large buffer" in document["notes"][-1]
    )


def test_a_file_that_is_not_there_any_more_leaves_the_other_stages(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model(CHAIN), path)
    session = session_of(path)
    path.unlink()
    document = session.view().document
    check(document)
    assert "its model cannot be loaded again" in document["notes"][-1]
    assert document["title"] == "model.onnx"


def test_a_closed_session_is_shown_without_what_was_compiled() -> None:
    session = session_of(FOLDER / "light_squeezenet.onnx")
    session.close()
    document = session.view().document
    check(document)
    assert document["stages"][-1]["id"] == "partitioned"


def test_overridable_initialisers_are_constants_as_the_session_has_them() -> None:
    proto = model("(float[4] x, float[4] w) => (float[4] y) { [sum] y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    document = session_of(proto, CPU).view().document
    check(document)
    assert [stage["id"] for stage in document["stages"]] == ["loaded", "partitioned"]
    assert document["values"]["w"].get("constant") == "[1.0, 1.0, 1.0, 1.0]"


@pytest.mark.slow
def test_a_large_model_is_a_small_document() -> None:
    """1,746 nodes, of which 1,078 are folded and 121 convolutions take up what follows them."""
    view = session_of(FOLDER / "light_densenet121.onnx").view()
    check(view.document)
    assert len(view.to_json()) < 1_500_000
    assert len(view.document["stages"]) < 10


@pytest.mark.slow
def test_minilm() -> None:
    from tests.models.test_minilm import model as minilm

    document = session_of(minilm()).view().document
    check(document)
    assert len(json.dumps(document)) < 500_000
    assert {part["provider"] for part in document["partitions"]} == set(SAMPLE)


def test_the_page_of_squeezenet_is_small() -> None:
    view = ort_lite.InferenceSession(FOLDER / "light_squeezenet.onnx", providers=SAMPLE).view()
    assert len(view.html.encode()) < 2_000_000
