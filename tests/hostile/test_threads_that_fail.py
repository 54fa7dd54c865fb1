"""The system gives no thread for a while: what needed one says so or does without, and the next attempt is as the first."""

import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.compat.async_runs import PendingRun
from ort_lite.compat.async_runs import _pools as pools
from ort_lite.errors import Cancelled, DeadlineExceeded, RuntimeException
from ort_lite.native import background, workers
from ort_lite.native.cpu import host
from ort_lite.options.deadline import _CLOCK, limit_run
from ort_lite.provider import RunOptions
from ort_lite.tools.playground.jobs import Jobs
from ort_lite_cpu.run.loop import RUN_JOB
from ort_lite_cpu.run.team import Team
from tests.case_server import Outcome

X = np.ones(3, np.float32)
ENDLESS = """(float[3] x) => (float[3] y) <int64 n = {9223372036854775807}, bool go = {1}> {
    y = Loop (n, go, x) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity(c)
        w = Neg(v)
    }>
}"""
FORKS = "(float[3] x) => (float[3] y) { a = Neg(x) b = Exp(x) c = Sin(x) d = Add(a, b) y = Add(d, c) }"
NO_THREAD = "no thread could be started"


@contextmanager
def no_threads() -> Iterator[None]:
    """A new thread asks for more stack than the process may have."""
    before = threading.stack_size(1 << 40)
    try:
        yield
    finally:
        threading.stack_size(before)


def session(text: str, **options: Any) -> ort_lite.InferenceSession:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')
    made = ort_lite.SessionOptions()
    for name, value in options.items():
        setattr(made, name, value)
    return ort_lite.InferenceSession(proto, made)


def fail() -> None:
    raise ZeroDivisionError


def background_run(made: ort_lite.InferenceSession) -> PendingRun:
    pending = made.run_async(None, {"x": X})
    assert pending is not None
    return pending


def raises(kind: type[Exception], words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        call()


def deadline() -> None:
    made = session(ENDLESS)
    _CLOCK.forget_parent()
    with no_threads():
        for _ in range(3):
            raises(RuntimeException, NO_THREAD, lambda: made.run(None, {"x": X}, timeout=0.05))
    raises(DeadlineExceeded, "timeout of 0.05 s", lambda: made.run(None, {"x": X}, timeout=0.05))


def deadline_of_options() -> None:
    made, options = session("(float[3] x) => (float[3] y) { y = Neg(x) }"), ort_lite.RunOptions()
    options.timeout = 5
    _CLOCK.forget_parent()
    with no_threads():
        raises(RuntimeException, "a timeout of 5 s", lambda: made.run(None, {"x": X}, options))
    made.run(None, {"x": X}, options)


def deadline_of_another_run() -> None:
    """Its alarm is the clock's thread's, whatever a provider does when it is told."""
    hook, sys.excepthook = sys.excepthook, lambda *_: None
    with limit_run(None, 0.01) as first, first.on_terminate(fail), limit_run(None, 0.05) as second:
        end = time.monotonic() + 5
        while not second.terminate and time.monotonic() < end:
            time.sleep(0.001)
        assert first.terminate
        assert second.terminate
    sys.excepthook = hook


def every_stop_is_called() -> None:
    options, heard = RunOptions(), list[int]()
    with options.on_terminate(fail), options.on_terminate(lambda: heard.append(1)):
        raises(ZeroDivisionError, "", lambda: setattr(options, "terminate", True))
    assert heard == [1]


def run_async() -> None:
    made, heard = session("(float[3] x) => (float[3] y) { y = Neg(x) }"), list[Any]()
    with no_threads():
        raises(
            RuntimeException,
            "run_async: " + NO_THREAD,
            lambda: made.run_async(None, {"x": X}, lambda *said: heard.append(said), 1),
        )
    np.testing.assert_array_equal(background_run(made).result(20)[0], -X)
    time.sleep(0.05)
    assert heard == [], "a run that was refused has run"


def run_async_beside_another() -> None:
    """The pool has a thread already, which is busy."""
    pools.clear()
    made, neg, heard = session(ENDLESS), session("(float[3] x) => (float[3] y) { y = Neg(x) }"), list[Any]()
    first = background_run(made)
    with no_threads():
        raises(RuntimeException, NO_THREAD, lambda: neg.run_async(None, {"x": X}, lambda *said: heard.append(said), 1))
    first.cancel()
    raises(Cancelled, "", lambda: first.result(20))
    np.testing.assert_array_equal(background_run(neg).result(20)[0], -X)
    assert heard == []


def parallel() -> None:
    made = session(FORKS, execution_mode=ort_lite.ExecutionMode.ORT_PARALLEL, inter_op_num_threads=3)
    with no_threads():
        alone = made.run(None, {"x": X})[0]
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], alone)


