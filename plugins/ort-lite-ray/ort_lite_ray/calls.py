"""Calls between processes of one host, through a socket in a folder that both have; a task of Ray's takes ten times as much."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.reduction import ForkingPickler
from typing import Any

_BACKLOG = 1024
LOOK = 0.02
"""Seconds between looks whether something is to end."""


def answer(function: Callable[..., Any], path: str) -> None:
    """Calls at `path` call the function from now on, in a thread a connection. The folder says who may call: arguments are pickled."""
    listener = Listener(path, "AF_UNIX", backlog=_BACKLOG)
    try:
        threading.Thread(target=_accept, args=(listener, function), daemon=True).start()
    except RuntimeError:  # no thread can start: nobody shall wait for an answer
        listener.close()
        raise


def _accept(listener: Listener, function: Callable[..., Any]) -> None:
    while True:
        try:
            connection = listener.accept()
        except OSError:  # the caller has gone already, or this process has too many files
            time.sleep(LOOK)
            continue
        try:
            threading.Thread(target=_answer, args=(connection, function), daemon=True).start()
        except RuntimeError:  # no thread can start now; the caller hears that nobody is there
            connection.close()


def _answer(connection: Connection, function: Callable[..., Any]) -> None:
    with connection, suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_answered(function, connection.recv()))


def _answered(function: Callable[..., Any], arguments: Sequence[Any]) -> memoryview:
    """Pickled: the result and None, or None and the error."""
    try:
        return ForkingPickler.dumps((function(*arguments), None))
    except Exception as error:  # noqa: BLE001  # the caller's
        return ForkingPickler.dumps((None, error if _travels(error) else RuntimeError(f"{type(error).__name__}: {error}")))


def _travels(error: Exception) -> bool:
    """Return True if it can be pickled and rebuilt: some errors hold what no pickle does, or are made of more than their words."""
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:  # noqa: BLE001  # whatever its class does; its own words are told instead
        return False
    return True


class CallLost(Exception):
    """Nobody is there, or who was there has gone."""


class Calls:
    """Calls of the function behind `path`. Thread-safe: a connection for each of the most that were under way at once."""

    def __init__(self, path: str) -> None:
        self._path, self._free = path, list[Connection]()

    def __call__(self, arguments: Sequence[Any], look: Callable[[], None] | None = None) -> Any:
        """The result. `look` is called now and then while it is not there, and may raise. Raises what the function raised, CallLost."""
        try:
            result, error = self._asked(arguments, look)
        except (EOFError, ConnectionError, FileNotFoundError) as gone:
            raise CallLost from gone
        if error is not None:
            raise error
        return result

    def _asked(self, arguments: Sequence[Any], look: Callable[[], None] | None) -> Any:
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
