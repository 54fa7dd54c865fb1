"""Choosing what lives in a limited memory, and when: windows of tensors, by the accesses to slower memory that they save.

A tensor is accessed at some operators. Between two accesses, it may stay in the memory (a gap that is kept) or not. Gaps are kept by
saved accesses per operator and byte, as long as all that live at once fit. A planner packs them, and first fit fills the holes.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ort_lite.memory.planning.block_kernels import Blocks
from ort_lite.memory.planning.neighbours import Words
from ort_lite.memory.planning.packing import LIMIT
from ort_lite.memory.planning.planner import MemoryPlanner, pack_blocks

SHARES = (1.0, 0.9, 0.75, 0.5, 0.0)
"""Shares of a memory that gaps may fill, tried in turn, until what must be in it has a place."""


class TensorCandidate(NamedTuple):
    """A tensor that may live in the memory. `accesses` are operators, ascending.

    It must be there at the operators in `needed`. If `whole`, it is there from the first access to the last, or never. If `stored`,
    its bytes are in another memory in any case.
    """

    name: str
    size: int
    alignment: int
    accesses: tuple[int, ...]
    needed: frozenset[int] = frozenset()
    whole: bool = False
    stored: bool = False

    def gaps(self) -> list[tuple[int, int]]:
        """Return the pairs of accesses between which it may stay."""
        if self.whole or len(self.accesses) == 1:
            return [(self.accesses[0], self.accesses[-1])]
        return list(pairwise(self.accesses))

    def savings(self) -> float:
        """Return the accesses that a kept gap saves: the first write too, if all are kept."""
        gaps = 1 if self.whole else max(1, len(self.accesses) - 1)
        reads = max(0, len(self.accesses) - 1)
        return (reads + (not self.stored)) / gaps


class MemoryWindow(NamedTuple):
    """The operators `first` to `last`, both inclusive, for which a candidate is in the memory."""

    candidate: int
    first: int
    last: int


class Crowded(Exception):
    """An error: these candidates must be in the memory at one operator, and do not fit."""

    def __init__(self, operator: int, candidates: Sequence[TensorCandidate]) -> None:
        self.operator = operator
        self.names = [one.name for one in candidates if operator in one.needed]
        self.size = sum(one.size for one in candidates if operator in one.needed)


def place(planner: MemoryPlanner, candidates: Sequence[TensorCandidate], capacity: int) -> list[tuple[MemoryWindow, int]]:
    """Return disjoint windows with their offsets in `capacity` bytes; whatever has none stays elsewhere.

    Raises Crowded if candidates do not fit where they are needed. O(gaps * operators), and the planner's time.
    """
    windows = [MemoryWindow(k, one.accesses[0], one.accesses[-1]) for k, one in enumerate(candidates) if _gains(one)]
    offsets = _pack(planner, candidates, windows)
    if all(at + candidates[window.candidate].size <= capacity for window, at in zip(windows, offsets.tolist(), strict=True)):
        return list(zip(windows, offsets.tolist(), strict=True))
    ranked, offsets = _rank_gaps(candidates), _pack(planner, candidates, windows, capacity)
    whole = _fill_holes(candidates, ranked, windows, offsets, capacity)
    missing = _missing(candidates, whole)
    for share in SHARES:
        windows = _join_gaps(candidates, _select_gaps(candidates, ranked, capacity, share))
        offsets = _pack(planner, candidates, windows, capacity)
        found = _fill_holes(candidates, ranked, windows, offsets, capacity)
        if _missing(candidates, found) is None:
            return found if missing is not None or _savings(candidates, found) > _savings(candidates, whole) else whole
    if missing is None:
        return whole
    raise Crowded(missing, candidates)


def _savings(candidates: Sequence[TensorCandidate], found: Sequence[tuple[MemoryWindow, int]]) -> int:
    """Return the bytes of accesses to slower memory that windows save, less those of their moves."""
    total = 0
    for window, _ in found:
        one = candidates[window.candidate]
        inside = sum(window.first <= access <= window.last for access in one.accesses)
        is_all = inside == len(one.accesses) and not one.stored
        total += one.size * (inside - (not is_all))
    return total


def _gains(one: TensorCandidate) -> bool:
    return one.savings() > 0 or bool(one.needed)


def _rank_gaps(candidates: Sequence[TensorCandidate]) -> list[MemoryWindow]:
    """Return all gaps that save accesses, the best first."""
    gaps = [
        (one.savings() / (last - first + 1), one.size, MemoryWindow(k, first, last))
        for k, one in enumerate(candidates)
        if one.savings() > 0
        for first, last in one.gaps()
    ]
    return [gap for _, _, gap in sorted(gaps, key=lambda each: (-each[0], -each[1], each[2]))]


def _select_gaps(
    candidates: Sequence[TensorCandidate], ranked: Sequence[MemoryWindow], capacity: int, share: float
) -> list[MemoryWindow]:
    """Return the gaps to keep, so that at most `capacity` bytes live at once, and a `share` of it where nothing is needed."""
    first = min(one.accesses[0] for one in candidates)
    live = np.zeros(max(one.accesses[-1] for one in candidates) - first + 1, np.int64)
    held = [set(one.needed) for one in candidates]
    for one in candidates:
        for access in one.needed:
            live[access - first] += one.size
    if live.max() > capacity:
        raise Crowded(int(live.argmax()) + first, candidates)
    kept = []
    for gap in ranked:
        size, ends = candidates[gap.candidate].size, held[gap.candidate]
        begin, end = gap.first - first + (gap.first in ends), gap.last - first + (gap.last not in ends)
        if share and (begin >= end or live[begin:end].max() + size <= capacity * share):
            live[begin:end] += size
            ends.update(gap[1:])
            kept.append(gap)
    return kept


def _join_gaps(candidates: Sequence[TensorCandidate], kept: Iterable[MemoryWindow]) -> list[MemoryWindow]:
    """Return kept gaps that share an access as one window, and a window for each needed operator that is in none."""
    parts = defaultdict(list)
    for gap in kept:
        parts[gap.candidate].append(gap)
    for k, one in enumerate(candidates):
        parts[k] += [MemoryWindow(k, access, access) for access in one.needed]
    joined: list[MemoryWindow] = []
    for k in sorted(parts):
        for part in sorted(parts[k]):
            if joined and joined[-1].candidate == k and part.first <= joined[-1].last:
                joined[-1] = MemoryWindow(k, joined[-1].first, max(part.last, joined[-1].last))
            else:
                joined.append(part)
    return joined


def _blocks(candidates: Sequence[TensorCandidate], windows: Sequence[MemoryWindow]) -> Blocks:
    own = [candidates[window.candidate] for window in windows]
    starts, ends = [window.first for window in windows], [window.last + 1 for window in windows]
    return Blocks([one.size for one in own], starts, ends, [one.alignment for one in own])


def _pack(
    planner: MemoryPlanner, candidates: Sequence[TensorCandidate], windows: Sequence[MemoryWindow], capacity: int = LIMIT
) -> Words:
    names = [candidates[window.candidate].name for window in windows]
    return pack_blocks(planner, _blocks(candidates, windows), names, capacity)


def _fill_holes(
    candidates: Sequence[TensorCandidate],
    ranked: Sequence[MemoryWindow],
    windows: Sequence[MemoryWindow],
    offsets: Words,
    capacity: int,
) -> list[tuple[MemoryWindow, int]]:
    """Return packed windows, and more in the holes: what did not fit, needed operators first, then gaps by rank.

    First fit in the order of offsets moves no packed window up.
    """
    order = [k for k in np.argsort(offsets, kind="stable").tolist() if offsets[k] >= 0]
    packed = [windows[k] for k in order]
    taken: dict[int, list[MemoryWindow]] = defaultdict(list)
    for window in packed:
        taken[window.candidate].append(window)

    def is_free(one: MemoryWindow) -> bool:
        return all(one.last < other.first or other.last < one.first for other in taken[one.candidate])

    needed = [MemoryWindow(k, access, access) for k, one in enumerate(candidates) for access in sorted(one.needed)]
    more = [one for one in (*needed, *ranked) if is_free(one)]
    tried = [*packed, *more]
    blocks = _blocks(candidates, tried)
    found, _ = blocks.first_fit(np.arange(len(tried), dtype=np.int64), blocks.near(), capacity)
    result = list(zip(packed, found[: len(packed)].tolist(), strict=True))
    for window, offset in zip(more, found[len(packed) :].tolist(), strict=True):
        if offset >= 0 and is_free(window):
            taken[window.candidate].append(window)
            result.append((window, offset))
    return sorted(result)


def _missing(candidates: Sequence[TensorCandidate], found: Sequence[tuple[MemoryWindow, int]]) -> int | None:
    """Return an operator at which a candidate is needed and not in the memory."""
    windows = defaultdict(list)
    for window, _ in found:
        windows[window.candidate].append(window)
    for k, one in enumerate(candidates):
        for access in one.needed:
            if not any(window.first <= access <= window.last for window in windows[k]):
                return access
    return None
