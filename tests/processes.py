"""Processes that a test starts and signals: they hear Ctrl-C, and end with the test."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """Start a process in a session of its own, whose text streams are pipes where `options` say so, and kill its group at the end.

    SIGINT has its default effect there. A script starts what it runs in the background with SIGINT ignored, which the processes
    of such a test run would inherit. Call it from the main thread.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # exec resets a signal that has a handler
    try:
        process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
