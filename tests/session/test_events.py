"""The event stream of a session: who receives what, and that a run without subscribers creates nothing for it."""

import gc
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.execute.run_events import RunEvents
from ort_lite.log.events import Event, Link, Stream, Subscriber
from ort_lite.provider import ProfileEvent, StepEvents, run_events
from ort_lite.session.ready import Ready
from ort_lite.tools.view import costs
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice
from tests.threads import join

HEADER = '<ir_version: 10, opset_import: ["": 21]> main '
CHAIN = "(float[N] x) => (float[N] y) { [a] a = Abs(x) [b] b = Neg(a) [c] y = Softmax(b) }"
PLAIN = "(float[N] x) => (float[N] y) { a = Abs(x) y = Neg(a) }"
CHOICE = """(float[N] x) => (float[M] y) { [z] z = NonZero(x) [s] s = Squeeze(z) [g] g = Gather(x, s) [r] r = ReduceSum<keepdims=0>(g)
    [p] p = Cast<to=9>(r) [y] y = If(p) <then_branch = t () => (float[M] t) { [t] t = Neg(g) },
                                         else_branch = e () => (float[M] e) { [e] e = Relu(g) }> }"""
X = np.array([1, -2, 3], np.float32)


def session(text: str, providers: Any = ("CPUExecutionProvider",), **options: Any) -> ort_lite.InferenceSession:
    chosen = ort_lite.SessionOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    return ort_lite.InferenceSession(onnx.parser.parse_model(HEADER + text), chosen, providers=list(providers))


def box() -> list[Any]:
    return [OtherDevice(lambda node: node.op_type == "Neg"), "CPUExecutionProvider"]


def recording(made: ort_lite.InferenceSession) -> Any:
    return costs.recording(made._state.selection.providers, made._events)


SESSIONS: dict[str, Callable[[], ort_lite.InferenceSession]] = {
    "one partition": lambda: session(CHAIN),
    "steps in Python and bodies": lambda: session(CHOICE),
    "copies": lambda: session(CHAIN, box()),
    "side by side": lambda: session(CHAIN, box(), execution_mode=ort_lite.ExecutionMode.ORT_PARALLEL),
    "verified": lambda: session(CHAIN, [NumpyProvider(lambda node: node.op_type == "Neg"), "CPUExecutionProvider"]),
}


# Off


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of an event can be created."""

    def refuse(self: Any, *arguments: Any, **more: Any) -> None:
        raise AssertionError(f"a {type(self).__name__} was created")

    for kind in (Event, Link, RunEvents, StepEvents):
        monkeypatch.setattr(kind, "__init__", refuse)


@pytest.mark.parametrize("kind", SESSIONS)
def test_without_subscribers_no_event_is_created(kind: str, refused: None) -> None:
    made = SESSIONS[kind]()
    options = ort_lite.RunOptions()
    for _ in range(8):  # the first runs are timed, later ones take a shorter path
        made.run(None, {"x": X})
        made.run(None, {"x": X}, options)
        made.run(None, {"x": X}, verify="partition" if kind == "verified" else None)
    with pytest.raises(AssertionError, match="was created"), recording(made):
        made.run(None, {"x": X})


def peak(call: Callable[[], object]) -> int:
    """Bytes that Python and NumPy hold more at the peak of a call than before it, at least."""
    found = []
    for _ in range(20):
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        found.append(tracemalloc.get_traced_memory()[1] - before)
    return min(found)


def test_without_subscribers_a_run_allocates_what_its_parts_do() -> None:
    made = session(CHAIN)
    ready = made._state.ready
    assert isinstance(ready, Ready)
    feed, executable = {"x": X}, made._stage_results.compiled.executable
    with recording(made):
        made.run(None, feed)

    def parts() -> object:
        inputs = ready._feeds(feed)
        return executable.run(inputs)

    for _ in range(20):
        made.run(None, feed)
        parts()
    gc.disable()
    tracemalloc.start()
    try:
        assert peak(lambda: made.run(None, feed)) == peak(parts) > 0
        with recording(made):
            assert peak(lambda: made.run(None, feed)) > peak(parts)
    finally:
        tracemalloc.stop()
        gc.enable()


def test_without_subscribers_nothing_that_records_is_imported() -> None:
    code = f"""
import sys, numpy, onnx.parser, ort_lite
session = ort_lite.InferenceSession(onnx.parser.parse_model({HEADER + CHAIN!r}))
for _ in range(8):
    session.run(None, {{"x": numpy.ones(3, numpy.float32)}})
