"""Waits for devices: work that a run leaves unfinished, its errors, and waits that end with the run's deadline."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from ort_lite.errors import OrtLiteError, RunTerminated, RuntimeException, format_error
from ort_lite.memory import locks
from ort_lite.native.threads import start
from ort_lite.options.options import RunOptions
from ort_lite.provider.ask import ask, name_errors
from ort_lite.provider.current import CURRENT, as_in
from ort_lite.provider.provider import ExecutionProvider

GRACE = 0.1
"""How many seconds a run that must end waits for a device, so that it usually leaves nothing in flight."""
MOST_IN_FLIGHT = 64
"""The number of runs of one compiled model whose work may be unfinished. The next one waits for the oldest."""
MOST_EVENTS = 256
"""The same of the calls and copies of one run."""


def wait_for_device(wait: Callable[[], object], options: RunOptions | None, what: str) -> None:
    """Call `wait`. If the run has options, a thread of its own calls it, and the run waits until it must end.

    What `wait` refers to stays alive until it returns, even if the run has ended. Raises the error of `wait`, and RunTerminated.
    """
    if options is None:
        wait()
        return
    failures: list[BaseException] = []
    ended, done = threading.Event(), threading.Event()

    def call() -> None:
        try:
            with as_in(options, None):
                wait()
        except BaseException as error:  # noqa: BLE001  the run raises it
            failures.append(error)
        finally:
            done.set()
            ended.set()

    start("a wait for a device", call, "ort-lite-device-wait")
    with options.on_terminate(ended.set):
        ended.wait()
    if options.terminate:
        done.wait(GRACE)
        raise options.termination(f"while it waited for {what}")
    if failures:
        raise failures[0]


class DeviceEvent(NamedTuple):
    """Work on a device. `step` is the partition or copy, with its provider; `held` is what the work still reads.

    `from_host` is True for a copy that reads memory of the host, which its owner may overwrite once the run has returned.
    """

    step: str
    provider: str
    notification: Any
    held: Any = None
    from_host: bool = False

    def wait(self, options: RunOptions | None) -> None:
        """Wait for the work. Raises RuntimeException naming the step, and RunTerminated."""
        try:
            wait_for_device(self.notification.wait_on_host, options, self.step)
        except OrtLiteError as error:
            if not isinstance(error, RunTerminated):
                error.about(provider=self.provider)
                error.add_note(f"in {self.step}")
            raise
        except Exception as error:
            raise RuntimeException(f"{self.step} failed: {format_error(error)}").about(provider=self.provider) from error

    def is_done(self) -> bool:
        """Return True if a wait would not block. False if the notification does not know."""
        known = getattr(self.notification, "is_done", None)
        if known is None:
            return False
        with name_errors(f"{self.step}: is_done"):
            return bool(known())


class DeviceFailure:
    """An error of work on a device, which somebody has been told, or nobody yet."""

    def __init__(self, error: OrtLiteError) -> None:
        self.error, self.told = error, False

    def tell(self) -> OrtLiteError:
        """Return the error to raise."""
        self.told = True
        return self.error.with_traceback(None)


class DeviceWork:
    """The work on devices that one run has started. It depends on that of the runs that made its inputs."""

    def __init__(self, after: Iterable["DeviceWork"] = ()) -> None:
        self._events: list[DeviceEvent] = []
        self._after = [work for work in after if work.is_open()]
        self._changing = locks.lock()
        self.failure: DeviceFailure | None = None

    def add(self, event: DeviceEvent) -> None:
        """Add work that has begun. Thread-safe. Waits for older work if there is much of it: a loop may have many turns."""
        with self._changing:
            self._events.append(event)
            many = len(self._events) > MOST_EVENTS
        if many:
            wait_for_device(partial(self._finish, MOST_EVENTS // 2), CURRENT.options, "its devices")

    def is_pending(self) -> bool:
        """Return True if nobody has waited for all of it yet."""
        return bool(self._events or self._after)

    def is_open(self) -> bool:
        """Return True if nobody has waited for all of it yet, or it failed."""
        return self.is_pending() or self.failure is not None

    def is_done(self) -> bool:
        """Return True if no wait for it would block."""
        return all(work.is_done() for work in self._after) and all(event.is_done() for event in list(self._events))

    def finish(self, options: RunOptions | None = None) -> DeviceFailure | None:
        """Wait for all of it and return the first failure. Raises RunTerminated."""
        if self.is_pending():
            wait_for_device(self._finish, options, "its devices")
        return self.failure

    def _finish(self, most: int | None = None) -> None:
        """Wait for the oldest events, `most` of them at most."""
        with self._changing:
            events, after = self._events[:most], list(self._after)
        for work in after:
            self._fail(work.finish())
        for event in events:
            try:
                event.wait(None)
            except OrtLiteError as error:
                self._fail(DeviceFailure(error))
        seen = set(map(id, events))
        with self._changing:
            self._events = [event for event in self._events if id(event) not in seen]
            self._after = []

    def finish_reads(self, options: RunOptions | None) -> None:
        """Wait for the copies that read memory of the host. Raises their errors, and RunTerminated."""
        for event in [event for event in self._events if event.from_host]:
            event.wait(options)

    def hand_over(self, provider: ExecutionProvider | None, options: RunOptions | None) -> None:
        """Let a provider's queue wait for all of it, or else the host. Raises the first error."""
        for event in list(self._events):
            if not waits_on_device(provider, event):
                self.finish(options)
                break
        if (failure := self.failure) is not None:
            raise failure.tell()

    def _fail(self, failure: DeviceFailure | None) -> None:
        with self._changing:
            self.failure = self.failure or failure

    def wait(self, options: RunOptions | None = None) -> None:
        """Wait for all of it. Raises the first error, unless it has been raised before, and RunTerminated."""
        failure = self.finish(options)
        if failure is not None and not failure.told:
            raise failure.tell()

    def require(self, options: RunOptions | None = None) -> None:
        """Wait for all of it, to read a result. Raises the first error, however often it has been raised, and RunTerminated."""
        if (failure := self.finish(options)) is not None:
            raise failure.tell()


