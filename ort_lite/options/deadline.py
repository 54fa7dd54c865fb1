"""Deadlines of runs. One thread per process, started on demand, sets `terminate` of runs whose time is over.

The thread is a daemon that sleeps while no run has a deadline. The child of a fork starts its own with its next deadline.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from heapq import heapify, heappop, heappush
from time import monotonic

from ort_lite.errors import DeadlineExceeded, InvalidArgument, RunTerminated
from ort_lite.native.threads import start
from ort_lite.options.options import RunOptions, seconds


class _Alarm:
    """A function to call at a given time, unless it is replaced by None first."""

    def __init__(self, when: float, act: Callable[[], None]) -> None:
        self.when = when
        self.act: Callable[[], None] | None = act

    def __lt__(self, other: "_Alarm") -> bool:
        return self.when < other.when


class _Clock:
    """A queue of alarms and the thread that triggers them, the earliest first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alarms: list[_Alarm] = []
        self._off = 0
        """The number of cancelled alarms in the queue."""
        self._thread: threading.Thread | None = None

    @contextmanager
    def alarm(self, delay: float, act: Callable[[], None]) -> Iterator[None]:
        """Call `act` in the clock's thread once the delay (seconds) has passed, unless the block ends first. 3 us.

        A call that has started may outlast the block. Raises RuntimeException if the thread cannot start; the next alarm tries
        again.
        """
        made = _Alarm(monotonic() + delay, act)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = start(f"a timeout of {delay:g} s", self._serve, "ort-lite-deadlines")
            heappush(self._alarms, made)
            if self._alarms[0] is made:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                if made.act is not None:
                    made.act = None
                    self._off += 1
                if self._off > 64 and 2 * self._off > len(self._alarms):
                    self._alarms = [each for each in self._alarms if each.act is not None]
                    heapify(self._alarms)
                    self._off = 0

    def _serve(self) -> None:
        while True:
            with self._changed:
                act = self._next()
            try:
                act()
            except Exception as error:  # noqa: BLE001  a provider's: the deadlines of other runs need this thread
                sys.excepthook(type(error), error, error.__traceback__)

    def _next(self) -> Callable[[], None]:
        """Wait until an alarm is due and return its function."""
        while True:
            if not self._alarms:
                self._changed.wait()
                continue
            first = self._alarms[0]
            if first.act is not None and (left := first.when - monotonic()) > 0:
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
                continue
            heappop(self._alarms)
            act, first.act = first.act, None
            if act is not None:
                return act
            self._off -= 1

    def forget_parent(self) -> None:
        """Reset the child of a fork: the thread and the runs of other threads belong to the parent."""
        self._changed, self._alarms, self._off, self._thread = threading.Condition(), [], 0, None


_CLOCK = _Clock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CLOCK.forget_parent)


@contextmanager
def limit_run(options: RunOptions | None, timeout: float) -> Iterator[RunOptions]:
    """Yield options for one run that must end after `timeout` seconds, or earlier if `options` say so.

    The time starts here. Raises InvalidArgument for an invalid timeout, and DeadlineExceeded if the run ends because of it.
    """
    timeout = seconds(timeout)
    if not timeout:
        raise InvalidArgument("timeout: got 0, expected seconds; None is no timeout")
    own = RunOptions() if options is None else options.copy()
    if own.timeout:
        timeout, own.timeout = min(timeout, own.timeout), 0.0
    with nullcontext() if options is None else options.on_terminate(lambda: setattr(own, "terminate", True)):
        try:
            with _CLOCK.alarm(timeout, lambda: own.exceed(timeout)):
                yield own
        except RunTerminated as error:
            told = own.termination(f"in {error.provider or 'a provider'}: {error}")
            if isinstance(error, type(told)) or not isinstance(told, DeadlineExceeded):
                raise
            raise told from error
