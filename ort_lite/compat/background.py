"""`InferenceSession.run_async`: runs in threads of a pool, with a callback or to be awaited.

The pool is the process's own, as the threads of a session belong to whoever runs it: here, with its lock. Threads start when there is
a run for them, as many as the machine has cores at most; the child of a fork starts its own.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from ort_lite.compat.options import RunOptions
from ort_lite.memory import locks
from ort_lite.native.threads import submit

Callback = Callable[[list[Any], Any, str], Any]
"""Is called as (results, user_data, error): error is "" for a run that succeeded; results are [] for one that did not."""

_MAKING = locks.lock()
_pools: list[ThreadPoolExecutor] = []
"""One, or none yet."""


class PendingRun:
    """A run in the background: `await` it in a coroutine, or call `result`.

    A coroutine that is cancelled while it waits ends the run, as `cancel` does.
    """

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self.future: Future[list[Any]] = Future()

    def result(self, timeout: float | None = None) -> list[Any]:
        """Return or raise what `run` did. TimeoutError after `timeout` seconds of waiting; the run goes on."""
        return self.future.result(timeout)

    def done(self) -> bool:
        return self.future.done()

    def cancel(self) -> None:
        """The run does not begin, or ends as by `RunOptions.terminate`. What waits for it gets CancelledError, or Cancelled."""
        if not self.future.cancel():
            self._options.terminate = True

    def __await__(self) -> Generator[Any, None, list[Any]]:
        try:
            return (yield from asyncio.wrap_future(self.future).__await__())
        except asyncio.CancelledError:
            self.cancel()
            raise


def start(
    run: Callable[[RunOptions], list[Any]], given: RunOptions | None, then: Callable[[PendingRun], None] | None
) -> PendingRun:
    """Calls `run`, in a thread, with options like those given, whose `terminate` ends it; then `then`.

    Raises RuntimeException where no thread can start: the run does not begin.
    """
    pending = PendingRun(RunOptions() if given is None else given.copy())
    if then is not None:
        pending.future.add_done_callback(lambda _: then(pending))
    submit("run_async", _pool(), partial(copy_context().run, _work, run, given, pending))
    return pending


def calling(callback: Callback, user_data: Any) -> Callable[[PendingRun], None]:
    """Tells the callback how a run ended. What it raises goes to `sys.excepthook`: no caller is there to hear of it."""

    def then(pending: PendingRun) -> None:
        error = pending.future.exception()
        try:
            callback([] if error is not None else pending.future.result(), user_data, "" if error is None else _text(error))
        except Exception as raised:  # noqa: BLE001  whatever a caller's function raises
            sys.excepthook(type(raised), raised, raised.__traceback__)

    return then


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _work(run: Callable[[RunOptions], list[Any]], given: RunOptions | None, pending: PendingRun) -> None:
    future, own = pending.future, pending._options
    if not future.set_running_or_notify_cancel():
        return
    try:
        if given is None:
            made = run(own)
        else:
            with given.on_terminate(lambda: setattr(own, "terminate", True)):
                made = run(own)
    except BaseException as error:  # noqa: BLE001  whoever waits for the run gets it
        future.set_exception(error)
    else:
        future.set_result(made)


def _pool() -> ThreadPoolExecutor:
    with _MAKING:
        if not _pools:
            _pools.append(ThreadPoolExecutor(os.cpu_count() or 1, "ort-lite-run-async"))
        return _pools[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the threads are the parent's
