"""Jobs of the playground: one at a time, on its own thread, with progress and cancellation."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from ort_lite.compat.ort_options import RunOptions
from ort_lite.errors import Cancelled, InvalidArgument, OrtLiteError
from ort_lite.native.progress import Progress, listen
from ort_lite.native.threads import start
from ort_lite.provider.current import stop_with_run

State = Literal["running", "done", "failed", "ended"]


class Busy(InvalidArgument):
    """Another job is running."""


class PlaygroundJob:
    """One job. `said` is a sentence about its progress or its failure; `result` is set when it is done."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: State = "running"
        self.said = "Starting."
        self.result: dict[str, Any] = {}
        self.run_options = RunOptions()
        self.thread: threading.Thread | None = None
        self._start = time.perf_counter()
        self._seconds: float | None = None

    def say(self, text: str) -> None:
        """Report progress. Raises Cancelled if the job was cancelled."""
        if self.run_options.terminate:
            raise Cancelled("ended, as it was asked for")
        self.said = text

    def hear(self, progress: Progress) -> None:
        """Report compile progress. A cancelled job finishes the kernels being compiled and starts no more."""
        if not progress.over:
            self.say(f"Compiling kernels: {progress.done} of {progress.total}.")

    def end(self) -> None:
        """Cancel the job: at the next checkpoint of session creation, or immediately during a run."""
        self.run_options.terminate = True

    def work(self, call: Callable[["PlaygroundJob"], dict[str, Any]]) -> None:
        """Run the job. Errors of a model or an installation become a sentence for the page."""
        try:
            with listen(self.hear), stop_with_run(self.run_options):
                self.result = call(self)
            self._over("done", "Done.")
        except (OrtLiteError, OSError) as error:
            # A job that is ended while it compiles arrives as the failure of a partition.
            if self.run_options.terminate or isinstance(error, Cancelled):
                self._over("ended", "Ended, as it was asked for.")
            else:
                self._over("failed", f"{type(error).__name__}: {error}")
        except MemoryError:
            self._over("failed", "MemoryError: the model takes more memory than there is.")
        except Exception as error:  # noqa: BLE001  a provider's own: the playground goes on, and says whose it is
            self._over("failed", f"{type(error).__name__}, which is no error of ort_lite's: {error}")

    def _over(self, state: State, said: str) -> None:
        self._seconds, self.said = time.perf_counter() - self._start, said
        self.state = state  # last: who sees it finds the rest

    def as_dict(self) -> dict[str, Any]:
        """Return the state of the job as plain data."""
        seconds = time.perf_counter() - self._start if self._seconds is None else self._seconds
        return {"number": self.number, "state": self.state, "said": self.said, "seconds": seconds}


class Jobs:
    """The jobs of a playground, of which at most one runs. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.last: PlaygroundJob | None = None

    def start(self, call: Callable[[PlaygroundJob], dict[str, Any]]) -> PlaygroundJob:
        """Start a job. Raises Busy while another one runs, and RuntimeException if no thread can start."""
        with self._lock:
            if self.last is not None and self.last.state == "running":
                raise Busy("the playground does one thing at a time: wait for it, or end it")
            job = PlaygroundJob(1 if self.last is None else self.last.number + 1)
            job.thread = start("this piece of work", partial(job.work, call), f"playground job {job.number}")
            self.last = job
            return job

    def close(self, seconds: float) -> bool:
        """Cancel the running job and wait up to `seconds` for it. Returns True if no job runs any more."""
        job = self.last
        if job is None or job.thread is None:
            return True
        job.end()
        job.thread.join(seconds)
        return not job.thread.is_alive()
