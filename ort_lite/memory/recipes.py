"""The origin of arrays while a session is created: a loaded tensor, or a function that packs one.

A prepared program stores no weights. It stores where each array comes from, and creates it again from the model that is loaded.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.sharing import SMALLEST, shared


class Recipes:
    """The origins of arrays in one session, by id. Holds the arrays, so that an id stays that of its array."""

    def __init__(self) -> None:
        self.loaded: list[tuple[Any, Array]] = []
        """The place in the model of each large tensor, and its array, in the order of loading."""
        self.packed: dict[int, tuple[Array, Callable[[], Array]]] = {}
        self.derived: dict[int, tuple[Array, Callable[[], Array]]] = {}
        self.whole: dict[int, Array] = {}
        """Arrays made of attributes, which are no weights: a program stores their elements."""
        self.refusals: list[str] = []
        """The reasons why nothing must be stored."""
        self.twins: dict[int, tuple[Array, Array]] = {}
        """Arrays of other sessions that took the place of equal ones: (the other's, the session's own)."""

    def derivation(self, array: Array) -> tuple[Callable[..., Array], tuple[Any, ...]] | None:
        """Return the function and the arguments of which `derive` made an array, or one that it took the place of."""
        _, own = self.twins.get(id(array), (array, array))
        found = self.derived.get(id(own))
        made = None if found is None else found[1]
        return (made.func, made.args) if isinstance(made, partial) and not made.keywords else None


class _Recording(threading.local):
    recipes: Recipes | None = None
    replay: "Replay | None" = None


_RECORDING = _Recording()


@contextmanager
def recording(recipes: Recipes | None) -> Iterator[None]:
    """Record the origins of arrays that this thread creates inside the block; None records nothing."""
    before, _RECORDING.recipes = _RECORDING.recipes, recipes
    try:
        yield
    finally:
        _RECORDING.recipes = before


def note_tensor(place: Any, array: Array) -> None:
    """Note that an array is the large tensor at a place of the model."""
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.loaded.append((place, array))


def share(array: Array) -> Array:
    """Return the array, or an equal one of another session (see `ort_lite.memory.sharing`)."""
    found = shared(array)
    if found is not array and _RECORDING.recipes is not None:
        _RECORDING.recipes.twins[id(found)] = (found, array)
    return found


class Replay:
    """The arrays that sessions of one program and equal weights create: those of a session that lives serve the next one.

    They are created in one order, so that a number stands for each. `token` identifies the program and the contents of its weights.
    """

    def __init__(self, token: bytes) -> None:
        self._token, self._count = token, 0

    def next(self, make: Callable[[], Array]) -> Array:
        """Return the next array: that of a living session, or the one that `make` returns."""
        self._count += 1
        return self.get(self._count, make)

    def get(self, number: int, make: Callable[[], Array]) -> Array:
        """Return the array with a number: that of a living session, or the one that `make` returns."""
        key = self._token, number
        found = _LIVING.get(key)
        if found is None:
            found = make()
            if found.nbytes >= SMALLEST:
                found = _LIVING.setdefault(key, found)
        return found


_LIVING: WeakValueDictionary[tuple[bytes, int], Array] = WeakValueDictionary()


@contextmanager
def replaying(replay: Replay) -> Iterator[None]:
    """Create the arrays of a prepared program inside the block."""
    before, _RECORDING.replay = _RECORDING.replay, replay
    try:
        yield
    finally:
        _RECORDING.replay = before


def pack_once(make: Callable[[], Array]) -> Array:
    """Return the contiguous array that `make` returns, shared with other sessions."""
    replay = _RECORDING.replay
    if replay is not None:
        return replay.next(lambda: shared(np.require(make(), requirements="C")))
    array = shared(np.require(make(), requirements="C"))
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.packed.setdefault(id(array), (array, make))
    return array


def note(array: Array, make: Callable[[], Array], given: Sequence[Any]) -> None:
    """Note a function that creates an array again from what is `given`, and depends on nothing else."""
    if _RECORDING.recipes is not None and not any(array is each for each in given):
        _RECORDING.recipes.derived.setdefault(id(array), (array, make))


def derive(function: Callable[..., Array], *arguments: Any) -> Array:
    """Return `function(*arguments)`, which depends on nothing else: a prepared program calls it again."""
    array = function(*arguments)
    note(array, partial(function, *arguments), arguments)
    return array


def from_attributes(array: Array) -> Array:
    """Return an array that was made of attributes alone: a prepared program stores its elements, however many there are."""
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.whole[id(array)] = array
    return array


def refuse(why: str) -> None:
    """Note that what is being created must not be stored."""
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.refusals.append(why)