def background_compiling() -> None:
    made: Any = background.Background()

    def compile_nothing() -> None:
        with made._lock:
            made._thread = None

    made._compile = compile_nothing
    with no_threads():
        made.want([RUN_JOB], host())
    assert made._thread is None
    assert not made._wanted
    made.want([RUN_JOB], host())
    assert made._asked
    assert list(made._wanted), "the second session's request is not forgotten"
    assert made.wait(20)


def compiling_ahead() -> None:
    worker = workers.Worker()
    with no_threads():
        worker.go_ahead(("ahead", [], host(), ""))
    assert not worker.busy
    worker.give_up()
    worker.go_on()
    worker.close()


@contextmanager
def compiled_here() -> Iterator[list[str]]:
    """The keys of what this process compiles, without compiling it."""
    keys = list[str]()

    def compile_here(key: str, *_: Any) -> bytes:
        keys.append(key)
        return b"object"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "compile_here", compile_here)
        yield keys


def compiling() -> None:
    """Without a thread that waits for the process that compiles, this one does."""
    specs = {f"{k:040x}": RUN_JOB for k in range(9)}
    with tempfile.TemporaryDirectory() as folder, compiled_here() as keys, no_threads():
        made = workers.compile_all(specs, host(), folder)
    assert made == dict.fromkeys(specs, b"object")
    assert sorted(keys) == sorted(specs)


def compiling_processes() -> None:
    """Without a process that compiles, this one does; the next one is asked for again."""
    workers.close_all()
    specs, refused = {f"{k:040x}": RUN_JOB for k in range(9)}, list[int]()

    def refuse(*_: Any) -> Any:
        refused.append(1)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder, compiled_here() as keys:
        patch.setattr(workers, "_process", refuse)
        made = workers.compile_all(specs, host(), folder)
    assert made == dict.fromkeys(specs, b"object")
    assert sorted(keys) == sorted(specs)
    assert len(refused) >= len(specs)


def playground_job() -> None:
    jobs = Jobs()
    with no_threads():
        raises(RuntimeException, NO_THREAD, lambda: jobs.start(lambda job: {}))
    assert jobs.close(1)
    job = jobs.start(lambda job: {"done": 1})
    assert job.thread is not None
    job.thread.join(20)
    assert job.result == {"done": 1}


def team() -> None:
    made: Any = Team()
    refuse = [True]
    start = made._start
    made._start = lambda library, number: 11 if refuse[0] else start(library, number)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made.grow(3)
        made.grow(3)
    assert (made.threads, made.asked, len(seen)) == (1, 3, 1), "one warning, and no second attempt in each run"
    refuse[0] = False
    made.retry()
    made.grow(3)
    assert made.threads == 3
    made.retry()
    assert made.asked == 3
    made.close()


CASES: dict[str, Callable[[], None]] = {
    "a deadline": deadline,
    "the deadline of RunOptions": deadline_of_options,
    "the deadline of another run": deadline_of_another_run,
    "every stop is called": every_stop_is_called,
    "run_async": run_async,
    "run_async beside another": run_async_beside_another,
    "a parallel session": parallel,
    "compiling in the background": background_compiling,
    "compiling ahead": compiling_ahead,
    "compiling": compiling,
    "processes that compile": compiling_processes,
    "a job of the playground": playground_job,
    "a team of workers": team,
}


@pytest.mark.parametrize("name", CASES)
def test_a_thread_that_cannot_start_disables_nothing(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name) == ""
