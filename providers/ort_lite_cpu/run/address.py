"""Where an array's first element lies. NumPy's own ways take 1.5 us, which counts when a run has ten arrays.

A PyArrayObject begins with the object header and then its data pointer; NumPy's C API promises that. It is checked once
against NumPy's answer for a probe, and everything goes NumPy's way where that does not hold (another Python implementation).
"""

import sys
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from typing import Any

import numpy as np

_HEADER = object.__basicsize__
_read: Callable[[int], Any] = c_void_p.from_address


def _is_plain() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probe = np.arange(3)[1:]
    return bool(_read(id(probe) + _HEADER).value == probe.ctypes.data)


_PLAIN = _is_plain()


def address_of(array: Any) -> int:
    """Of an array's first element; 0 for values that are no arrays (strings, sequences), which kernels never touch."""
    if not isinstance(array, np.ndarray):
        return 0
    if _PLAIN:
        return _read(id(array) + _HEADER).value or 0
    address: int = array.ctypes.data
    return address


def write_addresses(table: Any, first: int, arrays: Sequence[Any], numbers: Sequence[int]) -> None:
    """table[first + k] = the address of arrays[k] for each k of `numbers`; one call, as they are in every run."""
    for k in numbers:
        array = arrays[k]
        if array.__class__ is np.ndarray and _PLAIN:
            table[first + k] = _read(id(array) + _HEADER).value or 0
        else:
            table[first + k] = address_of(array)
