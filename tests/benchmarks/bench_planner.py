"""How close planners come to the lower bound, and what they cost: peak over the most bytes alive at once, and milliseconds.

python tests/benchmarks/bench_planner.py [FOLDER] [PROBLEM ...]      every .csv file of tests/data/planner, or of FOLDER

Prints a table in Markdown. `pip install omnimalloc` adds two columns: its portfolio, and its search with a second on one thread.
Times are the best of five, of one where the search takes a second.
"""

import csv
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np

from ort_lite.memory.planning import portfolio
from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.planner import GreedyMemoryPlanner

Columns = tuple[list[int], list[int], list[int]]
Method = Callable[[Columns], Callable[[], Sequence[int]]]
"""Columns (size, lower, upper) -> what is timed, which gives the offsets."""

SECONDS = 1.0
MOST_FOR_SEARCH = 20_000
"""Buffers above which SuperMalloc is left out: it takes 10 GB for Y_1."""


def read(path: Path) -> Columns:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    size, lower, upper = ([int(row[name]) for row in rows] for name in ("size", "lower", "upper"))
    return size, lower, upper


def greedy(columns: Columns) -> Callable[[], Sequence[int]]:
    return lambda: GreedyMemoryPlanner().pack(Blocks(*columns))


def by_size(columns: Columns) -> Callable[[], Sequence[int]]:
    def pack() -> Sequence[int]:
        blocks = Blocks(*columns)
        found: list[int] = blocks.first_fit(blocks.by_size(), blocks.near())[0].tolist()
        return found

    return pack


def auto(seconds: float) -> Method:
    def method(columns: Columns) -> Callable[[], Sequence[int]]:
        def pack() -> Sequence[int]:
            found: list[int] = portfolio.pack(Blocks(*columns), seconds=seconds)[0].tolist()
            return found

        return pack

    return method


def rival(make: Callable[[Any], Any]) -> Method:
    def method(columns: Columns) -> Callable[[], Sequence[int]]:
        omnimalloc = import_module("omnimalloc")
        rows = [omnimalloc.Allocation(k, size, a, b) for k, (size, a, b) in enumerate(zip(*columns, strict=True))]
        allocator = make(omnimalloc.allocators)
        return lambda: [a.offset for a in sorted(omnimalloc.allocate(rows, allocator), key=lambda a: a.id)]

    return method


def methods() -> dict[str, Method]:
    found = {"greedy": greedy, "by_size": by_size, "auto": auto(0), "auto, 1 s": auto(SECONDS)}
    if find_spec("omnimalloc") is None:
        return found
    return found | {
        "omnimalloc": rival(lambda all_: all_.OmniAllocator()),
        "its SuperMalloc, 1 s": rival(lambda all_: all_.SupermallocAllocator(timeout=SECONDS, num_threads=1)),
    }


def measured(method: Method, columns: Columns, times: int) -> tuple[float, float]:
    """(peak over bound, best milliseconds)."""
    pack = method(columns)
    best = float("inf")
    for _ in range(times):
        begin = perf_counter()
        offsets = pack()
        best = min(best, perf_counter() - begin)
    size, lower, upper = (np.array(column, np.int64) for column in columns)
    assert_disjoint(np.array(offsets, np.int64), size, lower, upper)
    return int((np.array(offsets) + size).max()) / Blocks(*columns).lower_bound(), best * 1e3


def assert_disjoint(offset: Any, size: Any, lower: Any, upper: Any) -> None:
    """No two blocks share a byte at a time; looks at each block's later neighbours."""
    order = np.argsort(lower, kind="stable")
    low, top, begin, end = offset[order], (offset + size)[order], lower[order], upper[order]
    for k in range(len(order)):
        stop = np.searchsorted(begin, end[k])
        others = slice(k + 1, stop)
        clash = (low[others] < top[k]) & (low[k] < top[others]) & (size[order][others] > 0 if size.min() == 0 else True)
        assert not clash.any(), f"blocks {order[k]} and {order[k + 1 + int(np.argmax(clash))]} overlap"


def main() -> None:
    arguments = sys.argv[1:]
    folder = Path(arguments.pop(0)) if arguments else Path(__file__).parents[1] / "data" / "planner"
    names = arguments or sorted((path.stem for path in folder.glob("*.csv")), key=lambda name: (len(name), name))
    chosen = methods()
    print("| problem | buffers |", " | ".join(chosen), "|")
    print("| --- |", " | ".join(["---:"] * (1 + len(chosen))), "|")
    found: dict[str, list[tuple[float, float]]] = {label: [] for label in chosen}
    for name in names:
        columns = read(folder / f"{name}.csv")
        cells = []
        for label, method in chosen.items():
            if label.startswith("its") and len(columns[0]) > MOST_FOR_SEARCH:
                cells.append("")
                continue
            slow = label.endswith("1 s") or len(columns[0]) > 10_000
            ratio, milliseconds = measured(method, columns, 1 if slow else 5)
            cells.append(f"{ratio:.3f} ({milliseconds:,.1f} ms)")
            if len(name) == 1:
                found[label].append((ratio, milliseconds))
        print(f"| {name} | {len(columns[0]):,} |", " | ".join(cells), "|", flush=True)
    if all(found.values()):
        cells = [f"{mean(r for r, _ in rows):.3f} (at most {max(t for _, t in rows):,.1f} ms)" for rows in found.values()]
        print("| mean of A to K | |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
