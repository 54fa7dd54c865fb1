"""The progress of a session's creation on a terminal: its stage, and the kernels that are compiled."""

from collections.abc import Iterator
from contextlib import contextmanager

from ort_lite import log
from ort_lite.log.events import Stream, Subscriber
from ort_lite.log.progress_line import ProgressLine, is_wanted
from ort_lite.native.progress import Progress, Reported, piece


class CreationLine(Subscriber):
    """Shows the stages of a session's event stream, and the progress of compilation, in a progress line."""

    def __init__(self, line: ProgressLine, severity: log.Whose) -> None:
        self._line, self._report = line, Reported(severity)

    def on_begin(self, name: str) -> None:
        """Show the stage that begins."""
        self._line.update(name.replace("_", " "))

    def on_progress(self, progress: Progress) -> None:
        """Show the kernels that are done. At the end, they are logged."""
        if progress.over:
            self._report(progress)
        else:
            self._line.update("compiling kernels", progress.done, progress.total)


@contextmanager
def show_creation(events: Stream, severity: log.Whose) -> Iterator[None]:
    """Report what a session's creation does within the block: on a terminal while it lasts, and in the log at its end."""
    if not is_wanted():
        with piece(Reported(severity)):
            yield
        return
    with ProgressLine("creating the session") as line:
        subscriber = CreationLine(line, severity)
        events.subscribe(subscriber)
        try:
            with piece(subscriber.on_progress):
                yield
        finally:
            events.unsubscribe(subscriber)
