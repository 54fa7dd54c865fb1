"""Profiles: a Chrome trace of what a session did."""

import gc
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite.compat.node_events import node_events
from ort_lite.errors import InvalidArgument
from ort_lite.execute.execute import Step
from ort_lite.execute.profiling import Profiler
from ort_lite.execute.run_events import RunEvents
from ort_lite.execute.trace import Trace
from ort_lite.graph import Node
from ort_lite.log.events import Event, Stream
from ort_lite.provider import ProfileEvent
from ort_lite.tools.view.costs import recording
from ort_lite.tools.view.trace_file import read
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice
from tests.threads import join

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
    events = [event for event in written if event["cat"] in ("Session", "Step")]
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


def nodes_of(path: str | Path) -> list[tuple[str, str, str]]:
    events = [event for event in json.loads(Path(path).read_text()) if event["cat"] == "Node"]
    return [(event["name"], event["args"]["op_name"], event["args"]["provider"]) for event in events]


def profiled(module: Any, proto: onnx.ModelProto, prefix: Path, **more: Any) -> Any:
    options = module.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(prefix)
    return module.InferenceSession(proto.SerializeToString(), options, **more)


NODES = """<ir_version: 8, opset_import: ["": 17]> main (float[N,8] x, bool c) => (float[N,8] y) <float[8,8] w = {FILL}> {
    [first] a = MatMul(x, w)  [second] b = Relu(a)  [third] s = Shape(b)  [fourth] d = Reshape(b, s)  [fifth] e = Exp(d)
    [sixth] y = If(c) <then_branch = t () => (float[N,8] p) { [seventh] q = MatMul(e, w)  [eighth] p = Abs(q) },
                       else_branch = f () => (float[N,8] r) { [ninth] r = Neg(e) }>
}""".replace("FILL", ", ".join(["0.5"] * 64))


