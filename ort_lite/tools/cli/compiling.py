"""Compile progress on standard error: a bar that disappears on a terminal, lines elsewhere."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ort_lite.native import progress


class Shown:
    """A listener that displays the progress of one compilation after another."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._said = False

    def __call__(self, seen: progress.Progress) -> None:
        if self._console.is_terminal:
            self._draw(seen)
        else:
            self._print(seen)

    def _draw(self, seen: progress.Progress) -> None:
        if seen.over and self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif not seen.over and seen.seconds >= progress.PATIENCE:
            if self._bar is None:
                columns = (TextColumn("compiling kernels"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
                self._bar = Progress(*columns, console=self._console, transient=True, auto_refresh=False)
                self._bar.add_task("")
                self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=seen.done, total=seen.total, refresh=True)

    def _print(self, seen: progress.Progress) -> None:
        if seen.over and self._said:
            self._console.print(progress.format_end(seen), soft_wrap=True)
        elif not seen.over and not self._said and seen.seconds >= progress.PATIENCE:
            self._console.print(f"compiling kernels: {seen.done} of {seen.total}", soft_wrap=True)
        self._said = not seen.over and seen.seconds >= progress.PATIENCE
