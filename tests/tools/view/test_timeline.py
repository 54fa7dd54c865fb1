"""The timeline of a document, and traces of it."""

import json
from pathlib import Path
from threading import get_native_id
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.execute.profiling import Recording
from ort_lite.execute.trace import Flow, Trace
from ort_lite.log.events import RUN, Event, Stream
from ort_lite.tools.view import timeline
from ort_lite.tools.view.timeline import timeline_of
from ort_lite.tools.view.trace_file import read
from tests.provider.numpy_provider import OtherDevice

MODEL = '<ir_version: 8, opset_import: ["": 17]> main (float[N] x) => (float[N] y) { a = Abs(x)  y = Softmax(a) }'
DOCUMENT: Any = {"partitions": [{"name": "P_0", "provider": "P", "fused": []}], "placements": {"conv": None}}


class Box(OtherDevice):
    """Can be made again by its class, as a session like another one does."""

    def __init__(self) -> None:
        super().__init__(lambda node: node.op_type == "Abs")


def view(*providers: Any, **more: Any) -> Any:
    session = ort_lite.InferenceSession(onnx.parser.parse_model(MODEL), providers=list(providers))
    return session.view({"x": np.array([1, -2], np.float32)}, **more)


def test_a_run_is_shown_with_its_steps_kernels_and_copies() -> None:
    made = view(Box, "CPUExecutionProvider").document["timeline"]
    names = {track["id"]: track["name"] for track in made["tracks"]}
    by_category: dict[str, list[Any]] = {}
    for event in made["events"]:
        by_category.setdefault(event["category"], []).append(event)
    assert list(names) == list(range(len(names)))
    [run] = by_category["Session"]
    assert (run["start"], run["name"]) == (0, "model_run")
    assert [event["name"] for event in by_category["Step"]] == [
        "copy 'x' cpu:0 -> box:0",
        "BoxExecutionProvider_0",
        "copy 'a' box:0 -> cpu:0",
        "CPUExecutionProvider_0",
    ]
    assert [(names[e["track"]], e["bytes"], e["provider"]) for e in by_category["Copy"]] == [
        ("cpu:0 -> box:0", 8, "BoxExecutionProvider"),
        ("box:0 -> cpu:0", 8, "CPUExecutionProvider"),
    ]
    [kernel] = by_category["Kernel"]
    assert (kernel["node"], kernel["provider"], kernel["track"]) == ("Softmax_0", "CPUExecutionProvider", run["track"])
    assert kernel["details"]["op_name"] == "Softmax"
    assert all(e["start"] >= 0 and e["start"] + e["duration"] <= run["duration"] + 1e-6 for e in made["events"])
    assert [flow["name"].partition(" to ")[2] for flow in made["flows"]] == [e["name"] for e in by_category["Step"][1:]]


def recorded(*runs: tuple[int, int], kernels: int = 1) -> Trace:
    """Runs in a thread, each with kernels of a device that are one, two, ... nanoseconds long."""
    stream, recording = Stream(), Recording()
    stream.subscribe(recording)
    for begin, end in runs:
        moment = recording.start + begin
        stream.emit(Event(RUN, moment, recording.start + end, thread=get_native_id(), kind="Session"))
        for k in range(kernels):
            stream.emit(Event("conv", moment, moment + k + 1, {"provider": "Card"}))
    return recording.trace()


def test_the_run_that_took_the_least_time_is_shown() -> None:
    made = timeline_of(recorded((0, 9000), (10_000, 13_500), (20_000, 25_000)), DOCUMENT)
    assert made is not None
    assert [(e["name"], e["start"], e["duration"], e.get("node")) for e in made["events"]] == [
        ("model_run", 0, 3.5, None),
        ("conv", 0, 0.001, "conv"),
    ]
    assert [track["name"] for track in made["tracks"]] == ["MainThread", "Card"]


def test_without_a_run_there_is_no_timeline() -> None:
    assert timeline_of(Trace((), (), {}), DOCUMENT) is None
    assert ort_lite.InferenceSession(onnx.parser.parse_model(MODEL)).view().document["timeline"] is None


def test_of_very_many_events_the_longest_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST", 4)
    made = timeline_of(recorded((0, 9000), kernels=10), DOCUMENT)
    assert made is not None
    assert [event["duration"] for event in made["events"]] == [9, 0.01, 0.009, 0.008]
    assert made["left_out"] == 7


def test_flows_are_those_inside_of_the_run() -> None:
    events = tuple(Event(RUN, begin, begin + 1000, {}, 7, "Session") for begin in (0, 5000))
    flows = (Flow("in", (100, 7), (200, 7)), Flow("later", (5100, 7), (5200, 7)), Flow("elsewhere", (100, 8), (200, 7)))
    made = timeline_of(Trace(events, flows, {7: "seven"}), DOCUMENT)
    assert made is not None
    assert made["flows"] == [{"name": "in", "source": (0, 0.1), "target": (0, 0.2)}]


def test_a_profile_that_was_written_is_shown(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = ort_lite.InferenceSession(onnx.parser.parse_model(MODEL), options)
    session.run(None, {"x": np.ones(3, np.float32)})
    document = session.view(profile=session.end_profiling()).document
    shown = document["timeline"]
    assert shown is not None
    assert {event.get("node") for event in shown["events"]} >= {"Softmax_0"}
    assert document["costs"].keys() == {"Abs_0", "Softmax_0"}


def test_the_run_can_be_written_for_perfetto(tmp_path: Path) -> None:
    made = view(Box, "CPUExecutionProvider")
    trace = read(made.save_trace(tmp_path / "run.json"))
    shown = made.document["timeline"]
    assert list(trace.tracks.values()) == [track["name"] for track in shown["tracks"]]
    assert sorted(event.name for event in trace.events) == sorted(event["name"] for event in shown["events"])
    assert len(trace.flows) == 3
    moments = [event["ts"] for event in json.loads((tmp_path / "run.json").read_text())]
    assert moments == sorted(moments)


def test_a_view_without_a_run_has_no_trace(tmp_path: Path) -> None:
    made = ort_lite.InferenceSession(onnx.parser.parse_model(MODEL)).view()
    with pytest.raises(InvalidArgument, match=r"the view has no timeline; session.view\(feeds\) records a run"):
        made.save_trace(tmp_path / "run.json")
