"""The origins of what a prepared program refers to: numbers of arrays, and functions that create them again."""

import pickle
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, to_numpy
from ort_lite.load.file_place import DerivedReader, FileReader, reader_of
from ort_lite.memory import recipes
from ort_lite.memory.arenas import address_of
from ort_lite.memory.recipes import Recipes
from ort_lite.memory.sharing import SMALLEST
from ort_lite.record import Record
from ort_lite.session.prepared.graphs import Numbering

MOST_INLINE = 1 << 16
"""The largest array in bytes that an entry stores although it may depend on weights."""


class ReadAgain(Record):
    """A tensor that is read from its file again, by its number; in its place is the tensor itself if it came from no file."""

    number: int


class Origins:
    """The numbers, names and origins of what a program refers to. The first arrays are the tensors of the model."""

    def __init__(self, found: Recipes, objects: Mapping[str, Any]) -> None:
        self.numbers, self._recipes = Numbering(), found
        self.names = {id(found): name for name, found in objects.items()}
        self.arrays: list[Array] = []
        self._by_id: dict[int, int] = {}
        self.referred: set[int] = set()
        """The numbers that were asked for since somebody cleared it."""
        self.read_again: set[int] = set()
        """The tensors that a program reads from their file when somebody asks for one."""
        for _, array in found.loaded:
            self._by_id[id(array)] = len(self.arrays)
            self.arrays.append(array)
        self._alike = list(enumerate(self.arrays))
        for other, own in found.twins.values():
            if id(own) in self._by_id:
                self._by_id.setdefault(id(other), self._by_id[id(own)])
                self._alike.append((self._by_id[id(own)], other))
        self._ranges = sorted((address_of(array), array.nbytes, k) for k, array in self._alike if array.nbytes)
        self._starts = [start for start, _, _ in self._ranges]

    def number(self, array: Array) -> int:
        """Return the number of an array."""
        _, array = self._recipes.twins.get(id(array), (array, array))
        found = self._by_id.get(id(array))
        if found is None:
            found = self._by_id[id(array)] = len(self.arrays)
            self.arrays.append(array)
        self.referred.add(found)
        return found

    def reader(self, restore: Any) -> Any:
        """Return what stands for a function that restores a constant: for one that reads tensors, `ReadAgain` of each."""
        if isinstance(restore, DerivedReader):
            return restore.replace(arguments=tuple(map(self.reader, restore.arguments)))
        if not isinstance(restore, FileReader):
            return restore
        number = self._readers.get(restore)
        if number is None:
            raise pickle.PicklingError("a constant is read from another file")
        self.read_again.add(number)
        return ReadAgain(number)

    @cached_property
    def _readers(self) -> dict[FileReader | DerivedReader | None, int]:
        return {reader_of(array): k for k, array in self._alike}

    def recipe(self, array: Array) -> tuple[Callable[..., Array], tuple[Any, ...]] | None:
        """Return a function and its arguments that create an array again, which is no tensor of the model.

        None for a small one, whose elements are stored: reading them takes less time than a recipe.
        """
        short = array.nbytes < SMALLEST and array.flags.c_contiguous and not array.dtype.hasobject
        made = self._recipes.packed.get(id(array))
        if made is not None:
            return None if short else (recipes.pack_once, (made[1],))
        made = self._recipes.derived.get(id(array))
        if made is not None:
            return None if short else (_derive, (made[1], array.flags.writeable))
        inside = self._inside(array) or self._inside_of_base(array)
        if inside is not None:
            return _view, inside
        if short:
            return None
        if array.nbytes > MOST_INLINE and id(array) not in self._recipes.whole:
            raise pickle.PicklingError(f"an array of {array.nbytes:,} bytes has no recipe: {array.dtype}{list(array.shape)}")
        if array.dtype.hasobject:
            return _objects, (array.shape, array.reshape(-1).tolist(), array.flags.writeable)
        plain = np.ascontiguousarray(array)
        return _inline, (from_numpy(array.dtype), array.shape, plain.tobytes(), array.flags.writeable)

    def _inside_of_base(self, array: Array) -> Any:
        """Return the arguments of `_view` for a view of an array with an origin of its own."""
        base = array.base
        if not isinstance(base, np.ndarray) or not base.flags.c_contiguous or min(array.strides, default=0) < 0:
            return None
        if not any(id(base) in known for known in (self._recipes.packed, self._recipes.derived, self._recipes.whole)):
            return None
        return base, from_numpy(array.dtype), address_of(array) - address_of(base), array.shape, array.strides

    def _inside(self, array: Array) -> Any:
        """Return the arguments of `_view` for a view of a loaded tensor."""
        if not array.size or array.flags.owndata or array.flags.writeable or min(array.strides, default=0) < 0:
            return None
        address = address_of(array)
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start, nbytes, number = self._ranges[at]
        last = sum((dim - 1) * stride for dim, stride in zip(array.shape, array.strides, strict=True)) + array.itemsize
        if address + last > start + nbytes:
            return None
        return self.arrays[number], from_numpy(array.dtype), address - start, array.shape, array.strides


def _view(array: Array, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    flat = array.reshape(-1).view(np.uint8)
    made: Array = np.ndarray(shape, to_numpy(dtype), flat, offset, strides)
    return made


def _derive(make: Callable[[], Array], writeable: bool) -> Array:
    array = make()
    if not writeable:
        array.setflags(write=False)
    return array


def _objects(shape: tuple[int, ...], elements: list[Any], writeable: bool) -> Array:
    made = np.empty(len(elements), object)
    made[:] = elements
    made.setflags(write=writeable)
    return made.reshape(shape)


def _inline(dtype: str, shape: tuple[int, ...], data: bytes, writeable: bool) -> Array:
    made = np.frombuffer(data, to_numpy(dtype)).reshape(shape) if data else np.empty(shape, to_numpy(dtype))
    if writeable:
        return made.copy()
    made.setflags(write=False)
    return made