def test_every_node_of_a_run_has_an_event_with_its_operator_as_in_onnxruntime(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(NODES)
    feeds = {"x": np.ones((3, 8), np.float32), "c": np.array(True)}
    found = []
    for module in (onnxruntime, ort_lite):
        made = profiled(module, proto, tmp_path / module.__name__)
        for _ in range(2):
            made.run(None, feeds)
        found.append(sorted(nodes_of(made.end_profiling())))
    theirs, ours = found
    executed = [name for name in explained(made) if name in {name.removesuffix("_kernel_time") for name, *_ in theirs}]
    assert executed, "the names that both have are compared"
    assert [event for event in ours if event[0].removesuffix("_kernel_time") in executed] == [
        event for event in theirs if event[0].removesuffix("_kernel_time") in executed
    ]
    assert {name.removesuffix("_kernel_time") for name, *_ in ours} == {*explained(made)} - {"ninth"}, "it did not run"
    assert all(ours.count(event) == 2 for event in ours)


def explained(made: ort_lite.InferenceSession) -> list[str]:
    return [place.node.name for _, place in made.explain().assignment.rows()]


def test_the_time_of_a_kernel_is_divided_among_its_nodes(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> main (float[500,500] x) => (float[500,500] y) { OPS }'
    proto = onnx.parser.parse_model(text.replace("OPS", "a = MatMul(x, x)  b = Abs(a)  y = Neg(b)"))
    made = profiled(ort_lite, proto, tmp_path / "profile")
    made.run(None, {"x": np.ones((500, 500), np.float32)})
    events = json.loads(Path(made.end_profiling()).read_text())
    nodes, kernels = ([event for event in events if event["cat"] == category] for category in ("Node", "Kernel"))
    assert [(event["args"]["op_name"], event["args"]["node_index"]) for event in nodes] == [
        ("MatMul", "0"),
        ("Abs", "1"),
        ("Neg", "2"),
    ]
    assert [event["name"] for event in kernels] == ["MatMul_0", "Neg_0"]
    assert [event["args"].get("share_of") for event in nodes] == [None, "Neg_0", "Neg_0"]
    assert nodes[0]["dur"] == kernels[0]["dur"]
    assert nodes[1]["dur"] == pytest.approx(nodes[2]["dur"], abs=2), "both are as cheap"
    assert nodes[1]["dur"] + nodes[2]["dur"] == pytest.approx(kernels[1]["dur"], abs=2)


def test_the_time_of_a_partition_without_kernels_is_divided_among_its_nodes() -> None:
    made = profiled(ort_lite, onnx.parser.parse_model(MODEL), Path("none"), providers=[CostsMore(), CpuStandIn()])
    assert made._profiler is not None
    step = Event("NumpyExecutionProvider_0_kernel_time", 100, 1100, {"provider": "NumpyExecutionProvider"}, 7, "Step")
    assignment = made.explain().assignment
    found = list(node_events(Trace((step,), (), {}), assignment))
    assert [(event.name, event.begin, event.end, event.thread) for event in found] == [
        ("Abs_0_kernel_time", 100, 850, 7),
        ("Neg_0_kernel_time", 850, 1100, 7),
    ]
    assert {event.args["share_of"] for event in found} == {"NumpyExecutionProvider_0"}
    assert list(node_events(Trace((step,), (), {}), assignment, since=101)) == []
    made.discard_profile()


def test_kernels_belong_to_the_step_of_their_thread_and_those_of_a_device_to_the_last_one() -> None:
    made = ort_lite.InferenceSession(onnx.parser.parse_model(MODEL), providers=[CostsMore(), CpuStandIn()])
    about: dict[str, Any] = {"provider": "NumpyExecutionProvider"}
    name, device = "NumpyExecutionProvider_0_kernel_time", 1 << 30
    steps = [
        Event(name, 0, 100, about, 1, "Step"),
        Event(name, 50, 150, about, 2, "Step"),
        Event(name, 200, 210, about, 1, "Step"),
    ]
    kernels = [
        Event("Abs_0", 60, 70, {**about, "op_name": "Abs"}, 1),
        Event("Neg_0", 70, 75, {**about, "op_name": "Neg"}, 1),
        Event("Neg_0", 75, 79, {**about, "op_name": "Neg"}, 1),
        Event("Abs_0", 60, 80, {**about, "op_name": "Abs"}, 2),
        Event("Abs_0", 205, 300, {**about, "op_name": "Abs"}, device),
        Event("Neg_0", 300, 310, {**about, "op_name": "Neg"}, device),
        Event("Abs_0", 160, 170, {**about, "op_name": "Abs"}, 1),
    ]
    found = node_events(Trace((*steps, *kernels), (), {}), made.explain().assignment)
    assert [(event.args["op_name"], event.begin, event.end, event.thread) for event in found] == [
        ("Abs", 60, 70, 1),
        ("Neg", 70, 79, 1),  # two kernels
        ("Abs", 60, 80, 2),
        ("Neg", 80, 80, 2),  # did nothing
        ("Abs", 205, 300, device),
        ("Neg", 300, 310, device),
    ]


class CostsMore(NumpyProvider):
    def cost(self, node: Node) -> float:
        return 3.0 if node.op_type == "Abs" else 1.0


def test_a_second_end_returns_nothing_and_keeps_the_file(tmp_path: Path) -> None:
    made = session(str(tmp_path / "profile_"))
    made.run(None, {"x": [1]})
    path = made.end_profiling()
    written = Path(path).read_text()
    made.run(None, {"x": [1]})
    assert made.end_profiling() == ""
    del made
    gc.collect()
    assert [file.read_text() for file in tmp_path.iterdir()] == [written]


def test_a_session_that_is_deleted_writes_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = session("profile_")
    made.run(None, {"x": [1]})
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    del made
    gc.collect()
    (path,) = tmp_path.glob("profile_*.json")
    assert [op for _, op, _ in nodes_of(path)] == ["Abs", "Neg"]


PROGRAM = f"""
import onnx.parser, ort_lite, os, sys
options = ort_lite.SessionOptions()
options.enable_profiling, options.profile_file_prefix = True, sys.argv[1]
session = ort_lite.InferenceSession(onnx.parser.parse_model({MODEL!r}), options)
session.run(None, {{"x": [1.0]}})
child = os.fork()
if child == 0:
    sys.exit(print("child"))
assert os.waitpid(child, 0)[1] == 0
print(len(os.listdir(sys.argv[2])))
"""


@pytest.mark.slow
def test_a_session_that_is_there_at_exit_writes_its_profile_and_a_forked_process_does_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "profile"), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.split() == ["child", "0"]
    (path,) = tmp_path.iterdir()
    assert [op for _, op, _ in nodes_of(path)] == ["Abs", "Neg"]


def test_other_providers_of_a_session_do_not_lose_what_is_recorded(tmp_path: Path) -> None:
    made = profiled(ort_lite, onnx.parser.parse_model(MODEL), tmp_path / "profile")
    made.run(None, {"x": np.ones(1, np.float32)})
    made.set_providers([NumpyProvider(lambda node: node.op_type == "Abs"), "CPUExecutionProvider"])
    made.run(None, {"x": np.ones(1, np.float32)})
    assert [(op, provider.removesuffix("ExecutionProvider")) for _, op, provider in nodes_of(made.end_profiling())] == [
        ("Abs", "CPU"),
        ("Neg", "CPU"),
        ("Abs", "Numpy"),
        ("Neg", "CPU"),
    ]
    made.set_providers(["CPUExecutionProvider"])
    assert made.end_profiling() == ""


def test_onnxruntimes_reader_of_profiles_reads_ours(tmp_path: Path) -> None:
    from onnxruntime.transformers import profile_result_processor as reader

    made = profiled(ort_lite, onnx.parser.parse_model(NODES), tmp_path / "profile")
    for _ in range(20):
        made.run(None, {"x": np.ones((300, 8), np.float32), "c": np.array(True)})
    arguments = SimpleNamespace(threshold=0.0, kernel_time_only=False)
    lines = [line.split() for line in reader.process_results(made.end_profiling(), arguments)]
    calls = {words[-1]: words[4] for words in lines if len(words) == 7 and words[-2] == "CPU"}
    assert calls == {name: "20" for name in explained(made) if name not in ("ninth", "sixth")}, "it leaves out If"


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
        join(thread)
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
    stream = Stream()
    profiler = Profiler(stream, str(tmp_path / "trace"))
    for provider in ("A", "B", "A"):
        stream.emit(ProfileEvent("work", profiler.start + 1000, profiler.start + 5000, {"provider": provider}))
    written = json.loads(Path(profiler.end()).read_text())
    names = {event["tid"]: event["args"]["name"] for event in written if event["name"] == "thread_name"}
    assert [names[event["tid"]] for event in written if event["ph"] == "X"] == ["A", "B", "A"]
    assert len(names) == 2


def recorded(providers: list[Any], text: str, x: Any) -> Trace:
    made = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=providers)
    with recording(made._state.selection.providers, made._events) as found:
        made.run(None, {"x": x})
    made.run(None, {"x": x})
    return found.trace()


