"""What a compiled partition holds, as data that can be compared: attributes down to arrays, caches by shape left out."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

DEPTH = 4
CACHES = ("cache", "bound", "pool", "lease", "lock", "free", "request")
"""Attributes with such a word in their names may grow: they are caches by shape, pools and locks."""


def snapshot(thing: Any) -> dict[str, str]:
    """Attribute path -> value, for plain values and arrays; of other objects which one it is."""
    return dict(_walk(thing, "partition", DEPTH))


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _walk(thing: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        yield path, hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
    elif isinstance(thing, (str, bytes, int, float, complex, bool, type(None))):
        yield path, repr(thing)
    elif depth == 0:
        yield path, str(id(thing))
    elif isinstance(thing, Mapping):
        for key, value in list(thing.items()):
            yield from _walk(value, f"{path}[{key!r:.40}]", depth - 1)
    elif isinstance(thing, (list, tuple)):
        yield f"{path}.length", str(len(thing))
        for k, value in enumerate(thing[:64]):
            yield from _walk(value, f"{path}[{k}]", depth - 1)
    else:
        yield path, str(id(thing))
        for name, value in _attributes(thing):
            if not any(word in name.lower() for word in CACHES):
                yield from _walk(value, f"{path}.{name}", depth - 1)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    """Of objects, functions and what `functools.partial` holds; in classes, modules and the graph nothing is looked for."""
    module = type(thing).__module__
    if isinstance(thing, type) or module.startswith(("ort_lite.graph", "ort_lite.provider", "ort_lite.inference")):
        return
    closure = getattr(thing, "__closure__", None)
    for name, cell in zip(getattr(getattr(thing, "__code__", None), "co_freevars", ()), closure or (), strict=False):
        yield name, cell.cell_contents
    for name in ("args", "keywords", "__self__", "__dict__"):
        value = getattr(thing, name, None) if name != "__self__" or callable(thing) else None
        if name == "__dict__" and isinstance(value, dict):
            yield from list(value.items())
        elif value is not None and isinstance(value, (tuple, dict)):
            yield name, value
    for cls in type(thing).__mro__:
        for name in getattr(cls, "__slots__", ()) if isinstance(getattr(cls, "__slots__", ()), tuple) else ():
            if not name.startswith("__") and hasattr(thing, name):
                yield name, getattr(thing, name)
