"""What counts as a change of a compiled partition."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ort_lite.testing.frozen import changes, snapshot


class Part:
    """A compiled partition with a bit of everything."""

    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.count, self.text = 1, "a"
        self.array = np.zeros(3)
        self.table: dict[str, Any] = {"list": [1, 2]}
        self.seen: set[int] = set()
        self.queue: deque[int] = deque()
        self.inner: Part | None = None
        self.slot = 0
        self.shape_cache: dict[int, int] = {}
        self.scratch_pool: list[Any] = []

    def run(self, inputs: Any) -> Any:
        return inputs


def found(change: Callable[[Part], object], wrap: Callable[[Part], Any] = lambda part: part) -> list[str]:
    part = Part()
    part.inner = Part()
    thing = wrap(part)
    before = snapshot(thing)
    change(part)
    return changes(before, snapshot(thing))


def closure(part: Part) -> Any:
    def run(inputs: Any) -> Any:
        return part.run(inputs)

    return run


CHANGES: dict[str, tuple[Callable[[Part], object], str]] = {
    "a number": (lambda p: setattr(p, "count", 2), "partition.count"),
    "an array": (lambda p: p.array.fill(1), "partition.array"),
    "a list in a table": (lambda p: p.table["list"].append(3), "partition.table['list'].length"),
    "a set": (lambda p: p.seen.add(1), "partition.seen.length"),
    "a queue": (lambda p: p.queue.append(1), "partition.queue.length"),
    "a slot": (lambda p: setattr(p, "slot", 1), "partition.slot"),
    "a new attribute": (lambda p: setattr(p, "last", 1), "partition.last"),
    "an object inside": (lambda p: setattr(p.inner, "count", 2), "partition.inner.count"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_seen(what: str) -> None:
    change, path = CHANGES[what]
    assert path in found(change)


@pytest.mark.parametrize(
    "wrap",
    [closure, lambda part: part.run, lambda part: partial(Part.run, part), lambda part: partial(part.run)],
    ids=["closure", "method", "partial", "partial of a method"],
)
def test_it_is_seen_through_whatever_is_called(wrap: Callable[[Part], Any]) -> None:
    assert len(found(lambda part: part.array.fill(1), wrap)) == 1
    assert found(lambda part: None, wrap) == []


def test_caches_and_pools_may_grow() -> None:
    def grow(part: Part) -> None:
        part.shape_cache[1] = 2
        part.scratch_pool.append(0)

    assert found(grow) == []


def test_what_is_left_out_is_not_looked_into() -> None:
    part = Part()
    part.inner = Part()
    before = snapshot(part, [part.inner])
    part.inner.count = 5
    assert changes(before, snapshot(part, [part.inner])) == []


def test_objects_of_other_packages_keep_their_own_books() -> None:
    class Handle:
        """As of a runtime."""

        def __init__(self) -> None:
            self.uses = 0

    Handle.__module__ = "runtime.handles"
    part, handle = Part(), Handle()
    part.table["handle"] = handle
    before = snapshot(part)
    handle.uses += 1
    assert changes(before, snapshot(part)) == []
    part.table["handle"] = Handle()
    assert changes(before, snapshot(part)) == ["partition.table['handle']"]


def test_an_object_is_another_than_the_one_that_lay_where_it_lies() -> None:
    part = Part()
    part.table["last"] = object()
    before = snapshot(part)
    del part.table["last"]
    part.table["last"] = object()
    assert changes(before, snapshot(part)) == ["partition.table['last']"]
