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


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Call `work` with each number below `count` in a thread of its own. Fails if one raises, or does not end."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert failures == []
