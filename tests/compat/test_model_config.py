"""Session options in a model's metadata."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite


def model(config: str) -> bytes:
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> main (float[N] x) => (float[N] y) { y = Neg(x) }')
    onnx.helper.set_model_props(proto, {"ort_config": config})
    made: bytes = proto.SerializeToString()
    return made


STATED = {"inter_op_num_threads": 5, "intra_op_num_threads": 2, "graph_optimization_level": 1, "unknown": 3}


@pytest.mark.parametrize("by_variable", [False, True])
def test_the_model_states_options(by_variable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    source = model(json.dumps({"session_options": STATED}))
    if by_variable:
        monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
        session = ort_lite.InferenceSession(source, options)
    else:
        session = ort_lite.InferenceSession(source, options, read_config_from_model=1)
    found = session.get_session_options()
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (2, 5)
    assert found.graph_optimization_level == ort_lite.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert options.intra_op_num_threads == 1, "the program's options are its own"
    np.testing.assert_array_equal(session.run(None, {"x": np.array([1], np.float32)})[0], [-1])


def test_without_a_request_they_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    source = model(json.dumps({"session_options": STATED}))
    assert ort_lite.InferenceSession(source).get_session_options().inter_op_num_threads == 0
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    assert ort_lite.InferenceSession(source, read_config_from_model=0).get_session_options().inter_op_num_threads == 0


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("{", "cannot be parsed"),
        ('{"session_options": {"intra_op_num_threads": "2"}}', "intra_op_num_threads is '2'"),
        ('{"session_options": {"intra_op_num_threads": -1}}', "intra_op_num_threads is -1"),
        ('{"session_options": {"execution_mode": 7}}', "execution_mode is 7"),
        ('{"session_options": {"enable_profiling": 2}}', "enable_profiling is 2"),
    ],
)
def test_what_they_cannot_be(config: str, text: str) -> None:
    with pytest.raises(ort_lite.errors.InvalidArgument, match=text):
        ort_lite.InferenceSession(model(config), read_config_from_model=1)
