"""States of compiled partitions, and who may be in them at once."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite import RunOptions
from ort_lite.errors import ProviderError, RunTerminated, RuntimeException
from ort_lite.execute.guard import lock_of
from ort_lite.graph import Node
from ort_lite.provider import CompiledPartition, Partition
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate
from tests.provider.texts import proto
from tests.threads import run_together

X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }"
BRANCHES = """(float[3] x, bool f) => (float[3] y) {
    y = If (f) <then_branch = p () => (float[3] t) { t = Neg(x) }, else_branch = n () => (float[3] e) { e = Relu(x) }>
}"""


class Partitioned:
    """Counts who is in it."""

    def __init__(self, partition: Partition, log: "list[Any]") -> None:
        self.partition, self.log = partition, log
        self.inside = self.most = 0
        self.lock = threading.Lock()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.002)
        with self.lock:
            self.inside -= 1
        return evaluate(self.partition, inputs)


class WithState:
    def __init__(self, partition: Partition, log: "list[Any]") -> None:
        self.partition, self.log = partition, log

    def create_state(self) -> Any:
        state = {"thread": threading.get_ident(), "calls": 0}
        self.log.append(("create", id(state)))
        return state

    def __call__(self, inputs: Sequence[Any], state: Any) -> list[Any]:
        state["calls"] += 1
        self.log.append(("call", id(state), state["thread"] == threading.get_ident()))
        return evaluate(self.partition, inputs)

    def release_state(self, state: Any) -> None:
        self.log.append(("release", id(state)))


class Declaring(NumpyProvider):
    name: ClassVar[str] = "DeclaringExecutionProvider"

    def __init__(
        self, make: Callable[[Partition, list[Any]], Any] = WithState, takes: Callable[[Node], bool] = lambda node: True
    ) -> None:
        super().__init__(takes)
        self.make, self.log = make, list[Any]()

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [self.make(partition, self.log) for partition in partitions]


class Serial(Declaring):
    concurrency = "serial"


class PerThread(Declaring):
    concurrency = "per-thread"


def session(*providers: Any, text: str = CHAIN) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), providers=providers)


def test_a_state_is_made_once_a_session_and_released_when_it_is_closed() -> None:
    provider = Declaring()
    made = session(provider, CpuStandIn())
    for _ in range(3):
        np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.zeros(3))
    made.close()
    made.close()
    kinds = [entry[0] for entry in provider.log]
    assert kinds == ["create", "call", "call", "call", "release"]
    assert len({entry[1] for entry in provider.log}) == 1


def test_a_session_that_is_collected_releases_too() -> None:
    provider = Declaring()
    session(provider, CpuStandIn()).run(None, {"x": X})
    gc.collect()
    assert [entry[0] for entry in provider.log] == ["create", "call", "release"]


def test_per_thread_each_thread_has_a_state_of_its_own() -> None:
    provider = PerThread()
    made = session(provider, CpuStandIn())
    run_together(lambda _: [made.run(None, {"x": X}) for _ in range(5)], 3)
    assert sum(entry[0] == "create" for entry in provider.log) == 3
    assert all(entry[2] for entry in provider.log if entry[0] == "call")
    made.close()
    assert sum(entry[0] == "release" for entry in provider.log) == 3


def test_per_thread_without_a_state_is_an_error() -> None:
    with pytest.raises(ProviderError, match="says per-thread, and DeclaringExecutionProvider_0 has no create_state"):
        session(PerThread(Partitioned), CpuStandIn())


def test_another_word_is_an_error() -> None:
    class Odd(Declaring):
        concurrency = "sometimes"

    with pytest.raises(ProviderError, match="concurrency is 'sometimes'; expected one of"):
        session(Odd(), CpuStandIn())


def test_only_a_serial_providers_partitions_wait_for_each_other() -> None:
    both: list[Partitioned] = []

    def keep(partition: Partition, log: list[Any]) -> Partitioned:
        both.append(Partitioned(partition, log))
        return both[-1]

    made = session(Serial(keep, lambda node: node.op_type == "Neg"), Declaring(keep))
    run_together(lambda _: [made.run(None, {"x": X}) for _ in range(4)], 6)
    most = {one.partition.nodes[0].op_type: one.most for one in both}
    assert most["Neg"] == 1
    assert max(most["Abs"], most["Relu"]) > 1


def test_sessions_that_share_a_serial_instance_share_its_lock() -> None:
    shared = {"inside": 0, "most": 0}

    class Counting(Partitioned):
        def __call__(self, inputs: Sequence[Any]) -> list[Any]:
            shared["inside"] += 1
            shared["most"] = max(shared["most"], shared["inside"])
            results = super().__call__(inputs)
            shared["inside"] -= 1
            return results

    provider = Serial(Counting)
    sessions = [session(provider, CpuStandIn()) for _ in range(2)]
    run_together(lambda _: [s.run(None, {"x": X}) for s in sessions for _ in range(3)], 4)
    assert shared["most"] == 1


def test_a_serial_provider_may_run_bodies_of_its_own() -> None:
    made = session(Serial(Partitioned), CpuStandIn(), text=BRANCHES)
    np.testing.assert_array_equal(made.run(None, {"x": X, "f": np.array(True)})[0], -X)


def test_a_concurrent_partition_without_state_is_called_as_it_is() -> None:
    from ort_lite.execute.guard import guard_partition

    made = session(CpuStandIn())
    (partition,) = made.explain().assignment.partitions
    compiled = Partitioned(partition, [])
    assert guard_partition(partition, compiled) is compiled


def test_closing_waits_for_calls_in_flight() -> None:
    began, go = threading.Event(), threading.Event()

    class Slow(WithState):
        def __call__(self, inputs: Sequence[Any], state: Any) -> list[Any]:
            began.set()
            go.wait(10)
            return super().__call__(inputs, state)

    provider = Declaring(Slow)
    made = session(provider, CpuStandIn())
    runner = threading.Thread(target=made.run, args=(None, {"x": X}))
    runner.start()
    began.wait(10)
    closer = threading.Thread(target=made.close)
    closer.start()
    assert [entry[0] for entry in provider.log] == ["create"], "not released while somebody is in"
    go.set()
    runner.join(10)
    closer.join(10)
    assert [entry[0] for entry in provider.log] == ["create", "call", "release"]
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.run(None, {"x": X})


def test_nothing_is_planted_in_a_provider() -> None:
    provider = NumpyProvider(lambda node: True)
    before = dict(vars(provider))
    assert lock_of(provider) is lock_of(provider)
    assert lock_of(provider) is not lock_of(NumpyProvider(lambda node: True))
    assert vars(provider) == before


@pytest.mark.slow
def test_providers_that_run_each_others_nodes_in_bodies_never_wait_for_ever() -> None:
    """A has an If around B's node and B one around A's, in one session and in another with the order turned around."""
    text = """(float[3] x, bool f) => (float[3] y) {{
        a = If (f) <then_branch = p () => (float[3] t) {{ t = {0}(x) }}, else_branch = n () => (float[3] e) {{ e = {0}(x) }}>
        b = {1}(a)
        c = If (f) <then_branch = q () => (float[3] u) {{ u = {1}(b) }}, else_branch = m () => (float[3] g) {{ g = {1}(b) }}>
        y = {0}(c)
    }}"""

    class Other(Serial):
        name = "OtherExecutionProvider"

    def is_outer(first: bool, own: str) -> Callable[[Node], bool]:
        return lambda node: node.op_type == own or (node.op_type == "If" and (node.output.name == "a") == first)

    first = Serial(Partitioned, is_outer(True, "Abs"))
    second = Other(Partitioned, is_outer(False, "Neg"))
    sessions = [session(first, second, CpuStandIn(), text=text.format(*ops)) for ops in (("Neg", "Abs"), ("Abs", "Neg"))]
    feeds = {"x": X, "f": np.array(True)}

    def work() -> None:
        for made in sessions * 5:
            made.run(None, feeds)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_a_run_that_waits_for_its_turn_hears_that_it_is_to_end() -> None:
    inside, go = threading.Event(), threading.Event()

    class Slow(Partitioned):
        def __call__(self, inputs: Sequence[Any]) -> list[Any]:
            inside.set()
            go.wait(10)
            return super().__call__(inputs)

    made = session(Serial(Slow), CpuStandIn())
    first = threading.Thread(target=made.run, args=(None, {"x": X}))
    first.start()
    assert inside.wait(10)
    options = RunOptions()
    threading.Timer(0.1, setattr, (options, "terminate", True)).start()
    with pytest.raises(RunTerminated, match="while DeclaringExecutionProvider_0 waited for its turn"):
        made.run(None, {"x": X}, options)
    go.set()
    first.join(10)


def test_states_of_threads_are_made_side_by_side() -> None:
    everybody = threading.Barrier(8)

    class Together(WithState):
        def create_state(self) -> Any:
            everybody.wait(10)  # breaks where one is made after the other
            return super().create_state()

    made = session(PerThread(Together), CpuStandIn())
    run_together(lambda _: made.run(None, {"x": X}), 8)


def test_one_state_is_made_by_one_thread_and_the_others_wait() -> None:
    class Slow(WithState):
        def create_state(self) -> Any:
            time.sleep(0.05)
            return super().create_state()

    provider = Declaring(Slow)
    made = session(provider, CpuStandIn())
    run_together(lambda _: made.run(None, {"x": X}), 8)
    assert [entry[0] for entry in provider.log].count("create") == 1


def test_a_state_that_cannot_be_made_is_an_error_and_tried_again() -> None:
    class Once(WithState):
        failed = False

        def create_state(self) -> Any:
            if not self.failed:
                self.failed = True
                raise OSError("no card")
            return super().create_state()

    made = session(Declaring(Once), CpuStandIn())
    with pytest.raises(RuntimeException, match="DeclaringExecutionProvider_0: create_state failed: OSError: no card"):
        made.run(None, {"x": X})
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.zeros(3))


def test_a_run_cannot_close_its_own_session() -> None:
    sessions: list[ort_lite.InferenceSession] = []

    class Closing(WithState):
        def __call__(self, inputs: Sequence[Any], state: Any) -> list[Any]:
            sessions[0].close()
            return super().__call__(inputs, state)

    sessions.append(session(Declaring(Closing), CpuStandIn()))
    with pytest.raises(RuntimeException, match="cannot be closed by a run of its own"):
        sessions[0].run(None, {"x": X})


def test_a_state_whose_release_fails_keeps_no_other_from_its_own() -> None:
    class Failing(WithState):
        def release_state(self, state: Any) -> None:
            super().release_state(state)
            raise OSError("stuck")

    provider = PerThread(Failing)
    made = session(provider, CpuStandIn())
    started = threading.Barrier(3)

    def work() -> None:
        made.run(None, {"x": X})
        started.wait(10)  # a thread that ends takes its state along
        done.wait(10)

    done = threading.Event()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait(10)
    with pytest.raises(RuntimeException, match="release_state failed: OSError: stuck"):
        made.close()
    done.set()
    for thread in threads:
        thread.join(10)
    assert [entry[0] for entry in provider.log].count("release") == 2


class Itself:
    """A compiled object that says it wraps itself."""

    def __init__(self, partition: Partition, log: "list[Any]") -> None:
        self.partition = partition
        self.function = self

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return evaluate(self.partition, inputs)


def test_what_a_compiled_object_calls_its_function_is_its_own() -> None:
    made = session(Declaring(Itself), CpuStandIn())
    made.run(None, {"x": X})
    made.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_of_a_fork_is_kept_waiting_by_no_thread_of_its_parent() -> None:
    code = """if True:
        import os, threading, warnings
        import numpy as np
        from tests.execute.test_guard import PerThread, Serial, CpuStandIn, Partitioned, WithState, session, X

        inside, go = threading.Event(), threading.Event()

        class Slow(Partitioned):
            def __call__(self, inputs):
                if threading.current_thread() is not threading.main_thread():
                    inside.set()
                    go.wait(60)
                return super().__call__(inputs)

        class SlowState(WithState):
            def create_state(self):
                if threading.current_thread() is not threading.main_thread():
                    inside.set()
                    go.wait(60)
                return super().create_state()

        for provider in (Serial(Slow), PerThread(SlowState), PerThread(WithState)):
            made = session(provider, CpuStandIn())
            if provider.make is WithState:
                made.run(None, {"x": X})
            else:
                inside.clear(), go.clear()
                threading.Thread(target=made.run, args=(None, {"x": X}), daemon=True).start()
                assert inside.wait(10)
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
            if not child:
                made.run(None, {"x": X})
                states = {entry[1] for entry in provider.log if entry[0] == "create"}
                assert provider.make is not WithState or len(states) == 2, "not the parent's"
                made.close()
                assert [entry[0] for entry in provider.log].count("release") == (provider.make is not Slow)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            go.set()
            made.close()
        print("done")
    """
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert ended.stdout == "done\n", ended.stderr
