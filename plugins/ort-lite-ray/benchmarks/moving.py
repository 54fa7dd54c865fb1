"""Measure how long it takes to move a tensor: through Ray's object store, an actor's task, and a call between stages.

From the repository's root: python plugins/ort-lite-ray/benchmarks/moving.py
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import ray
from ort_lite_ray.calls import Calls, answer
from ort_lite_ray.tensors import MemoryFolder, copy_out, read, write
from ort_lite_ray.testing import cluster

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SECONDS = 0.5


class Echo:
    """An actor that returns what it gets, plus one."""

    def back(self, x: Any) -> Any:
        """Return x + 1."""
        return x + 1

    def listen(self, path: str) -> None:
        """Answer calls at a path, with tensors in files."""
        answer(lambda given, target: write(read(given) + 1, target), path)


def main() -> None:
    """Measure each way for each size and print the times."""
    with cluster():
        actor, memory = ray.remote(Echo).remote(), MemoryFolder()
        ray.get(actor.listen.remote(f"{memory.path}/echo"))
        calls = Calls(f"{memory.path}/echo")

        def call(x: Any) -> Any:
            with memory.run() as folder:
                return copy_out(calls((write(x, f"{folder}/there"), f"{folder}/back")))

        ways: dict[str, Callable[[Any], Any]] = {
            "put and get": lambda x: ray.get(ray.put(x)),
            "through an actor": lambda x: ray.get(actor.back.remote(x)),
            "through an actor by a call": call,
        }
        for name, way in ways.items():
            times = [f"{size} B {1e6 * measure(way, np.zeros(size // 4, np.float32)):.0f} us" for size in SIZES]
            print(f"{name}: {', '.join(times)}")


def measure(way: Callable[[Any], Any], x: Any) -> float:
    """Return the median seconds of moving x."""
    way(x)
    times, end = list[float](), time.perf_counter() + SECONDS
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        way(x)
        times.append(time.perf_counter() - begin)
    return median(times)


if __name__ == "__main__":
    main()
