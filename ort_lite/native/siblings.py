"""Compiling processes forked from one that has imported numba, which takes a quarter of a second. On Linux only."""

import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

CAN_FORK = sys.platform == "linux" and hasattr(os, "pidfd_open")
_NUMBER = 8
"""The size in bytes of a fork's first message: its process id."""


class Sibling:
    """A forked process, with the interface of subprocess.Popen. Its parent is the process that forked it."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self._handle: int | None = None

    def greet(self) -> bool:
        """Wait until the process has started. Return False if it has ended or never started."""
        with suppress(OSError):
            number = self.stdout.read(_NUMBER)
            if len(number) == _NUMBER:
                self._handle = os.pidfd_open(int.from_bytes(number, "little"))
                return True
        self.close()
        return False

    def kill(self) -> None:
        """Kill the process."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the process has ended."""
        if self._handle is not None:
            ended = select.poll()
            ended.register(self._handle, select.POLLIN)
            ended.poll()
            os.close(self._handle)
            self._handle = None
        self.returncode = 0
        return 0

    def close(self) -> None:
        """Close its input and output, upon which it exits."""
        for stream in (self.stdin, self.stdout):
            with suppress(OSError):
                stream.close()


def pipes(count: int) -> tuple[list[Sibling], list[tuple[int, int]]]:
    """Create pipes for `count` siblings that do not exist yet.

    Return the siblings, and the descriptors that each will use for input and output.
    """
    siblings, ends = [], []
    for _ in range(count):
        (read, write), (answers, answered) = os.pipe(), os.pipe()
        siblings.append(Sibling(os.fdopen(write, "wb"), os.fdopen(answers, "rb")))
        ends.append((read, answered))
    return siblings, ends


def fork(answers: int, ends: Sequence[tuple[int, int]]) -> int:
    """Fork a process for each pair of ends. Return `answers` in this process, and the second end of its pair in each fork.

    The first end becomes the standard input of the fork. No process keeps another's descriptors: a reader would otherwise never see
    the end of its stream.
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
