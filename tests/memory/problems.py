"""Packing problems for the tests of this folder, and the plainest way to solve and to judge them."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ort_lite.memory.planning.lifetimes import TensorLifetime
from ort_lite.memory.planning.requests import TensorRequest

DATA = Path(__file__).parents[1] / "data" / "planner"


@dataclass(frozen=True)
class Problem:
    """Sizes and half-open lifetimes."""

    size: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]

    @classmethod
    def read(cls, name: str) -> "Problem":
        with (DATA / f"{name}.csv").open() as file:
            rows = [(int(row["size"]), int(row["lower"]), int(row["upper"])) for row in csv.DictReader(file)]
        return cls(*(tuple(column) for column in zip(*rows, strict=True)))

    def requests(self, **options: Any) -> list[TensorRequest]:
        return [TensorRequest(f"t{i}", size, **options) for i, size in enumerate(self.size)]

    def lifetimes(self) -> dict[str, TensorLifetime]:
        pairs = zip(self.start, self.end, strict=True)
        return {f"t{i}": TensorLifetime(f"t{i}", start, end - 1) for i, (start, end) in enumerate(pairs)}

    def most_alive(self) -> int:
        live = [[s for s, a, b in zip(self.size, self.start, self.end, strict=True) if a <= t < b] for t in self.start]
        return max(map(sum, live), default=0)


@st.composite
def problems(draw: st.DrawFn, most: int = 12, largest: int = 40, times: int = 12) -> Problem:
    n = draw(st.integers(0, most))
    sizes = draw(st.lists(st.integers(0, largest), min_size=n, max_size=n))
    spans = draw(st.lists(st.tuples(st.integers(0, times), st.integers(1, times)), min_size=n, max_size=n))
    return Problem(tuple(sizes), tuple(a for a, _ in spans), tuple(a + length for a, length in spans))


def random_problem(seed: int, n: int, times: int, longest: int) -> Problem:
    random = np.random.default_rng(seed)
    start = random.integers(0, times, n)
    end = start + random.integers(1, longest + 1, n)
    return Problem(tuple(random.integers(1, 500, n).tolist()), tuple(start.tolist()), tuple(end.tolist()))


def first_fit(problem: Problem, order: Iterable[int], align: Sequence[int] | None = None, capacity: int = 1 << 62) -> list[int]:
    """Offsets, -1 where capacity is exceeded: tries 0 and the end of every neighbour, from below."""
    size, start, end = problem.size, problem.start, problem.end
    offsets = [0 if s == 0 else -1 for s in size]
    placed: list[int] = []
    for t in (t for t in order if size[t]):
        near = [(offsets[u], offsets[u] + size[u]) for u in placed if start[u] < end[t] and start[t] < end[u]]
        a = align[t] if align else 1
        tried = sorted({0, *(-(-top // a) * a for _, top in near)})
        at = next(x for x in tried if all(x + size[t] <= low or top <= x for low, top in near))
        if at + size[t] <= capacity:
            offsets[t] = at
            placed.append(t)
    return offsets


def peak_of(problem: Problem, offsets: Sequence[int]) -> int:
    return max((offset + size for offset, size in zip(offsets, problem.size, strict=True)), default=0)


def smallest_peak(problem: Problem) -> int:
    """Of all plans: first fit reaches every plan whose tensors cannot sink, by the order of its offsets."""
    return min(peak_of(problem, first_fit(problem, order)) for order in permutations(range(len(problem.size))))


def disjoint(spans: Iterable[tuple[int, int, int, int]]) -> bool:
    """Spans (offset, top, start, end exclusive): no byte has two owners at any time. Marks every byte at every time."""
    owned = [(byte, time) for low, top, start, end in spans for byte in range(low, top) for time in range(start, end)]
    return len(owned) == len(set(owned))
