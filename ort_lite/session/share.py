"""Constants of sessions over one model, or over models with layers in common, become one array."""

from collections.abc import Collection
from typing import Any, TypeGuard

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph.model import Model
from ort_lite.load.spans import span_of
from ort_lite.memory.arenas import owns_bytes
from ort_lite.memory.sharing import shared
from ort_lite.native.checkpoint import checkpoint
from ort_lite.transform.contract import all_graphs


def share_constants(model: Model, writeable: Collection[int] = ()) -> None:
    """Initialisers that another session holds as well become its arrays: those whose bytes nobody changes. O(their bytes).

    Arrays that own their bytes were made by transforms, but for those whose ids are in `writeable`; they become read-only. Of others,
    which the caller may go on writing to, providers see views that they cannot write to.
    """
    for graph in all_graphs(model.graph):
        for value in graph.initializers.values():
            checkpoint()
            array = value.constant
            if isinstance(array, np.ndarray) and owns_bytes(array) and id(array) not in writeable:
                array.setflags(write=False)
            if _unchanging(array):
                value.constant = shared(array)
            elif isinstance(array, np.ndarray) and array.flags.writeable:
                value.constant = _lock(array)


def _lock(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view


def _unchanging(array: Any) -> TypeGuard[Array]:
    """Return True if it owns its bytes, through a span or by itself, and is read-only. Files are mapped once in any case."""
    if not isinstance(array, np.ndarray):
        return False
    span = span_of(array)
    if span is not None:
        return span.mode == "owned" and not array.flags.writeable
    return owns_bytes(array) and not array.flags.writeable
