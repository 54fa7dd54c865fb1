"""`InferenceSession.run_async`: runs in the threads of a pool, with a callback or an awaitable result.

The pool belongs to the process, like the threads of a session belong to its caller; it is kept here under a lock. Threads start
on demand, at most one per core. The child of a fork starts its own.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from ort_lite.compat.ort_options import RunOptions
from ort_lite.memory import locks
from ort_lite.native.threads import submit

Callback = Callable[[list[Any], Any, str], Any]
"""A function called as (results, user_data, error). `error` is "" after success; `results` is [] after a failure."""

_MAKING = locks.lock()
_pools: list[ThreadPoolExecutor] = []
"""The pool, or nothing before the first run."""


class PendingRun:
    """A run in the background: `await` it in a coroutine, or call `result`.

    If the awaiting coroutine is cancelled, the run is cancelled too.
    """

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self.future: Future[list[Any]] = Future()

    def result(self, timeout: float | None = None) -> list[Any]:
        """Return the outputs, or raise the run's error. Raises TimeoutError after `timeout` seconds; the run goes on."""
        return self.future.result(timeout)

    def done(self) -> bool:
        """Return True if the run has finished."""
        return self.future.done()

    def cancel(self) -> None:
        """Cancel the run, or prevent it from starting. Waiters get CancelledError, or Cancelled if it had started."""
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
    """Call `run` in a thread of the pool with a copy of the options, then call `then`.

    Setting `terminate` of the given options ends the run. Raises RuntimeException if no thread can start; nothing runs then.
    """
    pending = PendingRun(RunOptions() if given is None else given.copy())
    if then is not None:
        pending.future.add_done_callback(lambda _: then(pending))
    submit("run_async", _pool(), partial(copy_context().run, _work, run, given, pending))
    return pending


def calling(callback: Callback, user_data: Any) -> Callable[[PendingRun], None]:
    """Return a function that passes the result of a run to the callback.

    An exception of the callback goes to `sys.excepthook`, because no caller is left to receive it.
    """

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
    os.register_at_fork(after_in_child=_pools.clear)  # the pool's threads exist only in the parent
