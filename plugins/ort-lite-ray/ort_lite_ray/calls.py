"""Calls between processes of one host, through a socket in a folder that both can access. A Ray task takes ten times as long."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.reduction import ForkingPickler
from typing import Any

_BACKLOG = 1024
LOOK = 0.02
"""Seconds between checks for cancellation."""


def answer(function: Callable[..., Any], path: str) -> None:
    """Serve calls of a function at `path` from now on, in one thread per connection.

    Arguments are pickled, so the folder's permissions must restrict who may call.
    """
    listener = Listener(path, "AF_UNIX", backlog=_BACKLOG)
    try:
        threading.Thread(target=_accept, args=(listener, function), daemon=True).start()
    except RuntimeError:  # no thread can start, so no caller may wait for an answer
        listener.close()
        raise


def _accept(listener: Listener, function: Callable[..., Any]) -> None:
    while True:
        try:
            connection = listener.accept()
        except OSError:  # the caller has left, or this process has too many open files
            time.sleep(LOOK)
            continue
        try:
            threading.Thread(target=_answer, args=(connection, function), daemon=True).start()
        except RuntimeError:  # no thread can start now; the caller gets CallLost
            connection.close()


def _answer(connection: Connection, function: Callable[..., Any]) -> None:
    with connection, suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_pickle_answer(function, connection.recv()))


def _pickle_answer(function: Callable[..., Any], arguments: Sequence[Any]) -> memoryview:
    """Call the function. Returns the pickled result and None, or None and the error."""
    try:
        return ForkingPickler.dumps((function(*arguments), None))
    except Exception as error:  # noqa: BLE001  # the caller's
        return ForkingPickler.dumps((None, error if _travels(error) else RuntimeError(f"{type(error).__name__}: {error}")))


def _travels(error: Exception) -> bool:
    """Return True if an error survives pickling: some hold values that cannot be pickled, or need more arguments than their text."""
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:  # noqa: BLE001  # whatever its class does; its own words are told instead
        return False
    return True


class CallLost(Exception):
    """The process to call does not exist, or ended during the call."""


class Calls:
    """A client of the function at `path`. Thread-safe: opens one connection per concurrent call, and reuses them."""

    def __init__(self, path: str) -> None:
        self._path, self._free = path, list[Connection]()

    def __call__(self, arguments: Sequence[Any], look: Callable[[], None] | None = None) -> Any:
        """Call the function and return its result. Raises its errors, and CallLost.

        `look` is called from time to time while waiting, and may raise.
        """
        try:
            result, error = self._ask(arguments, look)
        except (EOFError, ConnectionError, FileNotFoundError) as gone:
            raise CallLost from gone
        if error is not None:
            raise error
        return result

    def _ask(self, arguments: Sequence[Any], look: Callable[[], None] | None) -> Any:
        try:
            connection = self._free.pop()
        except IndexError:
            connection = Client(self._path, "AF_UNIX")
        try:
            connection.send(arguments)
            while look is not None and not connection.poll(LOOK):
                look()
            answered = connection.recv()
        except BaseException:
            connection.close()
            raise
        self._free.append(connection)
        return answered
