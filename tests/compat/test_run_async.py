"""InferenceSession.run_async: callbacks as onnxruntime's, and what can be awaited."""

import asyncio
import sys
import threading
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ort_lite
from ort_lite.compat import async_runs
from ort_lite.errors import Cancelled, DeadlineExceeded, InvalidArgument
from tests.compat.test_members import MODEL, X, session


def told(api: Any, names: list[str] | None, feed: dict[str, Any]) -> Any:
    """What a callback gets: results, user data, whether there is an error."""
    got: list[Any] = []
    over = threading.Event()

    def callback(results: Any, user_data: Any, error: str) -> None:
        got.append(([result.tolist() for result in results], user_data, bool(error)))
        over.set()

    options = api.SessionOptions()
    options.intra_op_num_threads = 2  # onnxruntime runs them there
    assert api.InferenceSession(MODEL, options).run_async(names, feed, callback, "mine") is None
    assert over.wait(30)
    (found,) = got
    return found


@pytest.mark.parametrize(
    ("names", "feed"), [(None, {"x": X}), (["y"], {"x": X}), (["q"], {"x": X}), (None, {"x": X.astype(np.float64)})]
)
def test_callbacks_get_what_onnxruntimes_get(names: list[str] | None, feed: dict[str, Any]) -> None:
    assert told(ort_lite, names, feed) == told(onnxruntime, names, feed)


def test_a_callback_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    over = threading.Event()

    def hook(kind: Any, error: Any, trace: Any) -> None:
        seen.append(kind)
        over.set()

    monkeypatch.setattr(sys, "excepthook", hook)
    session(ort_lite).run_async(None, {"x": X}, lambda *told: {}[told[1]], "mine")
    assert over.wait(30)
    assert seen == [KeyError]


def test_it_can_be_awaited() -> None:
    made = session(ort_lite)

    async def both() -> Any:
        return await asyncio.gather(made.run_async(None, {"x": X}), made.run_async(["y"], {"x": -X}))

    first, second = asyncio.run(both())
    assert [first[0].tolist(), second[0].tolist()] == [[[1, 0]], [[0, 2]]]
    pending = made.run_async(None, {"x": X})
    assert pending.result(30)[0].tolist() == [[1, 0]]
    assert pending.done()
    with pytest.raises(InvalidArgument, match="no output 'q'"):
        made.run_async(["q"], {"x": X}).result(30)


def waiting(given: Any = None) -> tuple[async_runs.PendingRun, threading.Event]:
    """A run that goes on until its options end it."""
    began = threading.Event()

    def run(options: ort_lite.RunOptions) -> list[Any]:
        stopped = threading.Event()
        with options.on_terminate(stopped.set):
            began.set()
            assert stopped.wait(30)
        raise options.termination("here")

    return async_runs.start(run, given, None), began


def test_runs_can_be_ended() -> None:
    pending, began = waiting()
    assert began.wait(30)
    pending.cancel()
    with pytest.raises(Cancelled):
        pending.result(30)
    options = ort_lite.RunOptions()
    pending, began = waiting(options)
    assert began.wait(30)
    options.terminate = True
    with pytest.raises(Cancelled):
        pending.result(30)


def test_a_coroutine_that_is_cancelled_ends_its_run() -> None:
    pending, began = waiting()

    async def wait() -> None:
        task = asyncio.ensure_future(_result(pending))
        await asyncio.to_thread(began.wait, 30)
        await asyncio.sleep(0)  # a task that is cancelled before its first step never waits for the run
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(wait())
    with pytest.raises(Cancelled):
        pending.result(30)


async def _result(pending: async_runs.PendingRun) -> Any:
    return await pending


def test_timeouts() -> None:
    made = session(ort_lite)
    assert made.run_async(None, {"x": X}, timeout=30).result(30)[0].tolist() == [[1, 0]]
    options = ort_lite.RunOptions()
    options.exceed(1.0)
    with pytest.raises(DeadlineExceeded):
        made.run_async(None, {"x": X}, run_options=options).result(30)
