"""`ExecutionMode.ORT_PARALLEL`: steps that do not need each other run side by side, and nothing else changes."""

import gc
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import RunTerminated, RuntimeException
from ort_lite.graph import Model
from ort_lite.provider import CompiledPartition, Partition, run_options
from tests.execute.test_guard import PerThread, WithState
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, OtherDevice, evaluate, reference
from tests.provider.texts import named, plain, proto
from tests.threads import run_together

X = np.array([1, -2, 3], np.float32)
FORK = "(float[3] x) => (float[3] y) { a = Neg(x)  b = Abs(x)  y = Add(a, b) }"
CHAIN = "(float[3] x) => (float[3] y) { a = Neg(x)  b = Abs(a)  y = Tanh(b) }"


class Around(NumpyProvider):
    """Calls `inside` with the partition before it computes."""

    name: ClassVar[str] = "AroundExecutionProvider"

    def __init__(self, inside: Callable[[Partition], Any], *names: str) -> None:
        super().__init__(named(*names))
        self.inside = inside

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [partial(self._call, partition) for partition in partitions]

    def _call(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        self.inside(partition)
        return evaluate(partition, inputs)


class Other(Around):
    name = "OtherExecutionProvider"


class SerialAround(Around):
    name = "SerialExecutionProvider"
    concurrency = "serial"


def session(
    model: Any, *providers: Any, threads: int = 0, parallel: bool = True, profile: str = "", **more: Any
) -> ort_lite.InferenceSession:
    options = plain()
    options.inter_op_num_threads = threads
    if parallel:
        options.execution_mode = ort_lite.ExecutionMode.ORT_PARALLEL
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    if isinstance(model, str):
        model = proto(model)
    return ort_lite.InferenceSession(model, options, providers=list(providers), **more)


def helpers() -> int:
    return sum(thread.name.startswith("ort-lite-inter-op") for thread in threading.enumerate())


def settled() -> int:
    """As `helpers`, once those of other tests' sessions have ended."""
    gc.collect()
    end = time.monotonic() + 10
    while helpers() and time.monotonic() < end:
        time.sleep(0.01)
    return helpers()


def meeting() -> Callable[[Partition], Any]:
    """Two partitions wait for each other inside of it: one after the other they would time out."""
    barrier = threading.Barrier(2, timeout=10)
    return lambda partition: barrier.wait(60)


# Side by side


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (2, 2), (3, 3), (0, 2)])
def test_no_more_threads_than_are_asked_for(threads: int, most: int) -> None:
    text = """(float[3] x) => (float[3] y) {
        a = Neg(x)  p = Identity(a)  b = Abs(p)  c = Relu(p)  d = Tanh(p)  e = Neg(p)
        bc = Add(b, c)  de = Add(d, e)  y = Add(bc, de)
    }"""
    lock, inside, seen = threading.Lock(), [], list[int]()

    def count(partition: Partition) -> None:
        with lock:
            inside.append(1)
            seen.append(len(inside))
        time.sleep(0.05)
        with lock:
            inside.pop()

    alone = Around(count, "b", "c", "d", "e")
    alone.group = lambda node: ort_lite.provider.Capability([node], merge=False)
    with session(text, alone, CpuStandIn(), threads=threads) as made:
        (y,) = made.run(None, {"x": X})
        p = -X
        np.testing.assert_array_equal(y, (np.abs(p) + np.maximum(p, 0)) + (np.tanh(p) + -p))
    assert max(seen) == most


def test_nothing_is_started_where_nothing_can_overlap() -> None:
    before = helpers()
    for text, providers in ((FORK, []), (CHAIN, [NumpyProvider(named("b"))])):
        with session(text, *providers, CpuStandIn(), threads=4) as made:
            made.run(None, {"x": X})
            assert helpers() <= before  # threads of sessions of other tests may end
    with session(FORK, NumpyProvider(named("a")), CpuStandIn(), parallel=False) as made:
        made.run(None, {"x": X})
        assert helpers() <= before  # threads of sessions of other tests may end


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_are_bit_equal(seed: int) -> None:
    def providers() -> list[Any]:
        chosen = {node.name: (k * 7 + seed) % 3 for k, node in enumerate(random_graph(seed, 30).all_nodes())}
        serial = SerialAround(lambda partition: None)
        serial.takes = lambda node: chosen.get(node.name) == 1
        return [OtherDevice(lambda node: chosen.get(node.name) == 0 and node.op_type != "If"), serial, CpuStandIn()]

    inputs = feeds(seed)
    feed = dict(zip(("x0", "x1", "flag"), inputs, strict=True))
    wanted = reference(random_graph(seed, 30), inputs)
    with session(Model(random_graph(seed, 30), {"": 17}), *providers(), threads=3) as made:
        for _ in range(2):
            for mine, right in zip(made.run(None, feed), wanted, strict=True):
                assert mine.tobytes() == right.tobytes()


