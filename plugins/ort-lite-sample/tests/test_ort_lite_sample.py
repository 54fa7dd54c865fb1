"""The sample provider in sessions, beside a CPU provider."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_sample import SampleExecutionProvider

import ort_lite
from ort_lite.errors import ProviderError
from ort_lite.plugins import Registry

PROVIDERS = [SampleExecutionProvider, "CPUExecutionProvider"]
CHAIN = "(float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { a = Tanh(x)  b = MatMul(a, w)  y = Relu(b) }"
SPLIT = "(float[N,3] x) => (float[N,3] y) { a = Tanh(x)  b = Neg(a)  c = Softmax(b)  d = Exp(c)  y = Sqrt(d) }"


def model(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')


def session(text: str, opset: int = 17, **options: int) -> tuple[ort_lite.InferenceSession, SampleExecutionProvider]:
    sample = SampleExecutionProvider(**options)
    return ort_lite.InferenceSession(model(text, opset), providers=[sample, "CPUExecutionProvider"]), sample


def reasons(session: ort_lite.InferenceSession) -> dict[str, str]:
    """operator -> why the sample does not run it, "" where it does."""
    rows = session.explain().assignment.rows()
    return {
        place.node.op_type: next((str(r) for r in place.reasons if r.provider == SampleExecutionProvider.name), "")
        for _, place in rows
    }


def test_a_chain_is_one_partition_with_the_right_result() -> None:
    made, _ = session(CHAIN)
    x = np.array([[0.5, -1, 2], [3, 0, -0.25]], np.float32)
    (y,) = made.run(None, {"x": x})
    expected = np.maximum(np.tanh(x) @ np.array([[1, 2], [3, 4], [5, 6]], np.float32), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert [p.provider.name for p in made.explain().assignment.partitions] == ["SampleExecutionProvider"]


def test_gemm_follows_its_attributes() -> None:
    made, _ = session(
        "(float[3,N] x) => (float[N,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}, float[2] c = {1, -1}>"
        "{ a = Gemm<alpha = 0.5, beta = 2.0, transA = 1, transB = 1>(x, w, c)  y = Neg(a) }"
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (y,) = made.run(None, {"x": x})
    np.testing.assert_allclose(y, -(0.5 * (x.T @ np.array([[1, 4], [2, 5], [3, 6]], np.float32)) + [2, -2]), rtol=1e-6)


def test_after_a_run_the_memory_holds_constants_alone() -> None:
    made, sample = session(CHAIN)
    for _ in range(3):
        made.run(None, {"x": np.zeros((5, 3), np.float32)})
    assert sample.memory.bytes_in_use == 3 * 2 * 4
    assert sample.memory.peak > sample.memory.bytes_in_use


def test_every_node_says_why_the_sample_does_not_take_it() -> None:
    made, _ = session(SPLIT)
    found = reasons(made)
    assert found["Tanh"] == found["Neg"] == found["Exp"] == found["Sqrt"] == ""
    assert found["Softmax"] == "declined operator: Softmax is none of its operators"


def test_a_node_without_neighbours_is_declined() -> None:
    made, _ = session("(float[N] x) => (float[N] y) { a = Softmax(x)  b = Exp(a)  y = Softmax(b) }")
    assert reasons(made)["Exp"] == "declined alone: no neighbour that it takes as well"


def test_a_chain_that_a_cycle_cuts_below_the_minimum_is_given_back() -> None:
    made, _ = session("(float[N] x) => (float[N] y) { a = Exp(x)  b = Softmax(a)  y = Add(a, b) }")
    assert reasons(made)["Exp"] == reasons(made)["Add"] == "lost: group too small: 1 node, takes 2 or more"


def test_other_element_types_are_declined() -> None:
    made, _ = session("(double[N] x) => (double[N] y) { a = Exp(x)  y = Neg(a) }")
    assert reasons(made)["Exp"] == "declined type: 'x' is float64, takes float32"


def test_operators_that_broadcast_by_attributes_are_declined() -> None:
    made = SampleExecutionProvider()
    from ort_lite.inference import ShapeRules
    from ort_lite.load.load import load
    from ort_lite.provider import GraphView, Rejection

    graph = load(model("(float[N] x) => (float[N] y) { a = Add(x, x)  y = Neg(a) }", opset=6)).graph
    answers = [a for a in made.get_capability(GraphView(graph, rules=ShapeRules(()))) if isinstance(a, Rejection)]
    assert str(answers[0]) == "opset: Add of opset 6, takes 7 and newer"


def test_its_values_are_no_arrays() -> None:
    sample = SampleExecutionProvider()
    handle: Any = sample.memory.store(np.ones(2, np.float32))
    with pytest.raises((TypeError, ValueError)):
        np.add(handle, 1)
    with pytest.raises(TypeError):
        memoryview(handle)


def test_a_value_of_another_memory_is_refused() -> None:
    first, second = SampleExecutionProvider(), SampleExecutionProvider()
    with pytest.raises(ValueError, match="a value of sample:0 came to sample:0"):
        second.memory.view(first.memory.store(np.ones(2, np.float32)))


def test_it_takes_part_only_where_it_is_named() -> None:
    assert SampleExecutionProvider.default is False
    assert "SampleExecutionProvider" not in ort_lite.get_available_providers()


def test_its_options_are_checked() -> None:
    assert SampleExecutionProvider(minimum="3").get_options() == {"minimum": 3}
    with pytest.raises(ProviderError, match="knows no option maximum"):
        SampleExecutionProvider(maximum=3)
    with pytest.raises(ProviderError, match="expected 1 or more"):
        SampleExecutionProvider(minimum=0)


def test_its_entry_point_leads_to_the_class(tmp_path: Path) -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    folder = tmp_path / "ort_lite_sample-0.1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("\n".join(lines))
    registry = Registry([str(tmp_path)])
    assert registry.provider("SampleExecutionProvider") is SampleExecutionProvider
    assert "SampleExecutionProvider" in registry.installed_providers()
    assert registry.available_providers() == ["CPUExecutionProvider"]
