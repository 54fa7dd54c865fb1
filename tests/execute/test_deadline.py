"""Runs that are ended: by a timeout, by `RunOptions.terminate`, inside of a long instruction; and what is left behind."""

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import Cancelled, DeadlineExceeded, InvalidArgument, RunTerminated, RuntimeException
from ort_lite.options.deadline import _Clock, limit_run
from ort_lite.provider import CompiledPartition, Partition, run_options
from tests.provider.numpy_provider import NumpyProvider, evaluate
from tests.provider.texts import proto
from tests.threads import join

X = np.ones(3, np.float32)
ENDLESS = """(float[3] x) => (float[3] y) <int64 n = {9223372036854775807}, bool go = {1}> {
    y = Loop (n, go, x) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity(c)
        w = Neg(v)
    }>
}"""
EMPTY = """(float[3] x) => (float[3] y) <int64 n = {9223372036854775807}, bool go = {1}> {
    y = Loop (n, go, x) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity(c)
        w = Identity(v)
    }>
}"""
SQUARE = "(float[N,N] x) => (float[N,N] y) { y = MatMul(x, x) }"


def session(text: str, *providers: Any, threads: int = 1) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    return ort_lite.InferenceSession(proto(text), options, providers=[*providers, "CPUExecutionProvider"])


def limit(timeout: float) -> ort_lite.RunOptions:
    made = ort_lite.RunOptions()
    made.timeout = timeout
    return made


def bound(made: ort_lite.InferenceSession, options: ort_lite.RunOptions | None, timeout: float | None) -> None:
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    made.run_with_iobinding(binding, options, timeout=timeout)


WAYS: dict[str, Any] = {
    "run": lambda made, options, timeout: made.run(None, {"x": X}, options, timeout=timeout),
    "values": lambda made, options, timeout: made.run_with_ort_values(
        None, {"x": ort_lite.OrtValue.ortvalue_from_numpy(X)}, options, timeout=timeout
    ),
    "binding": bound,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_without_end_is_over_when_its_time_is(way: str) -> None:
    made = session(ENDLESS)
    for options, timeout in ((None, 0.05), (limit(0.05), None), (limit(9), 0.05), (limit(0.05), 9)):
        begin = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"longer than its timeout of 0\.05 s, and was ended before [A-Z]") as caught:
            WAYS[way](made, options, timeout)
        assert time.monotonic() - begin < 2
        assert isinstance(caught.value, (RunTerminated, RuntimeException, TimeoutError))
        assert (bool(caught.value.operator), caught.value.provider) == (True, "CPUExecutionProvider")
        assert options is None or not options.terminate, "other runs have these options"


def test_a_loop_whose_body_does_nothing_is_over_too() -> None:
    with pytest.raises(DeadlineExceeded, match="timeout"):
        session(EMPTY).run(None, {"x": X}, timeout=0.05)


def test_whoever_terminates_cancels_whatever_the_deadline_is() -> None:
    made, options = session(ENDLESS), limit(60)
    timer = threading.Timer(0.05, setattr, (options, "terminate", True))
    timer.start()
    with pytest.raises(Cancelled, match=r"ended by RunOptions\.terminate before [A-Z]"):
        made.run(None, {"x": X}, options)
    join(timer)
    with pytest.raises(Cancelled):
        made.run(None, {"x": X}, options, timeout=60)


def test_a_run_that_is_done_in_time_is_as_without_a_deadline() -> None:
    made = session("(float[3] x) => (float[3] y) { y = Neg(x) }")
    options = limit(60)
    for _ in range(200):
        np.testing.assert_array_equal(made.run(None, {"x": X}, options)[0], -X)
        np.testing.assert_array_equal(made.run(None, {"x": X}, timeout=60)[0], -X)
    assert (options.terminate, options.timeout) == (False, 60)
    for wrong in (0, -1, float("nan")):
        with pytest.raises(InvalidArgument, match=r"timeout: got"):
            made.run(None, {"x": X}, timeout=wrong)


def ended_inside(made: ort_lite.InferenceSession, x: Any) -> bool:
    """Whether a run was ended in its only instruction; it may be done, or not begun, by then."""
    try:
        made.run(None, {"x": x}, timeout=0.005)
    except DeadlineExceeded as error:
        return "before MatMul 'MatMul_0'" in str(error)
    return False


@pytest.mark.parametrize("threads", [1, 2])
def test_a_product_is_ended_in_its_middle(threads: int) -> None:
    """Half a second on one core; its bits are those of the whole one."""
    made, x = session(SQUARE, threads=threads), np.ones((1536, 1536), np.float32)
    x += np.arange(1536, dtype=np.float32) / 1024
    whole = made.run(None, {"x": x})[0]
    assert made.run(None, {"x": x}, ort_lite.RunOptions())[0].tobytes() == whole.tobytes()
    assert any(ended_inside(made, x) for _ in range(40)), "a machine with other work may be late, but not always"
    assert made.run(None, {"x": x})[0].tobytes() == whole.tobytes()


class Looking(NumpyProvider):
    """Computes for as long as nobody ends the run, and says so in its own words."""

    name = "LookingExecutionProvider"

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [partial(self._look, p) for p in partitions]

    @staticmethod
    def _look(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        options = run_options()
        for _ in range(2000):
            if options is None:
                return evaluate(partition, inputs)
            if options.terminate:
                raise RunTerminated("the card was told")
            time.sleep(0.001)
        raise AssertionError("nobody ended the run")


def test_a_provider_that_stops_need_not_know_of_deadlines() -> None:
    made = session("(float[3] x) => (float[3] y) { y = Neg(x) }", Looking())
    with pytest.raises(DeadlineExceeded, match=r"timeout of 0\.02 s, and was ended in LookingExec\w+: the card was told"):
        made.run(None, {"x": X}, timeout=0.02)
    options = ort_lite.RunOptions()
    threading.Timer(0.02, setattr, (options, "terminate", True)).start()
    with pytest.raises(RunTerminated, match="the card was told"):
        made.run(None, {"x": X}, options)


def test_runs_share_options_and_not_their_deadlines() -> None:
    """The one that is over ends alone."""
    options, ends = limit(0.05), []
    with limit_run(options, 60) as long, limit_run(options, 0.01) as short:
        long.on_terminate(lambda: ends.append("long"))
        while not short.terminate:
            time.sleep(0.001)
        assert (long.terminate, options.terminate, ends) == (False, False, [])
        options.terminate = True
        assert long.terminate


# The clock


def test_alarms_come_in_order_and_those_that_are_off_do_not() -> None:
    clock, heard, done = _Clock(), list[str](), threading.Event()
    with clock.alarm(0.06, done.set), clock.alarm(0.03, lambda: heard.append("second")):
        with clock.alarm(0.01, lambda: heard.append("first")), clock.alarm(0.02, lambda: heard.append("off")):
            while not heard:
                time.sleep(0.001)
            begin = time.monotonic()
        assert time.monotonic() - begin < 1
        assert done.wait(5)
    assert [word for word in heard if word != "off"] == ["first", "second"]


def test_a_clock_forgets_alarms_that_are_off() -> None:
    clock, before = _Clock(), len(threading.enumerate())
    with clock.alarm(60, lambda: None):
        for _ in range(1000):
            with clock.alarm(30, lambda: None):
                pass
        assert len(clock._alarms) < 200
        assert len(threading.enumerate()) == before + 1, "a thread for all"
