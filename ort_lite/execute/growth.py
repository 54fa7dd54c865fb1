"""Room for values that grow in a run state: each is the beginning of an array for twice as many rows."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import allocate_array

LEAST = 16
"""The rows for which a new array has room, beyond twice those that are there: short values would be copied often."""


def make_room(feed: Mapping[str, Any], growing: Iterable[tuple[str, int]], bases: dict[str, Array]) -> dict[str, Array]:
    """Return the inputs among `growing`, each with its axis, as views of arrays with room for more rows, which `bases` gets by name.

    Arrays without room are copied to larger ones. Values that are no arrays are left out, and those for which there is no memory.
    """
    views: dict[str, Array] = {}
    for name, axis in growing:
        value = feed[name]
        if type(value) is not np.ndarray or value.ndim <= axis:
            continue
        rows, base = value.shape[axis], bases.get(name)
        if base is not None and rows < base.shape[axis]:
            views[name] = value
            continue
        try:
            made = allocate_array((*value.shape[:axis], 2 * rows + LEAST, *value.shape[axis + 1 :]), value.dtype)
        except (MemoryError, ValueError):
            continue
        bases[name], views[name] = made, made[(*(slice(None),) * axis, slice(rows))]
        views[name][...] = value
    return views
