"""The check of sessions in a forked child. Few drivers survive a fork, and most that do not wait forever."""

import os
import signal
import time
import warnings
from typing import Any

from ort_lite.errors import OrtLiteError
from ort_lite.testing.cases import Case
from ort_lite.testing.checks.tries import format_exception, new_sessions, problem, run_copy
from ort_lite.testing.kit import Finding, Kit

PATIENCE = 30.0
"""Seconds until a child that does not end counts as hanging."""
_ADVICE = "set outlives_fork = False"


def forks(kit: Kit) -> list[Finding]:
    """Check that a run in a forked child ends: with the right results, or with ort-lite's error if `outlives_fork` is False."""
    if not hasattr(os, "fork"):
        return []
    found = []
    for case, session in new_sessions(kit, 1):
        outlives = kit.host.provider(session).outlives_fork
        text = _in_child(kit, session, case, outlives)
        if text:
            found.append(Finding("forks", case.name, f"in a forked child {text}{f': {_ADVICE}' if outlives else ''}"))
    return found


def _in_child(kit: Kit, session: Any, case: Case, outlives: bool) -> str:
    """Run the session in a child and return what is wrong, or ""."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads at a fork are what the check is about
        child = os.fork()
    if not child:
        status = 1
        try:
            text = _wrong(kit, session, case, outlives)
            os.write(sink, text.encode(errors="replace")[:4000])  # less than a pipe holds
            status = 0
        finally:
            os._exit(status)  # nothing else of the parent's happens here
    os.close(sink)
    ended = _wait(child)
    with open(source, encoding="utf-8", errors="replace") as pipe:
        said = pipe.read()
    return said if ended == 0 else "a run does not end" if ended is None else f"the process ends with {ended}"


def _wrong(kit: Kit, session: Any, case: Case, outlives: bool) -> str:
    got = run_copy(session, case.feed)
    if not outlives:
        expected = isinstance(got, OrtLiteError) and "does not outlive a fork" in str(got)
        return "" if expected else f"a run gave {format_exception(got) if isinstance(got, Exception) else 'results'}"
    text = problem(kit, got, case.expected, case)
    return "" if text is None else f"a run is wrong: {text}"


def _wait(child: int) -> int | None:
    """Return the child's exit status, or None for one that did not end in time, which is killed."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
