"""The state of a compiled partition as comparable data: attributes down to arrays, without caches by shape."""

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

DEPTH = 4
CACHES = ("cache", "bound", "pool", "lease", "lock", "free", "request")
"""Attributes with such a word in their names may grow: they are caches by shape, pools and locks."""
CONTRACT = ("ort_lite.graph", "ort_lite.provider", "ort_lite.inference")


class One:
    """The identity of an object. It holds the object, so that no other object can take its address."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, One) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


Seen = str | One


def snapshot(thing: Any, without: Collection[Any] = ()) -> dict[str, Seen]:
    """Return the values by attribute path: plain values and digests of arrays, and the identity of other objects.

    It follows functions, containers and objects of the package of `thing`, but neither other packages' objects, whose state is
    their own (a runtime's handles, an array library's lazy copies), nor the objects in `without`.
    """
    return dict(_SnapshotWalk(_package(thing), {id(one) for one in without}).walk(thing, "partition", DEPTH))


def changes(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> list[str]:
    """Return the sorted paths whose values differ between two snapshots, or that only one of them has."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _package(thing: Any) -> str:
    while isinstance(thing, (partial, MethodType)):
        thing = thing.func if isinstance(thing, partial) else thing.__self__
    module: str = (thing.__module__ if isinstance(thing, FunctionType) else type(thing).__module__) or ""
    return module.partition(".")[0]


class _SnapshotWalk:
    def __init__(self, package: str, without: set[int]) -> None:
        self._package, self._without = package, without

    def walk(self, thing: Any, path: str, depth: int) -> Iterator[tuple[str, Seen]]:
        if isinstance(thing, np.ndarray) and thing.dtype != object:
            yield path, hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
        elif isinstance(thing, (str, bytes, bytearray, int, float, complex, bool, type(None), np.generic)):
            yield path, repr(thing)
        elif depth == 0 or id(thing) in self._without:
            yield path, One(thing)
        elif isinstance(thing, Mapping):
            yield f"{path}.length", str(len(thing))
            for key, value in list(thing.items()):
                yield from self.walk(value, f"{path}[{key!r:.40}]", depth - 1)
        elif isinstance(thing, (list, tuple, deque)):
            yield f"{path}.length", str(len(thing))
            for k, value in enumerate(list(thing)[:64]):
                yield from self.walk(value, f"{path}[{k}]", depth - 1)
        elif isinstance(thing, (set, frozenset)):
            yield f"{path}.length", str(len(thing))
        else:
            yield path, One(thing)
            for name, value in self._attributes(thing):
                if not any(word in name.lower() for word in CACHES):
                    yield from self.walk(value, f"{path}.{name}", depth - 1)

    def _attributes(self, thing: Any) -> Iterator[tuple[str, Any]]:
        """Return the attributes of objects, functions, methods and partials; classes, modules and the graph are skipped."""
        if isinstance(thing, partial):
            yield from (("func", thing.func), ("args", thing.args), ("keywords", thing.keywords))
        elif isinstance(thing, MethodType):
            yield from (("function", thing.__func__), ("self", thing.__self__))
        elif isinstance(thing, FunctionType):
            for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
                yield name, cell.cell_contents
            yield "defaults", thing.__defaults__
        elif not isinstance(thing, type) and self._is_own(type(thing).__module__):
            yield from list(getattr(thing, "__dict__", {}).items())
            for cls in type(thing).__mro__:
                slots = cls.__dict__.get("__slots__", ())
                for name in (slots,) if isinstance(slots, str) else slots:
                    if not name.startswith("__") and hasattr(thing, name):
                        yield name, getattr(thing, name)

    def _is_own(self, module: str) -> bool:
        return module.partition(".")[0] == self._package and not module.startswith(CONTRACT)
