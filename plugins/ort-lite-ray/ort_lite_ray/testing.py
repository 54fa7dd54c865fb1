"""Helpers of tests and the demo: a small cluster on this host, and ways to kill its workers in the middle of their work."""

import logging
import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def cluster(num_cpus: int = 3, object_store_memory: int = 200_000_000) -> Iterator[None]:
    """Run Ray on this host, with `object_store_memory` bytes of shared memory, until the end of the block.

    The default of three processors is two for workers and one for reading.
    """
    import ray
    from ray.data import DataContext

    ray.init(
        num_cpus=num_cpus,
        object_store_memory=object_store_memory,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    DataContext.get_current().enable_progress_bars = False
    try:
        yield
    finally:
        ray.shutdown()


def workers(title: str, pid: int | None = None) -> list[int]:
    """Return the process ids of cluster workers whose title contains `title`, started by process `pid` (default: this one)."""
    parents = dict(_processes())
    found = []
    for process in parents:
        ancestor = process
        while ancestor in parents:
            ancestor = parents[ancestor]
            if ancestor == (pid or os.getpid()) and title in _title(process):
                found.append(process)
                break
    return sorted(found)


class Killer:
    """A context that kills a random worker about every `seconds` by SIGKILL, at most `most` of them. `killed` lists their titles."""

    def __init__(self, titles: Sequence[str], seconds: float, most: int, seed: int = 0) -> None:
        self.killed: list[str] = []
        self._titles, self._seconds, self._most, self._random = titles, seconds, most, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while len(self.killed) < self._most and not self._over.wait(self._seconds * self._random.uniform(0.5, 1.5)):
            found = [pid for title in self._titles for pid in workers(title)]
            if found:
                chosen = self._random.choice(found)
                with suppress(ProcessLookupError):
                    title = _title(chosen)
                    os.kill(chosen, signal.SIGKILL)
                    self.killed.append(title)


def _processes() -> Iterator[tuple[int, int]]:
    """Yield each process and its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                text = (folder / "stat").read_text()
                yield int(folder.name), int(text[text.rindex(")") :].split()[2])


def _title(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    return ""
