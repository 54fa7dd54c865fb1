"""Addresses of arrays. NumPy's own ways take 1.5 us, which counts when a run has ten arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory import arenas
from ort_lite.memory.arenas import OBJECT_HEADER, PLAIN, read_pointer
from ort_lite.native.lang import load64, store64

# Where CPython keeps what native code looks up: byte offsets in an object, an array and a list.
_TYPE, _DATA, _SIZE, _ITEMS = 8, 16, 16, 24


def _has_lists() -> bool:
    probe = [object(), object()]
    at = id(probe)
    alike = (
        OBJECT_HEADER == _DATA
        and read_pointer(id(np.arange(0)) + _TYPE).value == id(np.ndarray)
        and read_pointer(at + _SIZE).value == 2
    )
    return alike and read_pointer(read_pointer(at + _ITEMS).value + 8).value == id(probe[1])


LISTS = PLAIN and _has_lists()
"""Whether `copy_addresses` reads this interpreter's lists and arrays right."""


def copy_arguments(first: int, numbers: Sequence[int]) -> Array:
    """Return the arguments of `copy_addresses`: the arrays' type, the least length of a list, `first`, ascending numbers."""
    return np.array([id(np.ndarray), max(numbers, default=-1) + 1, first, *numbers, -1], np.int64)


def copy_addresses(wanted: int, items: int, table: int) -> int:
    """Native `write_addresses` of a list, an eighth of its time. Returns 1, or 0 where an element is not of NumPy's own class.

    The caller holds a reference to the list, which nobody else changes: it may be read without the GIL.
    """
    if load64(items + _SIZE) < load64(wanted + 8):
        return 0
    kind, first = load64(wanted), load64(items + _ITEMS)
    to = table + 8 * load64(wanted + 16)
    at = wanted + 24
    k = load64(at)
    while k >= 0:
        array = load64(first + 8 * k)
        if load64(array + _TYPE) != kind:
            return 0
        store64(to + 8 * k, load64(array + _DATA))
        at += 8
        k = load64(at)
    return 1


def address_of(array: Any) -> int:
    """Return the address of an array's first element; 0 for other values (strings, sequences), which kernels never touch."""
    return arenas.address_of(array) if isinstance(array, np.ndarray) else 0


def write_addresses(table: Any, first: int, arrays: Sequence[Any], numbers: Sequence[int]) -> None:
    """table[first + k] = the address of arrays[k] for each k of `numbers`; one call, as they are in every run."""
    for k in numbers:
        array = arrays[k]
        if array.__class__ is np.ndarray and PLAIN:
            table[first + k] = read_pointer(id(array) + OBJECT_HEADER).value or 0
        else:
            table[first + k] = address_of(array)
