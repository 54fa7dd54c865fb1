"""Verification of a session's first run (`verify="first"`): runs are compared with the CPU provider until one passes."""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ort_lite import log
from ort_lite.compile.lifecycle import Run
from ort_lite.execute.execute import Executable
from ort_lite.memory import locks
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.plugins.rooms import hook
from ort_lite.session.ready import Ready


class FirstRun:
    """The verification of a compiled model's runs until one passes. Thread-safe.

    Runs that begin before one has passed are each verified in their own thread, so that none waits for another.
    """

    __slots__ = ("_checks", "_lock", "_options", "_passed", "_release", "_running", "_tell")

    def __init__(
        self, options: SessionOptions, checks: Any, tell: Callable[[Any], None], release: Callable[[], None] | None
    ) -> None:
        """`checks` are the tolerances and `tell` receives the reports.

        `release`, if any, is called once a run has passed and no other is being verified. It frees what only verification needs.
        """
        self._options, self._checks, self._tell, self._release = options, checks, tell, release
        self._lock, self._running, self._passed = locks.lock(), 0, False

    def wrap(self, ready: Ready, run: Run) -> Run:
        """Return a Run that verifies until one has passed, and then puts `run` back (see `Ready.wrap_runs`)."""
        return run if self._passed else partial(self._run, weakref.ref(ready), run)

    def _run(
        self,
        reference: "weakref.ref[Ready]",
        run: Run,
        inputs: Sequence[Any],
        options: RunOptions | None = None,
        *call: Any,
    ) -> list[Any]:
        ready = reference()
        assert ready is not None, "its caller holds it"
        outputs = self._verify(ready, inputs, options, *call) if self._begin() else run(inputs, options, *call)
        ready.restore_runs(run)
        ready.verifier = None
        return outputs

    def _verify(self, ready: Ready, inputs: Sequence[Any], options: RunOptions | None, *call: Any) -> list[Any]:
        def run_steps(executable: Executable) -> list[Any]:
            return ready.run_executable(executable, inputs, options, *call)

        passed = False
        try:
            outputs: list[Any] = hook("verify")(ready, self._options, self._checks, run_steps, self._hear)
            passed = True
        finally:
            self._end(passed)
        return outputs

    def _begin(self) -> bool:
        """Return True if the run has to be verified; `_end` must follow."""
        with self._lock:
            self._running += not self._passed
            return not self._passed

    def _end(self, passed: bool) -> None:
        with self._lock:
            self._passed = self._passed or passed
            self._running -= 1
            is_last = self._passed and not self._running
        if is_last and self._release is not None:
            self._release()

    def _hear(self, report: Any) -> None:
        """Pass the report on, and warn about what a run that passes has not compared."""
        self._tell(report)
        if report.ok and not report.failed and report.omissions:
            names = ", ".join(f"{each.name} ({each.skipped})" for each in report.omissions)
            log.warn(self._options, f"the first run was verified, but not all of it was compared: {names}")
