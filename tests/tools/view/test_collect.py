"""What a document says beside its stages: costs, facts, operators, another session."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.tools.view.document import Document
from ort_lite.tools.view.graph_records import GraphNames
from tests.models.light_models import FOLDER
from tests.provider.numpy_provider import NumpyProvider
from tests.tools.view.models import BODIES, CHAIN, HEADER, SAMPLE, check, model, session_of

CPU = SAMPLE[1:]
FEEDS = {"x": np.ones((3, 4), np.float32)}
GELU = """(float[64,64] x, float[64,64] w) => (float[64,64] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
    [m] p = MatMul(x, w) [a] a = Div(p, root) [b] b = Erf(a) [c] c = Add(b, one) [d] d = Mul(p, c) [e] y = Mul(d, half) }"""


def fact(document: Document, label: str) -> str:
    return dict(document["facts"])[label]


def test_nodes_that_were_run_as_one_have_equal_parts() -> None:
    feeds = {name: np.ones((64, 64), np.float32) for name in "xw"}
    document = session_of(model(GELU), CPU).view(feeds).document
    check(document)
    costs = document["costs"]
    assert costs.keys() == document["placements"].keys()
    parts = [costs[name] for name in "abcde"]
    assert all(part == parts[0] for part in parts)
    assert parts[0]["shared"] == 5
    assert parts[0]["flops"] == 64 * 64
    assert (costs["m"]["shared"], costs["m"].get("flops")) == (1, 2 * 64**3)
    assert all(cost["microseconds"] > 0 for cost in costs.values())
    assert all(cost["of_peak"] > 0 and cost["limit"] in ("fma f32", "memory") for cost in costs.values())
    assert 0 < sum(cost["share"] for cost in costs.values()) <= 1


def test_a_provider_that_records_nothing_has_the_time_of_its_partition_shared_among_its_nodes() -> None:
    document = session_of(model(CHAIN), [NumpyProvider, *CPU]).view(FEEDS).document
    check(document)
    (part,) = (found for found in document["partitions"] if found["provider"] == NumpyProvider.name)
    assert {document["costs"][name]["shared"] for name in part["nodes"]} == {len(part["nodes"])}


def test_compiled_nodes_have_their_kernels() -> None:
    feeds = {name: np.ones((64, 64), np.float32) for name in "xw"}
    session = session_of(model(GELU), CPU)
    document, choices = session.view(feeds).document, session.explain(kernels=True).kernels
    names = {document["nodes"][key]["name"] for key in document["kernels"]}
    fused = [found["name"] for part in document["partitions"] for found in part["fused"]]
    assert names == choices.keys() and fused and {*fused} <= document["kernels"].keys()
    assert document["kernels"]["m"]["taken"] == choices["m"].taken
    assert document["kernels"]["m"]["costs"][choices["m"].taken]["kernel"] == pytest.approx(choices["m"].predicted, abs=1e-3)


def test_a_convolution_has_the_reasons_against_its_other_candidates() -> None:
    document = session_of(FOLDER / "light_squeezenet.onnx", CPU).view().document
    kernel = document["kernels"]["n0+n1"]
    assert kernel["runner_up"] in kernel["costs"] and kernel["taken"] in kernel["costs"]
    assert kernel["rejected"] and not {*kernel["rejected"]} & {*kernel["costs"]}


def test_a_provider_that_tells_no_kernels_has_none() -> None:
    document = session_of(model(CHAIN), [NumpyProvider, *CPU]).view().document
    others = [name for part in document["partitions"] if part["provider"] == NumpyProvider.name for name in part["nodes"]]
    assert others and document["kernels"].keys().isdisjoint(others)


def test_bodies_have_costs_of_their_own() -> None:
    feeds = {"x": np.ones(4, np.float32), "c": np.array(True), "n": np.array(3)}
    document = session_of(model(BODIES), CPU).view(feeds).document
    check(document)
    assert {"choice", "twice"} <= document["costs"].keys()
    assert "square" not in document["costs"]


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path, session = tmp_path / "trace.json", session_of(model(CHAIN), CPU)
    for text, why in (("not JSON", "it is no trace"), ('{"a": 1}', "it is no trace"), ("[]", "no run is recorded in it")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidArgument, match=why):
            session.view(profile=path)


def test_a_session_without_its_source_is_recorded_all_the_same() -> None:
    document = session_of(bytearray(model(CHAIN).SerializeToString()), CPU).view(FEEDS).document
    check(document)
    assert document["costs"].keys() == document["placements"].keys()


def test_facts_are_those_of_the_file() -> None:
    document = session_of(FOLDER / "light_squeezenet.onnx", CPU).view().document
    assert fact(document, "Producer") == "onnx-caffe2"
    assert fact(document, "Opsets") == "ai.onnx 9"
    assert fact(document, "Operations of a run") == "704 M"
    assert fact(document, "Versions").startswith(f"ort_lite {ort_lite.__version__}, onnx ")


def test_weights_are_counted_in_numbers_and_bytes() -> None:
    document = session_of(model(CHAIN), CPU).view().document
    assert (fact(document, "Parameters"), fact(document, "Weights")) == ("4", "16 bytes")


def test_sizes_that_nobody_knows_leave_the_operations_out_until_a_run_tells_them() -> None:
    session = session_of(model(CHAIN), CPU)
    assert "Operations of a run" not in dict(session.view().document["facts"])
    assert fact(session.view(FEEDS).document, "Operations of a run") == str(3 * 4 * (1 + 1 + 4))


def test_values_have_the_sizes_of_the_run_and_the_symbolic_type_besides() -> None:
    session = session_of(model(CHAIN), CPU)
    symbolic, shown = (view.document["values"]["x"] for view in (session.view(), session.view(FEEDS)))
    assert (shown["shape"], shown["bytes"], shown["type"]) == ([3, 4], 48, "float32[3, 4]")
    assert "symbolic" not in symbolic and shown["symbolic"] == symbolic["type"]
    assert isinstance(symbolic["bytes"], str)


def test_operators_have_their_documentation() -> None:
    operators = session_of(FOLDER / "light_squeezenet.onnx").view().document["operators"]
    conv = operators["Conv"]
    assert (conv["since"], conv["url"]) == (1, "https://onnx.ai/onnx/operators/onnx__Conv.html")
    assert conv["doc"].startswith("The convolution operator consumes an input tensor and a filter")
    assert operators["com.microsoft.FusedConv"]["url"].endswith("#com.microsoft.FusedConv")


def test_an_operator_of_somebody_else_has_no_page() -> None:
    text = "(float[4] x) => (float[4] y) { y = Neg(x) }"
    proto: Any = model(text)
    proto.opset_import.add(domain="own", version=1)
    proto.graph.node[0].domain = "own"
    document = session_of(proto, [NumpyProvider(), *CPU]).view().document
    assert document["operators"]["own.Neg"] == {"since": 1, "doc": "", "url": ""}


def test_another_session_is_beside_it_without_the_values_that_are_equal() -> None:
    document: Document = session_of(model(CHAIN)).view(other=session_of(model(CHAIN), CPU)).document
    other = document["other"]
    assert other["values"] == {}
    check({**other, "values": document["values"]})
    assert {part["provider"] for part in other["partitions"]} == set(CPU)
    assert {part["provider"] for part in document["partitions"]} == set(SAMPLE)


def test_constants_that_were_given_up_are_as_they_were() -> None:
    document = session_of(FOLDER / "light_squeezenet.onnx", CPU).view().document
    constants = [value["constant"] for value in document["values"].values() if "constant" in value]
    assert "min 0.02, mean 0.02, max 0.02" in constants


def test_long_texts_are_cut() -> None:
    text = f'(float[4] x) => (float[4] y) {{ y = own.Op <long = {list(range(1000))}, word = "{"w" * 1000}"> (x) }}'
    graph = ort_lite.load(onnx.parser.parse_model(HEADER.replace("21", '21, "own": 1') + text)).graph
    attributes = GraphNames(graph).node(graph.nodes[0])["attributes"]
    assert {name: len(text) for name, text in attributes.items()} == {"long": 200, "word": 200}
    assert json.dumps(attributes).count("...") == 2
