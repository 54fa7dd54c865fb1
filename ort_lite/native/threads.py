"""Starting of threads that either succeeds or leaves nothing behind, so that a retry starts from scratch.

The system refuses to create threads at a limit on threads or memory; Python refuses while the interpreter shuts down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ort_lite.errors import RuntimeException

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")


def start(purpose: str, target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread and return it. Raises RuntimeException, with `purpose` in the message, if no thread can start."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise _refusal(purpose, error) from error
    return thread


def submit(purpose: str, pool: ThreadPoolExecutor, call: Callable[[], T]) -> Future[T]:
    """Run a call on a thread of the pool. Raises RuntimeException if the pool is shut down or no thread can start.

    `ThreadPoolExecutor.submit` leaves a call in its queue when it raises, for a later thread to run. This one is cancelled.
    """
    from concurrent.futures import Future

    future = Future[T]()

    def work() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  passed to whatever waits for the future
                future.set_exception(error)

    try:
        pool.submit(work)
    except RuntimeError as error:
        if future.cancel():  # False if a thread of the pool has started it
            raise _refusal(purpose, error) from error
    return future


def _refusal(purpose: str, error: RuntimeError) -> RuntimeException:
    return RuntimeException(
        f"{purpose}: no thread could be started ({error}); end some threads, or raise the limit on their number"
    )
