"""Recipes of a prepared program: what they share is written once, and what they made is freed."""

import gc
import io
import pickle
import weakref
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from ort_lite.dtypes import Array, to_numpy
from ort_lite.memory.arenas import CACHE_LINE, address_of
from ort_lite.memory.recipes import Recipes, note, recording
from ort_lite.session.prepared import pickling, sections
from ort_lite.session.prepared.loading import Arrays
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


class NoTensors:
    """The loader of a model without large tensors."""

    count = 0


@pytest.mark.parametrize("writeable", [True, False])
def test_elements_of_small_arrays_are_stored_bit_by_bit(writeable: bool) -> None:
    shapes = {"float32": (3, 5), "int64": (), "bool": (7,), "bfloat16": (2, 2), "uint8": (0, 4)}
    bits = np.random.default_rng(0).integers(0, 2, 200).astype(np.uint8)  # NaN are among them where each bit counts
    arrays = [np.ndarray(shape, to_numpy(dtype), bits.tobytes()).copy() for dtype, shape in shapes.items()]
    arrays.append(np.array([np.nan, -0.0, np.inf]).view(np.int64).view(np.float64))
    with recording(found := Recipes()):
        for array in arrays:
            note(array, partial(pytest.fail, "it is not created again"), [])
            array.setflags(write=writeable)
    read = Arrays(cast(Any, NoTensors), [], [])
    sections._read_arrays(io.BytesIO(written(arrays, found)), {}, read)
    for number, array in enumerate(arrays):
        made = read[number]
        assert (made.dtype, made.shape, made.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert made.flags.writeable == writeable
        assert address_of(made) % CACHE_LINE == 0
        assert not isinstance(made.base, np.ndarray), "its memory counts as that of all of them"


def test_an_array_that_is_not_contiguous_keeps_its_recipe() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    with recording(found := Recipes()):
        note(turned := np.reshape(source, (4, 3), "F"), partial(np.reshape, source, (4, 3), "F"), [source])
    read = Arrays(cast(Any, NoTensors), [], [])
    origins = Origins(found, {})
    number = origins.number(turned)
    sections._read_arrays(io.BytesIO(sections._Recipes(origins, 0).pickle({number})), {}, read)
    assert read[number].strides == turned.strides
    assert (read[number] == turned).all()


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
