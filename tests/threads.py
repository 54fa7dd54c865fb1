"""Threads that a test waits for."""

import threading
from collections.abc import Callable
from typing import Protocol


class Worker(Protocol):
    """A thread or a process of multiprocessing."""

    def join(self, timeout: float, /) -> None: ...
    def is_alive(self) -> bool: ...


def join(worker: Worker, seconds: float = 60) -> None:
    """Wait for a thread or a process to end. Fails after so many seconds."""
    worker.join(seconds)
    assert not worker.is_alive(), f"{worker} does not end"


def run_together(work: Callable[[int], object], count: int, seconds: float = 120) -> None:
    """Call `work(number)` in `count` threads at once. Raises what the first of them raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(number: int) -> None:
        try:
            start.wait(60)
            work(number)
        except BaseException as error:  # noqa: BLE001  raised below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread, seconds)
    if failures:
        raise failures[0]
