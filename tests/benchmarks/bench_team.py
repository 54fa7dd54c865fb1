"""Throughput of the thread team against single-threaded runs side by side; costs of a run and of an instruction.

    python -m tests.benchmarks.bench_team

Prediction: a program of small parallel instructions gains nearly the number of threads, and two callers that want two
threads each get the work of three done, not less than that of two: the second finds the worker taken and goes alone.
"""

import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np

from ort_lite_cpu.run.work_item import MAX_PARTS
from tests.cpu.programs import Program, Step, work


def program(count: int, rounds: int, parts: int, threads: int) -> Program:
    """`count` instructions of `rounds` rounds of arithmetic in `parts` parts, run by `threads` threads."""
    return Program([Step(work, [np.ones(8 * MAX_PARTS, np.int64)], [rounds], parts)] * count, threads)


def time_of(run: Program, repeats: int, statistic: Callable[[list[int]], float] = min) -> float:
    """Nanoseconds of one run."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        run.run()
        times.append(time.perf_counter_ns() - start)
    return float(statistic(times))


@cache
def rounds_per_us() -> float:
    """Of one thread that has the machine for itself."""
    return 1e9 / time_of(program(1, 1_000_000, 1, 1), 20)


def throughput(us: float, *threads: int, split: int = 1) -> float:
    """Work a second of one caller for each number of threads; instructions of `us` a thread, `split` parts a thread."""
    runs = [program(200, int(count * us * rounds_per_us()), count * split, count) for count in threads]
    done = [0] * len(runs)
    end = time.perf_counter() + 1

    def loop(number: int) -> None:
        while time.perf_counter() < end:
            runs[number].run()
            done[number] += threads[number]

    callers = [threading.Thread(target=loop, args=(number,)) for number in range(len(runs))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return float(sum(done))


def main() -> None:
    """Prints the tables."""
    empty = time_of(program(0, 0, 1, 1), 20000)
    print(f"an empty run: {empty:.0f} ns; with a team of two: {time_of(program(0, 0, 2, 2), 20000):.0f} ns")
    for parts in (1, 2, 3, 4):
        run = program(1000, 0, parts, parts)
        best, median = ((time_of(run, 2000, statistic) - empty) / 1000 for statistic in (min, np.median))
        print(f"an instruction of {parts} parts: {best:.1f} ns best, {median:.1f} median")
    print("throughput against as many single-threaded runs as the first has threads; callers' threads:")
    print("us a thread    2   2+2   2+1     4   4+4   4+1   4, four parts a thread")
    for us in (2, 20, 200):
        two, four = throughput(us, 1, 1), throughput(us, 1, 1, 1, 1)
        row = [throughput(us, *threads) / two for threads in ((2,), (2, 2), (2, 1))]
        row += [throughput(us, *threads) / four for threads in ((4,), (4, 4), (4, 1))]
        row += [throughput(us, 4, split=4) / four]
        print(f"{us:10}", *(f"{value:5.2f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
