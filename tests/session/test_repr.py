"""What a prompt or a debugger shows of a session, its options and its plans says something about them."""

import inspect

import numpy as np
import onnx.parser
import pytest

import ort_lite

MODEL = '<ir_version: 10, opset_import: ["": 21]> main (float[N,4] x) => (float[N,4] y) { a = Relu(x)  y = Neg(a) }'
PROVIDER = "CPUExecutionProvider"


@pytest.fixture
def session() -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(onnx.parser.parse_model(MODEL))


def test_a_session_shows_its_inputs_outputs_and_providers(session: ort_lite.InferenceSession) -> None:
    tensor = "tensor(float)['N', 4]"
    assert repr(session) == f'InferenceSession(inputs=["x: {tensor}"], outputs=["y: {tensor}"], providers=[\'{PROVIDER}\'])'
    session.close()
    assert repr(session) == "InferenceSession(closed)"


def test_options_show_what_differs_from_the_defaults() -> None:
    options = ort_lite.SessionOptions()
    assert repr(options) == "SessionOptions()"
    options.intra_op_num_threads = 2
    options.add_session_config_entry("ort_lite.strict", "1")
    assert repr(options) == "SessionOptions(intra_op_num_threads=2, config_entries={'ort_lite.strict': '1'})"
    run_options = ort_lite.RunOptions()
    run_options.logid = "a"
    assert repr(run_options) == "RunOptions(logid='a')"


def test_values_explanations_and_plans_show_their_size(session: ort_lite.InferenceSession) -> None:
    assert repr(ort_lite.OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.float32))) == "OrtValue(tensor(float)[2, 3])"
    assert repr(session.explain()) == f"Explanation(nodes by provider: {{{PROVIDER}: 2}}, partitions: 1)"
    session.run(None, {"x": np.ones((2, 4), np.float32)})
    [plan] = session.memory_plans().values()
    assert repr(plan).startswith("MemoryPlan(tensors: ")


@pytest.mark.parametrize("kind", [ort_lite.InferenceSession, ort_lite.session.Session])
def test_an_editor_shows_the_keywords_of_a_session(kind: type) -> None:
    shown = inspect.signature(kind).parameters
    assert {"params", "parse_options", "mmap", "placement_rules", "partitioning", "strict", "creation_timeout"} <= shown.keys()
