"""Throughput of the thread team against single-threaded runs side by side; costs of a run and of an instruction.

    python -m tests.benchmarks.bench_team

Prediction: a program of small parallel instructions gains nearly the number of threads, and two sessions that want all
cores at once lose nothing against two that want one each, since the second finds the workers taken.
"""

import threading
import time
from collections.abc import Callable

import numpy as np

from ort_lite.native import Spec, load
from ort_lite_cpu.loop import Job
from ort_lite_cpu.team import MAX_PARTS
from tests.cpu.team_kernels import work


class Program:
    """`count` instructions of `rounds` rounds and `parts` parts each, and a job of as many threads."""

    def __init__(self, count: int, rounds: int, parts: int, threads: int) -> None:
        [entry] = load([Spec(work, ("i64",))])
        self.output = np.ones(8 * MAX_PARTS, np.int64)
        self.descriptor = np.array([0, self.output.ctypes.data, rounds])
        self.table = np.array([[entry, self.descriptor.ctypes.data, parts, 0]] * count)
        self.memory = np.zeros(1, np.int64)
        self.count = count
        self.job = Job(threads)
        self.job.attach(self.table.ctypes.data, self.memory.ctypes.data, cost_us=1e9)

    def run(self) -> None:
        """One run."""
        assert self.job.run(0, self.count) == 0


def throughput(us: float, *threads: int) -> float:
    """Work a second of one Python thread for each number of threads, instructions of `us` a thread."""
    programs = [Program(200, int(count * us * RATE), count, count) for count in threads]
    done = [0] * len(programs)
    end = time.perf_counter() + 1

    def loop(number: int) -> None:
        while time.perf_counter() < end:
            programs[number].run()
            done[number] += threads[number]

    callers = [threading.Thread(target=loop, args=(number,)) for number in range(len(programs))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return float(sum(done))


def time_of(program: Program, repeats: int, statistic: Callable[[list[int]], float] = min) -> float:
    """Nanoseconds of one run."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        program.run()
        times.append(time.perf_counter_ns() - start)
    return float(statistic(times))


RATE = 1e9 / time_of(Program(1, 1_000_000, 1, 1), 20)  # rounds a microsecond


def main() -> None:
    """Prints the table."""
    empty = time_of(Program(0, 0, 1, 1), 20000)
    print(f"an empty run: {empty:.0f} ns, with a team of two {time_of(Program(0, 0, 2, 2), 20000):.0f} ns")
    for parts in (1, 2, 3, 4):
        program = Program(1000, 0, parts, parts)
        best, median = ((time_of(program, 2000, statistic) - empty) / 1000 for statistic in (min, np.median))
        print(f"an instruction of {parts} parts: {best:.1f} ns best, {median:.1f} median")
    print("us a thread   2   2+2   2+1   4   4+4   4+1")
    for us in (2, 20, 200):
        two, four = throughput(us, 1, 1), throughput(us, 1, 1, 1, 1)
        row = [throughput(us, 2) / two, throughput(us, 2, 2) / two, throughput(us, 2, 1) / two]
        row += [throughput(us, 4) / four, throughput(us, 4, 4) / four, throughput(us, 4, 1) / four]
        print(f"{us:11}", *(f"{value:5.2f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
