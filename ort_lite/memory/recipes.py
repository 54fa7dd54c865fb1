"""The origin of arrays while a session is created: a loaded tensor, or a function that packs one.

A prepared program stores no weights. It stores where each array comes from, and creates it again from the model that is loaded.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.sharing import shared


class Recipes:
    """The origins of arrays in one session, by id. Holds the arrays, so that an id stays that of its array."""

    def __init__(self) -> None:
        self.loaded: list[tuple[Any, Array]] = []
        """The place in the model of each large tensor, and its array, in the order of loading."""
        self.packed: dict[int, tuple[Array, Callable[[], Array]]] = {}
        self.derived: dict[int, tuple[Array, Callable[[], Array]]] = {}
        self.refusals: list[str] = []
        """The reasons why nothing must be stored."""
        self.twins: dict[int, tuple[Array, Array]] = {}
        """Arrays of other sessions that took the place of equal ones: (the other's, the session's own)."""


class _Recording(threading.local):
    recipes: Recipes | None = None


_RECORDING = _Recording()


@contextmanager
def recording(recipes: Recipes | None) -> Iterator[None]:
    """Record the origins of arrays that this thread creates inside the block; None records nothing."""
    before, _RECORDING.recipes = _RECORDING.recipes, recipes
    try:
        yield
    finally:
        _RECORDING.recipes = before


def note_loaded(place: Any, array: Array) -> None:
    """Note that an array is the large tensor at a place of the model."""
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.loaded.append((place, array))


def share(array: Array) -> Array:
    """Return the array, or an equal one of another session (see `ort_lite.memory.sharing`)."""
    found = shared(array)
    if found is not array and _RECORDING.recipes is not None:
        _RECORDING.recipes.twins[id(found)] = (found, array)
    return found


def packed(make: Callable[[], Array]) -> Array:
    """Return the contiguous array that `make` returns, shared with other sessions."""
    array = shared(np.require(make(), requirements="C"))
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.packed.setdefault(id(array), (array, make))
    return array


def derive(function: Callable[..., Array], *arguments: Any) -> Array:
    """Return `function(*arguments)`, which depends on nothing else: a prepared program calls it again."""
    array = function(*arguments)
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.derived.setdefault(id(array), (array, partial(function, *arguments)))
    return array


def refuse(why: str) -> None:
    """Note that what is being created must not be stored."""
    if _RECORDING.recipes is not None:
        _RECORDING.recipes.refusals.append(why)
