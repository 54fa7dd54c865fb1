"""Profiles: a Chrome trace of what a session did."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser

import ort_lite
from ort_lite.execute.profiling import Profiler
from ort_lite.provider import ProfileEvent
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
    assert names[:5] == ["session_initialization", "model_loading_array", "transform", "partition", "compile"]
    run = ["model_run", "NumpyExecutionProvider_0_kernel_time", "CPUExecutionProvider_0_kernel_time"]
    assert names[5:] == run * 2
    assert {event["ph"] for event in events} == {"X"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    assert events[6]["args"] == {"op_name": "NumpyExecutionProvider_0", "provider": "NumpyExecutionProvider"}


def test_without_profiling_nothing_is_written(tmp_path: Path) -> None:
    made = session(None)
    made.run(None, {"x": [1]})
    assert made.end_profiling() == ""
    assert made.get_profiling_start_time_ns() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_profile_starts_at_a_known_time(tmp_path: Path) -> None:
    assert session(str(tmp_path / "profile")).get_profiling_start_time_ns() > 0


def nested(events: list[dict[str, Any]]) -> bool:
    """Whether those of each thread, in the order of the file, lie inside of each other or apart."""
    ends: dict[int, list[int]] = {}
    for event in events:
        open_, end = ends.setdefault(event["tid"], []), event["ts"] + event["dur"]
        while open_ and open_[-1] <= event["ts"]:
            open_.pop()
        if open_ and end > open_[-1]:
            return False
        open_.append(end)
    return True


def test_a_trace_has_threads_with_names_nested_events_and_flows(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    providers: list[Any] = [NumpyProvider(lambda node: node.op_type == "Abs"), "CPUExecutionProvider"]
    made = ort_lite.InferenceSession(onnx.parser.parse_model(MODEL), options, providers=providers)
    threads = [threading.Thread(target=made.run, args=(None, {"x": [1, -2]}), name=f"caller {k}") for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = json.loads(Path(made.end_profiling()).read_text())
    names = {event["tid"]: event["args"]["name"] for event in written if event["name"] == "thread_name"}
    assert names.keys() >= {event["tid"] for event in written if event["ph"] == "X"}
    spans = [event for event in written if event["ph"] == "X"]
    assert nested(spans)
    assert not nested([{**event, "dur": event["dur"] + 10**6 * (event["cat"] == "Kernel")} for event in spans])
    runs = {names[event["tid"]] for event in spans if event["name"] == "model_run"}
    assert runs == {"caller 0", "caller 1", "caller 2"}
    assert {names[event["tid"]] for event in spans if event["cat"] == "Kernel"} == runs, "inside of their steps"
    flows = [event for event in written if event["ph"] in "sf"]
    assert [event["ph"] for event in flows] == ["s", "f"] * 3
    for start, finish in zip(flows[::2], flows[1::2], strict=True):
        assert (start["id"], start["tid"], start["name"]) == (finish["id"], finish["tid"], finish["name"])
        assert start["ts"] <= finish["ts"]
        assert start["name"] == "NumpyExecutionProvider_0 to CPUExecutionProvider_0"


def test_events_of_devices_have_tracks_of_their_own(tmp_path: Path) -> None:
    profiler = Profiler(str(tmp_path / "trace"))
    for provider in ("A", "B", "A"):
        profiler.device_event(provider, ProfileEvent("work", profiler.start + 1000, profiler.start + 5000))
    written = json.loads(Path(profiler.end()).read_text())
    names = {event["tid"]: event["args"]["name"] for event in written if event["name"] == "thread_name"}
    assert [names[event["tid"]] for event in written if event["ph"] == "X"] == ["A", "B", "A"]
    assert len(names) == 2
