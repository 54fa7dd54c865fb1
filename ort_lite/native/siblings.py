"""Compiling processes that one of them has forked, once it had imported numba: that takes a quarter of a second. On Linux."""

import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

CAN_FORK = sys.platform == "linux" and hasattr(os, "pidfd_open")
_NUMBER = 8
"""Bytes of what a fork says first: its process's number."""


class Sibling:
    """One of them, for the process that wants it: it does what a subprocess.Popen does. Its parent is the process that forked it."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self._handle: int | None = None

    def greet(self) -> bool:
        """Waits until it is there; False if it is there no more, or never was."""
        with suppress(OSError):
            number = self.stdout.read(_NUMBER)
            if len(number) == _NUMBER:
                self._handle = os.pidfd_open(int.from_bytes(number, "little"))
                return True
        self.close()
        return False

    def kill(self) -> None:
        """Ends it at once."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> int:
        """Until it has ended."""
        if self._handle is not None:
            ended = select.poll()
            ended.register(self._handle, select.POLLIN)
            ended.poll()
            os.close(self._handle)
            self._handle = None
        self.returncode = 0
        return 0

    def close(self) -> None:
        """Ends what it was to be told: it leaves when it sees that."""
        for stream in (self.stdin, self.stdout):
            with suppress(OSError):
                stream.close()


def pipes(count: int) -> tuple[list[Sibling], list[tuple[int, int]]]:
    """Create pipes for so many siblings that do not exist yet, with the descriptors that they will use for input and output."""
    siblings, ends = [], []
    for _ in range(count):
        (read, write), (answers, answered) = os.pipe(), os.pipe()
        siblings.append(Sibling(os.fdopen(write, "wb"), os.fdopen(answers, "rb")))
        ends.append((read, answered))
    return siblings, ends


def fork(answers: int, ends: Sequence[tuple[int, int]]) -> int:
    """Returns in this process, with `answers`, and in a fork for each pair of ends, with the second of them; the first is its input.

    No process keeps a descriptor of another: whoever reads from one would not see it end.
    """
    for number, (requests, own) in enumerate(ends):
        if os.fork():
            os.close(requests)
            os.close(own)
            continue
        os.dup2(requests, 0)
        for other in (answers, requests, *(end for pair in ends[number + 1 :] for end in pair)):
            os.close(other)
        os.write(own, os.getpid().to_bytes(_NUMBER, "little"))
        return own
    return answers
