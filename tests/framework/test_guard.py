"""States of compiled partitions, and who may be in them at once."""

import gc
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import ProviderError, RuntimeException
from ort_lite.execute.guard import lock_of
from ort_lite.graph import Node
from ort_lite.provider import CompiledPartition, Partition
from tests.framework.numpy_provider import CpuStandIn, NumpyProvider, evaluate

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
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')
    return ort_lite.InferenceSession(proto, providers=providers)


def in_threads(count: int, work: Callable[[], Any]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


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
    in_threads(3, lambda: [made.run(None, {"x": X}) for _ in range(5)])
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
    in_threads(6, lambda: [made.run(None, {"x": X}) for _ in range(4)])
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
    in_threads(4, lambda: [s.run(None, {"x": X}) for s in sessions for _ in range(3)])
    assert shared["most"] == 1


def test_a_serial_provider_may_run_bodies_of_its_own() -> None:
    made = session(Serial(Partitioned), CpuStandIn(), text=BRANCHES)
    np.testing.assert_array_equal(made.run(None, {"x": X, "f": np.array(True)})[0], -X)


def test_a_concurrent_partition_without_state_is_called_as_it_is() -> None:
    from ort_lite.execute.guard import guarded

    made = session(CpuStandIn())
    (partition,) = made.explain().assignment.partitions
    compiled = Partitioned(partition, [])
    assert guarded(partition, compiled) is compiled


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