def test_runs_of_several_threads_share_the_workers() -> None:
    graph = random_graph(5, 30)
    inputs = feeds(5)
    feed = dict(zip(("x0", "x1", "flag"), inputs, strict=True))
    wanted = reference(random_graph(5, 30), inputs)
    wrong: list[Any] = []

    def work(_: int) -> None:
        for _ in range(20):
            results = made.run(None, feed)
            wrong.extend(1 for mine, right in zip(results, wanted, strict=True) if mine.tobytes() != right.tobytes())

    before = helpers()
    with session(Model(graph, {"": 17}), NumpyProvider(lambda node: len(node.name) % 2 == 0), CpuStandIn(), threads=3) as made:
        run_together(work, 4)
        assert helpers() - before <= 2
    assert not wrong


# Errors and ends


def test_an_error_in_another_thread_is_named_as_ever() -> None:
    meet = meeting()

    def fail(partition: Partition) -> None:
        meet(partition)
        raise ZeroDivisionError("oops")

    with (
        session(FORK, Around(meet, "a"), Other(fail, "b"), CpuStandIn()) as made,
        pytest.raises(RuntimeException, match=r"^OtherExecutionProvider_0 \(Other.*\) failed: ZeroDivisionError: oops"),
    ):
        made.run(None, {"x": X})


def test_the_first_error_wins_and_no_step_starts_after_it() -> None:
    started: list[str] = []
    begun, failed = threading.Event(), threading.Event()

    def first(partition: Partition) -> None:
        started.append("a")
        assert begun.wait(10)
        failed.set()
        raise ZeroDivisionError("first")

    def later(partition: Partition) -> None:
        started.append("b")
        begun.set()
        assert failed.wait(10)
        time.sleep(0.05)
        raise ZeroDivisionError("later")

    class Third(Around):
        name = "ThirdExecutionProvider"

    text = "(float[3] x) => (float[3] y, float[3] z) { a = Neg(x)  b = Abs(x)  y = Relu(a)  z = Relu(b) }"
    third = Third(lambda partition: started.append("z"), "z")
    with session(text, Around(first, "a"), Other(later, "b"), third, CpuStandIn()) as made:
        with pytest.raises(RuntimeException, match="first"):
            made.run(None, {"x": X})
        assert sorted(started) == ["a", "b"]


def test_a_run_returns_when_no_step_reads_its_feeds_any_more() -> None:
    over = threading.Event()
    begun = threading.Event()

    def fail(partition: Partition) -> None:
        assert begun.wait(10)
        raise ZeroDivisionError("oops")

    def slow(partition: Partition) -> None:
        begun.set()
        time.sleep(0.1)
        over.set()

    with session(FORK, Around(fail, "a"), Other(slow, "b"), CpuStandIn()) as made:
        with pytest.raises(RuntimeException, match="oops"):
            made.run(None, {"x": X})
        assert over.is_set()


def test_terminate_is_heard_between_steps() -> None:
    options = ort_lite.RunOptions()
    meet = meeting()

    def stop(partition: Partition) -> None:
        meet(partition)
        assert run_options() is options, "the options of the run are known in each thread"
        options.terminate = True

    with (
        session(FORK, Around(stop, "a"), Other(stop, "b"), CpuStandIn()) as made,
        pytest.raises(RunTerminated, match="before CPUExecutionProvider_0"),
    ):
        made.run(None, {"x": X}, options)


def test_context_variables_reach_the_threads() -> None:
    meet, seen = meeting(), list[str]()

    def look(partition: Partition) -> None:
        meet(partition)
        seen.append(np.geterr()["over"])

    with session(FORK, Around(look, "a"), Other(look, "b"), CpuStandIn()) as made, np.errstate(over="raise"):
        made.run(None, {"x": X})
    assert seen == ["raise"] * 2


def test_a_closed_session_has_no_threads_and_a_forgotten_one_neither() -> None:
    before = settled()
    for close in (True, False):
        meet = meeting()
        made = session(FORK, Around(meet, "a"), Other(meet, "b"), CpuStandIn())
        made.run(None, {"x": X})
        assert helpers() == before + 1
        if close:
            made.close()
        del made
        gc.collect()
        end = time.monotonic() + 10
        while helpers() > before and time.monotonic() < end:
            time.sleep(0.01)
        assert helpers() == before


