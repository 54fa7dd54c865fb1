"""Reports of compile progress: to listeners in the thread that needs the kernels, or else to the log."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from ort_lite import log

PATIENCE = 1.0
"""Seconds of compiling before anybody is told of it."""
_BETWEEN = 10.0


class Progress:
    """Kernels that are compiled for one piece of work, such as a session: `done` of `total`, which grows as more are needed."""

    def __init__(self, tell: "Tell") -> None:
        self.done = self.total = 0
        self.over = False
        """Nothing more comes."""
        self._tell = tell
        self._spent, self._since = 0.0, None

    _since: float | None

    @property
    def seconds(self) -> float:
        """Spent on compiling, and on waiting for others who compile; not on what a session does in between."""
        return self._spent + (perf_counter() - self._since if self._since is not None else 0.0)

    @contextmanager
    def more(self, count: int) -> Iterator[None]:
        """Count so many more kernels that are compiled inside."""
        self.total += count
        self._since = perf_counter()
        self.tell()
        try:
            yield
        finally:
            self._spent, self._since = self.seconds, None

    def advance(self) -> None:
        """One more is done."""
        self.done += 1
        self.tell()

    def tell(self) -> None:
        """Time has passed."""
        self._tell(self)


Tell = Callable[[Progress], None]
"""Called when compiling begins, goes on and is over, in the thread that waits for it; a few times a second."""


class _CurrentListener(threading.local):
    tell: Tell | None = None
    progress: Progress | None = None


_CURRENT = _CurrentListener()


@contextmanager
def listen(tell: Tell) -> Iterator[None]:
    """Inside, `tell` hears of what this thread needs compiled, and the logger does not."""
    outer, _CURRENT.tell = _CURRENT.tell, tell
    try:
        yield
    finally:
        _CURRENT.tell = outer


@contextmanager
def piece(otherwise: Tell) -> Iterator[Progress]:
    """One piece of work: the Progress of the kernels that this thread needs inside, told to `otherwise` where nobody listens. A piece
    of a piece is the same.
    """
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


class Logged:
    """Tells the logger, at INFO: after a second, then every ten, and at the end. `severity` is a session's, or its options."""

    def __init__(self, severity: log.Whose = -1) -> None:
        self._severity = severity
        self._next = PATIENCE

    def __call__(self, progress: Progress) -> None:
        if progress.over and self._next > PATIENCE:
            log.info(self._severity, format_end(progress))
        elif progress.seconds >= self._next:
            self._next = progress.seconds + _BETWEEN
            log.info(self._severity, f"compiling kernels: {progress.done} of {progress.total} after {progress.seconds:.1f} s")


def format_end(progress: Progress) -> str:
    """Report the end."""
    count = f"{progress.done} kernel{'' if progress.done == 1 else 's'}"
    if progress.done < progress.total:
        count = f"{progress.done} of {progress.total} kernels"
    return f"compiled {count} in {progress.seconds:.1f} s"