def test_copies_are_on_tracks_of_their_routes_with_their_bytes() -> None:
    trace = recorded([OtherDevice(lambda node: node.op_type == "Abs"), CpuStandIn()], MODEL, np.ones(3, np.float32))
    copies = [event for event in trace.events if event.kind == "Copy"]
    assert [(trace.tracks[event.thread], event.name, event.args["bytes"]) for event in copies] == [
        ("cpu:0 -> box:0", "copy 'x' cpu:0 -> box:0", 12),
        ("box:0 -> cpu:0", "copy 'a' box:0 -> cpu:0", 12),
    ]
    [out] = [event for event in trace.events if event.name == "copy 'a' box:0 -> cpu:0_kernel_time"]
    assert (out.begin, out.end) == (copies[1].begin, copies[1].end)


def test_a_copy_that_does_not_block_lasts_until_it_is_waited_for() -> None:
    stream = Stream()
    profiler, run = Profiler(stream), RunEvents(stream)
    start = profiler.start
    x = np.ones(5, np.float32)
    begin = Step("begin copy 'x' cpu:0 -> box:0", "Box", list, (0,), (1, 2), ())
    wait = Step("copy 'x' cpu:0 -> box:0", "Box", list, (1, 2, 0), (3,), (), "cpu:0 -> box:0")
    run.emit_step(begin, start + 1000, start + 2000, None, x.nbytes)
    run.emit_step(wait, start + 8000, start + 9000, None, None)
    [copy] = [event for event in profiler.trace().events if event.kind == "Copy"]
    assert (copy.begin, copy.end, copy.args["bytes"]) == (1000, 9000, 20)


def test_a_track_on_which_events_overlap_becomes_two() -> None:
    stream = Stream()
    profiler = Profiler(stream)
    for begin, end in ((0, 5), (1, 3), (4, 8), (8, 9)):
        stream.emit(Event("copy", profiler.start + begin, profiler.start + end, {"route": "a -> b"}, kind="Copy"))
    trace = profiler.trace()
    assert [(event.begin, trace.tracks[event.thread]) for event in trace.events] == [
        (0, "a -> b"),
        (1, "a -> b"),
        (4, "a -> b (2)"),
        (8, "a -> b"),
    ]


def facts(trace: Trace) -> list[Any]:
    """What a file keeps of events, which has microseconds."""
    return sorted([event.begin // 1000, event.name, event.kind, event.thread, str(event.args)] for event in trace.events)


def test_what_is_written_is_in_the_order_of_time_and_can_be_read(tmp_path: Path) -> None:
    trace = recorded([OtherDevice(lambda node: node.op_type == "Abs"), "CPUExecutionProvider"], MODEL, np.ones(3, np.float32))
    path = trace.save(tmp_path / "trace.json")
    moments = [event["ts"] for event in json.loads(path.read_text())]
    assert moments == sorted(moments)
    again = read(path)
    assert again.tracks == trace.tracks
    assert facts(again) == facts(trace)
    assert len(again.flows) == len(trace.flows) == 3
    assert [event.name for event in again.events if event.kind == "Kernel"] == ["Neg_0"]


@pytest.mark.parametrize("text", ["{}[", '{"a": 1}', "[1]", '[{"ph": "X"}]'])
def test_another_file_is_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=r"other\.json: it is no trace of a session, which is a JSON list of events"):
        read(path)
