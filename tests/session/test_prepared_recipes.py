"""Recipes of a prepared program: what they share is written once, and what they made is freed."""

import gc
import io
import pickle
import weakref
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.memory.recipes import Recipes, note, recording
from ort_lite.session.prepared import pickling, sections
from ort_lite.session.prepared.origins import Origins
from ort_lite.shapes import Dim, ceildiv, symbol

SIZE = 1024
"""The elements of arrays that are not so small that they are stored themselves."""


def written(arrays: list[Array], found: Recipes) -> bytes:
    """Return the recipes of arrays."""
    origins = Origins(found, {})
    for array in arrays:
        origins.number(array)
    return sections._Recipes(origins, 0).pickle({origins.number(array) for array in arrays})


def test_dimensions_that_share_parts_are_written_once() -> None:
    size: Dim = symbol("n")
    for k in range(60):
        size = ceildiv(size * size, k + 2)
    source, made = np.zeros(SIZE, np.float32), np.zeros((2, SIZE // 2), np.float32)
    with recording(found := Recipes()):
        note(made, partial(np.reshape, source, size), [source])
    assert len(written([made], found)) < 20_000


def test_what_is_written_without_end_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickling, "_MOST", 50)
    source, made = np.zeros(SIZE, np.float32), np.zeros((2, SIZE // 2), np.float32)
    parts: Any = partial(np.reshape, source, 1)
    for _ in range(10):
        parts = partial(np.reshape, parts, parts)
    with recording(found := Recipes()):
        note(made, parts, [source])
    with pytest.raises(pickle.PicklingError, match="too many objects"):
        written([made], found)


class Counted:
    """Arrays by number, of which the test knows which ones are alive."""

    def __init__(self) -> None:
        self.alive: list[int] = []
        self._found: dict[int, Array] = {}
        self._references: dict[int, weakref.ref[Array]] = {}

    def __getitem__(self, number: int) -> Array:
        return self._found[number]

    def unpack(self, rows: list[Any], elements: bytes) -> None:
        for number, dtype, shape, start, _ in rows:
            self.make(number, np.ndarray, (shape, dtype, elements, start))

    def make(self, number: int, function: Any, arguments: Any) -> None:
        self._found[number] = function(*arguments).copy()
        self._references[number] = weakref.ref(self._found[number])
        self.alive.append(sum(reference() is not None for reference in self._references.values()))

    def forget(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._found[number]


def test_arrays_that_nothing_needs_any_more_are_freed_at_once() -> None:
    chain: list[Array] = [np.zeros(SIZE, np.float32)]
    with recording(found := Recipes()):
        for k in range(8):
            made = np.zeros((2, SIZE // 2) if k % 2 else (SIZE,), np.float32)
            note(made, partial(np.reshape, chain[-1], made.shape), [chain[-1]])
            chain.append(made)
    origins = Origins(found, {})
    last = origins.number(chain[-1])
    data, counted = sections._Recipes(origins, 0).pickle({last}), Counted()
    gc.disable()
    try:
        sections._read_arrays(io.BytesIO(data), {}, cast(Any, counted))
    finally:
        gc.enable()
    assert len(counted.alive) == 9
    assert max(counted.alive) == 2