print(*sys.modules)"""
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240).stdout.split()
    assert "ort_lite.log.events" in names
    absent = {"ort_lite.execute." + name for name in ("profiling", "run_events", "trace")}
    assert absent.union({"ort_lite.session.creation", "ort_lite_cpu.program.recording"}).isdisjoint(names)


# On


class Heard(Subscriber):
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def on_begin(self, name: str) -> None:
        self.told.append(("begin", name))

    def on_end(self, event: Event) -> None:
        self.told.append((event.kind, event.name))


def test_scopes_are_reported_at_both_ends_and_the_kind_tells_stages_from_what_is_inside() -> None:
    stream, heard = Stream(), Heard()
    stream.subscribe(heard)
    with stream.span("whole"), stream.span("stage"), stream.span("detail"):
        stream.emit(Event("kernel", 1, 2))
    stream.unsubscribe(heard)
    stream.unsubscribe(heard)
    with stream.span("later"):
        stream.emit(Event("kernel", 1, 2))
    assert heard.told == [
        ("begin", "whole"),
        ("begin", "stage"),
        ("begin", "detail"),
        ("Kernel", "kernel"),
        ("Creation", "detail"),
        ("Session", "stage"),
        ("Session", "whole"),
    ]


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_is_recorded_while_somebody_wants_that(kind: str) -> None:
    made = SESSIONS[kind]()
    made.run(None, {"x": X})
    for _ in range(2):
        with recording(made) as found:
            (y,) = made.run(None, {"x": X})
        np.testing.assert_array_equal(y, made.run(None, {"x": X})[0])
        kinds = [event.kind for event in found.events]
        assert kinds.count("Session") == 1, "the run after the block is not recorded"
        assert kinds.count("Step") == len(made._stage_results.compiled.executable.steps)
        assert kinds.count("Kernel") >= 1
    assert made._events.subscribers == ()


def test_a_session_that_profiles_and_one_who_records_it_both_have_the_events() -> None:
    made = session(CHAIN, enable_profiling=True)
    with recording(made) as found:
        made.run(None, {"x": X})
    made.run(None, {"x": X})
    assert made._profiler is not None
    counts = [sum(event.kind == "Kernel" for event in events) for events in (found.events, made._profiler.events)]
    assert counts[1] == 2 * counts[0] > 0
    made.discard_profile()
    assert made._events.subscribers == ()


def test_a_provider_records_from_one_start_to_its_end() -> None:
    calls: list[str] = []

    class Records(CpuStandIn):
        def start_profiling(self) -> None:
            calls.append("start")

        def end_profiling(self) -> Any:
            calls.append("end")
            return [ProfileEvent("work", 1, 2, {"a": 1})]

    made = session(PLAIN, [Records()])
    with recording(made) as outer:
        with recording(made) as inner:
            made.run(None, {"x": X})
        assert calls == ["start", "end", "start"], "the outer one goes on"
    assert calls == ["start", "end", "start", "end"]
    works = [[event for event in found.events if event.name == "work"] for found in (outer, inner)]
    assert [len(found) for found in works] == [2, 1]
    assert works[1][0].args == {"a": 1, "provider": "CPUExecutionProvider"}


def test_a_partition_may_report_its_kernels_itself() -> None:
    class Reports(CpuStandIn):
        def compile(self, partitions: Any) -> Any:
            return [self._reporting(one) for one in super().compile(partitions)]

        def _reporting(self, one: Any) -> Any:
            def call(inputs: Any) -> Any:
                if (events := run_events()) is not None:
                    events.kernel("mine", 1, 2, {"op_name": "Mine"})
                return one(inputs)

            return call

    made = session(PLAIN, [Reports()])
    made.run(None, {"x": X})
    assert run_events() is None
    with recording(made) as found:
        made.run(None, {"x": X})
        assert run_events() is None
    [kernel] = [event for event in found.events if event.kind == "Kernel"]
    assert (kernel.name, kernel.thread, kernel.args) == ("mine", 0, {"op_name": "Mine", "provider": "CPUExecutionProvider"})


def test_the_event_of_a_node_names_its_kernel() -> None:
    made = session(CHAIN, enable_profiling=True)
    made.run(None, {"x": X})
    assert made._profiler is not None
    made._profiler._flush()
    nodes = [event for event in made._profiler.trace().events if event.kind == "Node"]
    made.discard_profile()
    assert {event.args["op_name"] for event in nodes} == {"Abs", "Neg", "Softmax"}
    assert all(event.args["kernel"] for event in nodes)


def test_a_failing_run_is_recorded_to_its_end() -> None:
    class Fails(CpuStandIn):
        def compile(self, partitions: Any) -> Any:
            return [self._fail for _ in partitions]

        def _fail(self, inputs: Any) -> Any:
            raise ZeroDivisionError

    made = session(PLAIN, [Fails()])
    with recording(made) as found, pytest.raises(ort_lite.errors.RuntimeException):
        made.run(None, {"x": X})
    assert [event.name for event in found.events] == ["model_run"]
    assert run_events() is None


def test_runs_of_other_threads_are_no_runs_of_a_view() -> None:
    made, over = session(CHAIN), threading.Event()

    def others() -> None:
        while not over.is_set():
            made.run(None, {"x": X[:1]})

    thread = threading.Thread(target=others)
    thread.start()
    try:
        document = made.view({"x": X}).document
    finally:
        over.set()
        join(thread)
    assert document["timeline"] is not None
    assert [event["category"] for event in document["timeline"]["events"]].count("Session") == 1


def test_a_recorded_run_ends_at_its_timeout_and_keeps_what_it_did() -> None:
    endless = """(float[1] x) => (float[1] y) <int64 trips = {9223372036854775807}, bool yes = {1}> {
        y = Loop(trips, yes, x) <body = turn (int64 i, bool go, float[1] a) => (bool again, float[1] b) {
            again = Identity(go) [cos] b = Cos(a) }> }"""
    made = session(endless)
    with recording(made) as found, pytest.raises(ort_lite.errors.DeadlineExceeded):
        made.run(None, {"x": X[:1]}, timeout=0.05)
    kinds = {event.kind for event in found.events}
    assert kinds == {"Kernel", "Session"}, "the step did not end"
