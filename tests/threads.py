"""Threads that a test waits for."""

from typing import Protocol


class Worker(Protocol):
    """A thread or a process of multiprocessing."""

    def join(self, timeout: float, /) -> None: ...
    def is_alive(self) -> bool: ...


def join(worker: Worker, seconds: float = 60) -> None:
    """Wait for a thread or a process to end. Fails after so many seconds."""
    worker.join(seconds)
    assert not worker.is_alive(), f"{worker} does not end"
