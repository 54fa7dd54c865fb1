"""An order of operators in which less is alive at the worst moment. Packing cannot do that: it takes lifetimes as given."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ort_lite.memory.planning.live import max_live
from ort_lite.native.checkpoint import checkpoint

Tensor = Hashable

MOST_COMPARISONS = 10_000_000
"""A search that compares more operators than this finds no order. It takes a few seconds."""


def peak_of(order: Sequence[int], uses: Sequence[Sequence[Tensor]], sizes: Mapping[Any, int]) -> int:
    """The most bytes alive at once: tensors live from the first operator of `order` that uses them to the last. O(uses)."""
    first: dict[Tensor, int] = {}
    last: dict[Tensor, int] = {}
    for time, operator in enumerate(order):
        for tensor in uses[operator]:
            first.setdefault(tensor, time)
            last[tensor] = time
    return max_live((first[tensor], last[tensor] + 1, sizes.get(tensor, 0)) for tensor in first)


def reorder(uses: Sequence[Sequence[Tensor]], sizes: Mapping[Any, int]) -> list[int] | None:
    """An order of operators whose peak is lower than that of the order given, or None where the search finds none.

    `uses[i]`: the tensors that operator i reads or writes. Those that use one tensor keep their order among themselves, so
    nobody need know who writes. Greedy: of the operators that are ready, the one that adds the fewest bytes to what is alive,
    the first of equals. O(operators * ready operators), up to MOST_COMPARISONS. A checkpoint for each operator.
    """
    after, waits = _dependencies(uses)
    left = {tensor: 0 for own in uses for tensor in own}
    for own in uses:
        for tensor in dict.fromkeys(own):
            left[tensor] += 1
    ready = [k for k, count in enumerate(waits) if not count]
    alive: set[Tensor] = set()
    order: list[int] = []
    compared = 0
    while ready:
        checkpoint()
        compared += len(ready)
        if compared > MOST_COMPARISONS:
            return None
        chosen = min(ready, key=lambda k: (_growth(uses[k], sizes, alive, left), k))
        ready.remove(chosen)
        order.append(chosen)
        for tensor in dict.fromkeys(uses[chosen]):
            alive.add(tensor)
            left[tensor] -= 1
        for k in after[chosen]:
            waits[k] -= 1
            if not waits[k]:
                ready.append(k)
    return order if peak_of(order, uses, sizes) < peak_of(range(len(uses)), uses, sizes) else None


def _growth(own: Sequence[Tensor], sizes: Mapping[Any, int], alive: set[Tensor], left: dict[Tensor, int]) -> int:
    """Bytes that come alive with an operator, less those that die with it."""
    added = 0
    for tensor in dict.fromkeys(own):
        size = sizes.get(tensor, 0)
        added += size * (tensor not in alive) - size * (left[tensor] == 1)
    return added


def _dependencies(uses: Sequence[Sequence[Tensor]]) -> tuple[list[list[int]], list[int]]:
    """Return the followers of each operator, and how many operators each one follows."""
    after: list[list[int]] = [[] for _ in uses]
    waits = [0] * len(uses)
    before: dict[Tensor, int] = {}
    for k, own in enumerate(uses):
        for earlier in dict.fromkeys(before[tensor] for tensor in own if tensor in before):
            after[earlier].append(k)
            waits[k] += 1
        before.update(dict.fromkeys(own, k))
    return after, waits
