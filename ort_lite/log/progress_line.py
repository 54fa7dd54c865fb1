"""A line on a terminal that shows how far long work is. It appears after a second and disappears at the end."""

import os
import sys
import threading
from types import TracebackType
from typing import Any, ClassVar, Self

PATIENCE = 1.0
"""Seconds of work after which the line appears."""


class _Setting:
    enabled = True


def set_default_progress(enabled: bool) -> None:
    """Turn the progress lines of this process on or off. They are on by default, and appear on a terminal only."""
    _Setting.enabled = enabled


def is_wanted() -> bool:
    """Return True if progress lines are on and standard error is a terminal."""
    return _Setting.enabled and sys.stderr is not None and sys.stderr.isatty()


class ProgressLine:
    """A line with a title, the current step, and a bar and the time left if the number of steps is known.

    A context manager: within the block, the line appears on standard error after a second, if it is a terminal. Only one line is
    shown at a time; a line inside another one stays hidden. `update` may be called on any thread.
    """

    _visible: ClassVar["ProgressLine | None"] = None
    _lock: ClassVar[threading.RLock] = threading.RLock()

    def __init__(self, title: str) -> None:
        self._title, self._step = title, ""
        self._done: int | None = None
        self._total: int | None = None
        self._timer: threading.Timer | None = None
        self._bar: Any = None

    def __enter__(self) -> Self:
        if is_wanted():
            self._timer = threading.Timer(PATIENCE, self.show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.close()

    def update(self, step: str = "", done: int | None = None, total: int | None = None) -> None:
        """Set what is shown: the current step, and the number of steps that are done and of all."""
        self._step, self._done, self._total = step, done, total
        if self._bar is None:
            return
        with self._lock:
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=self._text(), completed=done or 0, total=total)

    def show(self) -> None:
        """Show the line now, if it is wanted and no other one is visible."""
        if self._bar is not None or not is_wanted():
            return
        with self._lock:
            if ProgressLine._visible is None:
                ProgressLine._visible, self._bar = self, _bar()
                self._bar.add_task(self._text(), completed=self._done or 0, total=self._total)
                self._bar.start()

    def close(self) -> None:
        """Remove the line."""
        if self._bar is None:
            return
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                ProgressLine._visible, self._bar = None, None

    def _text(self) -> str:
        return f"{self._title}: {self._step}" if self._step else self._title


def _forget_parent() -> None:
    """Forget the line that the parent of a forked process shows, and a lock that one of its threads may have held."""
    ProgressLine._visible, ProgressLine._lock = None, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


def _bar() -> Any:
    """Return a bar of `rich`, which only long work on a terminal imports."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True, refresh_per_second=4)
