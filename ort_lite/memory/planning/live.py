"""The number of bytes in use at once, for both plans and schedules."""

from collections.abc import Iterable


def max_live(intervals: Iterable[tuple[int, int, int]]) -> int:
    """Return the most bytes in use at once among (start, end, size), end exclusive. O(n log n)."""
    change: dict[int, int] = {}
    for start, end, size in intervals:
        change[start] = change.get(start, 0) + size
        change[end] = change.get(end, 0) - size
    live = most = 0
    for time in sorted(change):
        live += change[time]
        most = max(most, live)
    return most
