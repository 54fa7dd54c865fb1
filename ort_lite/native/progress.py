"""Progress reports of compilation, to a listener on the thread that needs the kernels, or else to the terminal and the log."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from ort_lite import log
from ort_lite.log.progress_line import PATIENCE, ProgressLine


class Progress:
    """The progress of kernels compiled for one task, such as a session: `done` of `total`, which grows as more are needed."""

    def __init__(self, tell: "Tell") -> None:
        self.done = self.total = 0
        self.over = False
        """True once the task is finished."""
        self._tell = tell
        self._spent, self._since = 0.0, None

    _since: float | None

    @property
    def seconds(self) -> float:
        """The seconds spent compiling, or waiting for other processes that compile, without the session's other work."""
        return self._spent + (perf_counter() - self._since if self._since is not None else 0.0)

    @contextmanager
    def more(self, count: int) -> Iterator[None]:
        """Count more kernels, which are compiled within the block."""
        self.total += count
        self._since = perf_counter()
        self.tell()
        try:
            yield
        finally:
            self._spent, self._since = self.seconds, None

    def advance(self) -> None:
        """Count a kernel as done."""
        self.done += 1
        self.tell()

    def tell(self) -> None:
        """Report the current state."""
        self._tell(self)


Tell = Callable[[Progress], None]
"""A function that receives progress when compiling begins, goes on and ends, on the waiting thread, a few times a second."""


class _CurrentListener(threading.local):
    tell: Tell | None = None
    progress: Progress | None = None


_CURRENT = _CurrentListener()


@contextmanager
def listen(tell: Tell) -> Iterator[None]:
    """Report what this thread compiles within the block to `tell` instead of the log."""
    outer, _CURRENT.tell = _CURRENT.tell, tell
    try:
        yield
    finally:
        _CURRENT.tell = outer


@contextmanager
def piece(otherwise: Tell) -> Iterator[Progress]:
    """Begin a task and yield its Progress, reported to `otherwise` if there is no listener. Nested tasks share it."""
    if _CURRENT.progress is not None:
        yield _CURRENT.progress
        return
    made = _CURRENT.progress = Progress(_CURRENT.tell or otherwise)
    try:
        yield made
    finally:
        _CURRENT.progress = None
        made.over = True
        if made.total:
            made.tell()


class Reported:
    """Reports progress for whoever looks: a line on a terminal while it lasts, and one message in the log, at INFO, at the end.

    Work of less than a second is not reported. `severity` is that of a session, or its options.
    """

    def __init__(self, severity: log.Whose = -1) -> None:
        self._severity = severity
        self._line = ProgressLine("compiling kernels")

    def __call__(self, progress: Progress) -> None:
        if progress.over:
            self._line.close()
            if progress.seconds >= PATIENCE:
                log.info(self._severity, format_end(progress))
        elif progress.seconds >= PATIENCE:
            self._line.update("", progress.done, progress.total)
            self._line.show()


def format_end(progress: Progress) -> str:
    """Return the final message."""
    count = f"{progress.done} kernel{'' if progress.done == 1 else 's'}"
    if progress.done < progress.total:
        count = f"{progress.done} of {progress.total} kernels"
    return f"compiled {count} in {progress.seconds:.1f} s"