class RunsInFlight:
    """The runs of a compiled model that have returned while a device still works."""

    def __init__(self) -> None:
        self._works: list[DeviceWork] = []
        self._changing = locks.lock()

    def begin(self, after: Iterable[DeviceWork], options: RunOptions | None) -> DeviceWork:
        """Return the work of a run that begins, and reads what `after` makes.

        Raises the first error of earlier runs that nobody has been told, and that of an input. Does not wait for them, unless too
        many are in flight.
        """
        works = list(self._works)
        done = list(takewhile(DeviceWork.is_done, works))
        self._wait(done or works[: max(0, len(works) - MOST_IN_FLIGHT + 1)], options)
        after = list(after)
        for failure in [work.failure for work in after if work.failure is not None]:
            raise failure.tell()
        return DeviceWork(after)

    def add(self, work: DeviceWork) -> None:
        """Add the work of a run that has returned."""
        if work.is_open():
            with self._changing:
                self._works.append(work)

    def wait(self, options: RunOptions | None = None) -> None:
        """Wait for all runs. Raises the first error that nobody has been told."""
        if self._works:
            self._wait(list(self._works), options)

    def _wait(self, works: list[DeviceWork], options: RunOptions | None) -> None:
        for work in works:
            work.finish(options)
        with self._changing:
            self._works = [work for work in self._works if work not in works]
        for work in works:
            work.wait(options)


def waits_on_device(provider: ExecutionProvider | None, event: DeviceEvent) -> bool:
    """Return True if the provider's queue now waits for the work, so that the host need not (see `wait_on_device`)."""
    if provider is None or type(provider).wait_on_device is ExecutionProvider.wait_on_device:
        return False
    return bool(ask(provider, "wait_on_device", event.notification, error=RuntimeException))


def leave_wait(event: DeviceEvent) -> None:
    """Leave the wait for work on a device to the end of the run, or wait now if this thread is in no run that would."""
    work: DeviceWork | None = CURRENT.work
    if work is None:
        event.wait(CURRENT.options)
    else:
        work.add(event)
