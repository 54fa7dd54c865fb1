"""Decision 0116: what returns before a device has finished, and who waits for it: the host, or the queue of a reader."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import DeadlineExceeded, ProviderError, RuntimeException
from ort_lite.execute.waiting import MOST_EVENTS, MOST_IN_FLIGHT
from ort_lite.graph import Node
from ort_lite.provider import CPU, DataTransfer, Device, Partition
from tests.load.models import proto
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate
from tests.threads import join

LANE = Device("lane")
X = np.array([1, -2, 3], np.float32)
ONE = "main (float[N] x) => (float[N] y) { y = Neg(x) }"
MIXED = "main (float[N] x) => (float[N] y) { a = Neg(x)  b = Abs(a)  y = Neg(b) }"
TURNS = """main (float[N] x) => (float[N] y) <int64 trips = {300}, bool yes = {1}> {
    y = Loop(trips, yes, x) <body = turn (int64 i, bool go, float[N] a) => (bool again, float[N] b) { again = Identity(go) b = Neg(a) }>
}"""


class Later:
    """A value that a queue computes."""

    def __init__(self, future: "Future[Any]") -> None:
        self.future = future

    def array(self) -> Any:
        return self.future.result(60)


class Notification:
    def __init__(self, future: "Future[Any]") -> None:
        self.future = future

    def wait_on_host(self) -> None:
        self.future.result(60)

    def is_done(self) -> bool:
        return self.future.done()


class Engine:
    """A data transfer whose copies are work of a queue of its own. Copies from the host read it when their turn comes."""

    def __init__(self, device: Device) -> None:
        self.device, self.queue = device, ThreadPoolExecutor(1)

    def can_copy(self, source: Device, destination: Device) -> bool:
        return {source, destination} == {CPU, self.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        return Later(self.queue.submit(value.copy)) if source == CPU else value.array().copy()

    def copy_async(self, value: Any, source: Device, destination: Device, memory: Any) -> tuple[Any, Notification]:
        if source == CPU:
            future = self.queue.submit(value.copy)
            return Later(future), Notification(future)
        made = np.empty_like(value.array())
        return made, Notification(self.queue.submit(lambda: np.copyto(made, value.array())))


class Lane(NumpyProvider):
    """A device with a queue. `log` has what its queue was asked to wait for; `waits` is the answer."""

    name: ClassVar[str] = "LaneExecutionProvider"
    device = LANE

    def __init__(self, takes: Callable[[Node], bool] = lambda node: node.op_type == "Neg", waits: bool = True) -> None:
        super().__init__(takes)
        self.engine, self.queue, self.waits = Engine(self.device), ThreadPoolExecutor(1), waits
        self.log: list[str] = []
        self.compute: Callable[[Partition, Sequence[Any]], list[Any]] = evaluate
        self.record: Callable[[Any], Any] = lambda called: Notification(called.local.last)

    def data_transfer(self) -> DataTransfer:
        return self.engine

    def compile(self, partitions: Sequence[Partition]) -> Sequence[Any]:
        return [Called(self, partition) for partition in partitions]

    def sync(self) -> None:
        self.log.append("sync")
        self.queue.submit(int).result(60)

    def wait_on_device(self, notification: Any) -> bool:
        self.log.append("wait")
        if self.waits:
            self.queue.submit(notification.wait_on_host)
        return self.waits


class Called:
    def __init__(self, lane: Lane, partition: Partition) -> None:
        self.lane, self.partition, self.local = lane, partition, threading.local()

    def __call__(self, inputs: Sequence[Later]) -> list[Later]:
        future = self.local.last = self.lane.queue.submit(
            lambda: self.lane.compute(self.partition, [x.array() for x in inputs])
        )
        return [Later(self.lane.queue.submit(partial(_pick, future, k))) for k in range(len(self.partition.outputs))]

    def record(self) -> Any:
        return self.lane.record(self)


def _pick(future: "Future[Any]", k: int) -> Any:
    return future.result(60)[k]


class OtherLane(Lane):
    name = "OtherExecutionProvider"
    device = Device("other")


def session(text: str, *lanes: Any, options: Any = None) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), options, providers=[*lanes, CpuStandIn()])


def bound(made: ort_lite.InferenceSession, x: Any = X) -> ort_lite.IOBinding:
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "lane", 0)
    return binding


def entry(value: str) -> ort_lite.RunOptions:
    options = ort_lite.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", value)
    return options


def test_a_bound_run_waits_for_copies_of_its_feeds_and_not_for_kernels() -> None:
    lane, kernels, copies = Lane(), threading.Event(), threading.Event()
    made, x = session(ONE, lane), X.copy()
    lane.queue.submit(kernels.wait)
    lane.engine.queue.submit(copies.wait)
    binding = bound(made, x)
    runner = threading.Thread(target=made.run_with_iobinding, args=(binding,))
    runner.start()
    runner.join(0.1)
    assert runner.is_alive(), "the array is still read"
    copies.set()
    join(runner)
    x[...] = 0
    assert not lane.queue.submit(int).done(), "the kernel has not begun"
    kernels.set()
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -X)
    assert "wait" in lane.log


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("text", [ONE, MIXED, TURNS])
def test_runs_give_the_same_whoever_waits(text: str, parallel: bool, waits: bool) -> None:
    options = ort_lite.SessionOptions()
    options.execution_mode = ort_lite.ExecutionMode(parallel)
    lane = Lane(waits=waits)
    made = session(text, lane, options=options)
    (wanted,) = session(text).run(None, {"x": X})
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], wanted)
    binding = bound(made)
    for _ in range(3):
        made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], wanted)


def test_a_loop_of_more_turns_than_events_are_kept_ends() -> None:
    assert MOST_EVENTS < 300, "as many turns has the loop"
    np.testing.assert_array_equal(session(TURNS, Lane()).run(None, {"x": X})[0], X)


def test_values_go_from_one_queue_to_another() -> None:
    first, second = Lane(), OtherLane(lambda node: node.op_type == "Abs")
    made = session(MIXED, first, second)
    assert {p.provider.name for p in made.explain().assignment.partitions} == {first.name, second.name}
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], -np.abs(X))


def test_the_number_of_runs_in_flight_is_bounded() -> None:
    lane, gate = Lane(), threading.Event()
    made = session(ONE, lane)
    value = ort_lite.OrtValue.on(lane, X)
    binding = bound(made)
    binding.bind_ortvalue_input("x", value)
    lane.queue.submit(gate.wait)
    for _ in range(MOST_IN_FLIGHT):
        made.run_with_iobinding(binding)
    options = ort_lite.RunOptions()
    options.timeout = 0.1
    with pytest.raises(DeadlineExceeded):
        made.run_with_iobinding(binding, options)
    gate.set()
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -X)


def test_run_synchronizes_and_a_bound_run_only_on_request() -> None:
    lane = Lane()
    made = session(ONE, lane)
    binding = bound(made)
    for run, expected in (
        (lambda: made.run(None, {"x": X}), 1),
        (lambda: made.run(None, {"x": X}, entry("1")), 0),
        (lambda: made.run_with_iobinding(binding), 0),
        (lambda: made.run_with_iobinding(binding, entry("0")), 1),
    ):
        lane.log.clear()
        run()
        assert lane.log.count("sync") == expected
        lane.queue.submit(int).result(60)


@pytest.mark.parametrize("answer", [None, 3, "done", object()])
def test_a_notification_that_is_none_is_an_error(answer: Any) -> None:
    lane = Lane()
    lane.record = lambda called: answer
    with pytest.raises(
        ProviderError, match=r"LaneExecutionProvider\): record returned .*; expected a notification with `wait_on_host`"
    ):
        session(ONE, lane).run(None, {"x": X})


def test_an_error_of_record_names_the_partition() -> None:
    lane = Lane()

    def broken(called: Any) -> Any:
        raise OSError("no events left")

    lane.record = broken
    with pytest.raises(
        RuntimeException, match=r"LaneExecutionProvider_0 \(LaneExecutionProvider\).*record.*OSError: no events left"
    ):
        session(ONE, lane).run(None, {"x": X})


def test_with_a_next_provider_each_call_is_waited_for() -> None:
    lane = Lane()

    def broken(partition: Any, inputs: Any) -> Any:
        raise OSError("lost")

    lane.compute = broken
    made = session(ONE, (lane, {"on_run_error": "next"}))
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X)
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], -X)


def test_an_error_in_a_body_names_the_body_s_partition() -> None:
    lane = Lane()

    def broken(partition: Any, inputs: Any) -> Any:
        raise OSError("lost")

    lane.compute = broken
    with pytest.raises(RuntimeException, match=r"\(LaneExecutionProvider\) failed: OSError: lost"):
        session(TURNS, lane).run(None, {"x": X})


@pytest.mark.parametrize("answer", [None, "yes", 3])
def test_a_wait_on_the_device_is_yes_or_no(answer: Any) -> None:
    lane = Lane(waits=answer)
    with pytest.raises(ProviderError, match=r"LaneExecutionProvider: wait_on_device .*expected True or False"):
        session(ONE, lane).run(None, {"x": X})


def test_an_error_of_is_done_names_the_partition() -> None:
    class Unknown(Notification):
        def is_done(self) -> bool:
            raise OSError("no such event")

    lane = Lane()
    lane.record = lambda called: Unknown(called.local.last)
    made = session(ONE, lane)
    binding = bound(made)
    made.run_with_iobinding(binding)
    with pytest.raises(
        RuntimeException, match=r"LaneExecutionProvider_0 \(LaneExecutionProvider\): is_done failed: OSError: no such"
    ):
        made.run_with_iobinding(binding)
    binding.synchronize_outputs()
    made.run(None, {"x": X})
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], -X)


def test_a_failed_value_is_handed_out_by_nobody() -> None:
    lane = Lane()

    def broken(partition: Any, inputs: Any) -> Any:
        raise OSError("lost")

    lane.compute = broken
    made = session(ONE, lane)
    binding = bound(made)
    made.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    for read in (value.numpy, value.to_dlpack, value.numpy):
        with pytest.raises(RuntimeException, match="OSError: lost"):
            read()
