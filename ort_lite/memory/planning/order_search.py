"""Local search over the orders of first fit: it moves blocks at the peak, and blocks in use at the same time, elsewhere."""

from ort_lite.memory.planning.packing import first_fit
from ort_lite.native.lang import pointer_i64
from ort_lite.native.marks import Ptr

TRIES = 24
"""The number of random guesses at a neighbour in time before the block at the peak itself is moved."""


def next_random(seed: int) -> int:
    """Return the next state of a linear congruential generator modulo 2^64, with Knuth's multiplier.

    Its high bits are the more random ones.
    """
    return seed * 6364136223846793005 + 1442695040888963407


def draw(seed: int, bound: int) -> int:
    """Return a number from 0 to `bound` - 1 derived from a state; `bound` is less than 2^31."""
    return (((seed >> 33) & ((1 << 30) - 1)) * bound) >> 30


def search_words(n: int, fit: int) -> int:
    """Return how many int64 words of scratch `improve` needs for n blocks, if `first_fit` needs `fit`."""
    return 2 * n + fit


def improve(
    order: int,
    n: int,
    size: int,
    start: int,
    end: int,
    align: int,
    near: int,
    peak: int,
    goal: int,
    steps: int,
    state: int,
    offset: int,
    scratch: int,
) -> int:
    """Try `steps` other orders, each one move away from the last accepted, and return the peak, which never rises.

    `order`, `offset` and `peak` are those of an earlier first fit; an order that is as good or better overwrites them. Stops when
    the peak reaches `goal`. state[0] is the random state, which continues across calls, so equal calls give equal results. Costs
    `steps` times `first_fit`, each of which ends at the first block above the peak.
    """
    orders, offsets, sizes, seeds = pointer_i64(order), pointer_i64(offset), pointer_i64(size), pointer_i64(state)
    trial, placed = pointer_i64(scratch), pointer_i64(scratch + 8 * n)
    seed = seeds[0]
    for _ in range(steps):
        if peak <= goal:
            break
        seed = next_random(seed)
        moved = at_the_peak(n, sizes, offsets, peak, seed)
        seed = next_random(seed)
        if draw(seed, 100) < 40:
            for _ in range(TRIES):
                seed = next_random(seed)
                other = draw(seed, n)
                if other != moved and live_together(other, moved, start, end):
                    moved = other
                    break
        position = 0
        while orders[position] != moved:
            position += 1
        seed = next_random(seed)
        earlier = position > 0 and draw(seed, 100) < 80
        seed = next_random(seed)
        target = draw(seed, position if earlier else n)
        rotate(orders, trial, n, position, target)
        found = first_fit(scratch, n, size, start, end, align, near, peak, 0, scratch + 8 * n, scratch + 16 * n)
        if found >= 0:
            peak = found
            for k in range(n):
                orders[k], offsets[k] = trial[k], placed[k]
    seeds[0] = seed
    return peak


def at_the_peak(n: int, sizes: Ptr, offsets: Ptr, peak: int, seed: int) -> int:
    """Return a random block among those that end at the peak."""
    count = 0
    for t in range(n):
        if offsets[t] + sizes[t] == peak:
            count += 1
    chosen = draw(seed, count)
    for t in range(n):
        if offsets[t] + sizes[t] == peak:
            if chosen == 0:
                return t
            chosen -= 1
    return 0


def live_together(t: int, u: int, start: int, end: int) -> bool:
    """Return True if two blocks are in use at the same time."""
    starts, ends = pointer_i64(start), pointer_i64(end)
    together: bool = starts[t] < ends[u] and starts[u] < ends[t]
    return together


def rotate(source: Ptr, target: Ptr, n: int, position: int, to: int) -> None:
    """Copy n entries, moving the one at `position` to `to`."""
    moved = source[position]
    low, high = min(position, to), max(position, to)
    for k in range(n):
        if k < low or k > high:
            target[k] = source[k]
        elif to < position:
            target[k] = moved if k == to else source[k - 1]
        else:
            target[k] = moved if k == to else source[k + 1]