def test_a_step_may_close_its_session() -> None:
    meet = meeting()

    def close(partition: Partition) -> None:
        meet(partition)
        made.close()

    made = session(FORK, Around(meet, "a"), Other(close, "b"), CpuStandIn())
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X + np.abs(X))
    with pytest.raises(RuntimeException, match="closed"):
        made.run(None, {"x": X})


# Locks, states, policies


def test_a_step_inside_of_a_serial_provider_may_run_another_session_of_it() -> None:
    """Were that run to wait for another thread, this one would wait for the provider, which the step does not leave."""

    def inside(partition: Partition) -> None:
        if partition.nodes[0].output.name == "q":
            inner.run(None, {"x": X})
        time.sleep(0.02)

    serial = SerialAround(inside, "a", "b", "q")
    serial.group = lambda node: ort_lite.provider.Capability([node], merge=False)
    inner = session(FORK, serial, CpuStandIn(), threads=4)
    outer = session("(float[3] x) => (float[3] y) { q = Neg(x)  r = Abs(x)  y = Add(q, r) }", serial, CpuStandIn(), threads=4)
    done = threading.Event()

    def work() -> None:
        for _ in range(5):
            outer.run(None, {"x": X})
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(20)


def test_each_thread_has_its_state_and_closing_releases_all() -> None:
    meet = meeting()

    class Meeting(WithState):
        def __call__(self, inputs: Sequence[Any], state: Any) -> list[Any]:
            meet(self.partition)
            return super().__call__(inputs, state)

    provider = PerThread(Meeting, named("a", "b"))
    provider.group = lambda node: ort_lite.provider.Capability([node], merge=False)
    with session(FORK, provider, CpuStandIn()) as made:
        for _ in range(3):
            made.run(None, {"x": X})
    kinds = [entry[0] for entry in provider.log]
    assert 2 <= kinds.count("create") == kinds.count("release") <= 4
    assert all(entry[2] for entry in provider.log if entry[0] == "call"), "in the thread that made the state"


def test_on_run_error_next_works_in_each_thread() -> None:
    meet = meeting()

    def fail(partition: Partition) -> None:
        meet(partition)
        raise ZeroDivisionError("device lost")

    given = [{"on_run_error": "next"}] * 2 + [{}]
    with session(FORK, Around(fail, "a"), Other(fail, "b"), CpuStandIn(), provider_options=given) as made:
        np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X + np.abs(X))
        assert sum("its nodes went to the next provider" in note for note in made.explain().notes) == 2


def test_a_verified_run_verifies_every_partition() -> None:
    numpy, other = NumpyProvider(named("a")), Other(lambda partition: None, "b")
    with session(FORK, numpy, other, "CPUExecutionProvider") as made:
        made.run(None, {"x": X}, verify="partition")
        report = made.verification
        assert report is not None and report.ok
        assert len(report.partitions) == 2


def test_a_profile_says_which_thread_ran_a_step(tmp_path: Path) -> None:
    meet = meeting()
    with session(FORK, Around(meet, "a"), Other(meet, "b"), CpuStandIn(), profile=str(tmp_path / "p")) as made:
        made.run(None, {"x": X})
        events = json.loads(Path(made.end_profiling()).read_text())
    steps = {event["args"]["op_name"]: event["tid"] for event in events if event["cat"] == "Step"}
    assert len(steps) == 3
    assert steps["AroundExecutionProvider_0"] != steps["OtherExecutionProvider_0"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_has_threads_of_its_own() -> None:
    meet = meeting()
    with session(FORK, Around(meet, "a"), Other(meet, "b"), CpuStandIn()) as made:
        made.run(None, {"x": X})
        child = os.fork()
        if child == 0:
            status = 1
            try:
                made.run(None, {"x": X})  # the two meet again
                status = 0
            finally:
                os._exit(status)
        assert _status(child) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_inside_of_a_step_ends_in_parent_and_child() -> None:
    """What another thread of the run was computing is computed by the child's one thread."""
    meet, children, runs = meeting(), list[int](), threading.get_ident()

    def inside(partition: Partition) -> None:
        if children:
            return
        meet(partition)
        if threading.get_ident() == runs:
            time.sleep(0.05)
            children.append(os.fork())
        else:
            time.sleep(0.3)

    with session(FORK, Around(inside, "a"), Other(inside, "b"), CpuStandIn()) as made:
        right = False
        try:
            right = np.array_equal(made.run(None, {"x": X})[0], -X + np.abs(X))
        finally:
            if children == [0]:
                os._exit(0 if right else 1)
        assert right
    assert _status(children[0]) == 0


def _status(child: int) -> int:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child waits for a thread of its parent")
