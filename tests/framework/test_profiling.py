"""Profiles: a Chrome trace of what a session did."""

import json
from pathlib import Path

import numpy as np
import onnx.parser

import ort_lite
from tests.framework.numpy_provider import CpuStandIn, NumpyProvider

MODEL = '<ir_version: 8, opset_import: ["": 17]> main (float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }'


def session(profile: str | None) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    providers = [NumpyProvider(lambda node: node.op_type == "Abs"), CpuStandIn()]
    return ort_lite.InferenceSession(onnx.parser.parse_model(MODEL), options, providers=providers)


def test_a_profile_has_the_stages_and_the_steps_of_every_run(tmp_path: Path) -> None:
    made = session(str(tmp_path / "profile_"))
    for _ in range(2):
        np.testing.assert_array_equal(made.run(None, {"x": [1, -2]})[0], [-1, -2])
    path = made.end_profiling()
    assert path.startswith(str(tmp_path / "profile_2"))
    written = json.loads(Path(path).read_text())
    events = [event for event in written if event["cat"] in ("Session", "Node")]
    details = [(event["name"], event["args"].get("provider", "")) for event in written if event["cat"] == "Creation"]
    assert details[-2:] == [("compile_partitions", "NumpyExecutionProvider"), ("compile_partitions", "CPUExecutionProvider")]
    assert ("get_capability", "NumpyExecutionProvider") in details
    names = [event["name"] for event in events]
    assert names[:5] == ["model_loading_array", "transform", "partition", "compile", "session_initialization"]
    run = ["NumpyExecutionProvider_0_kernel_time", "CPUExecutionProvider_0_kernel_time", "model_run"]
    assert names[5:] == run * 2
    assert {event["ph"] for event in events} == {"X"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    assert events[5]["args"] == {"op_name": "NumpyExecutionProvider_0", "provider": "NumpyExecutionProvider"}


def test_without_profiling_nothing_is_written(tmp_path: Path) -> None:
    made = session(None)
    made.run(None, {"x": [1]})
    assert made.end_profiling() == ""
    assert made.get_profiling_start_time_ns() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_profile_starts_at_a_known_time(tmp_path: Path) -> None:
    assert session(str(tmp_path / "profile")).get_profiling_start_time_ns() > 0
