"""Share equal constants between sessions."""

from collections.abc import Collection
from typing import Any, TypeGuard

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph.model import Model
from ort_lite.load.spans import span_of
from ort_lite.memory.arenas import owns_bytes
from ort_lite.memory.recipes import share
from ort_lite.native.checkpoint import checkpoint
from ort_lite.transform.contract import all_graphs


def share_constants(model: Model, writeable: Collection[int] = ()) -> None:
    """Replace initializers by equal arrays of other sessions if nobody can change them. O(bytes).

    Arrays that own their bytes come from transforms, except for those whose ids are in `writeable`; they become read-only. The
    caller may go on writing to all others, so providers get read-only views of those.
    """
    for graph in all_graphs(model.graph):
        for value in graph.initializers.values():
            checkpoint()
            array = value.constant
            if isinstance(array, np.ndarray) and owns_bytes(array) and id(array) not in writeable:
                array.setflags(write=False)
            if _unchanging(array):
                value.constant = share(array)
            elif isinstance(array, np.ndarray) and array.flags.writeable:
                value.constant = _lock(array)


def _lock(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view


def _unchanging(array: Any) -> TypeGuard[Array]:
    """Return True if the array is read-only and owns its bytes. Mapped files are excluded: they are mapped only once anyway."""
    if not isinstance(array, np.ndarray):
        return False
    span = span_of(array)
    if span is not None:
        return span.mode == "owned" and not array.flags.writeable
    return owns_bytes(array) and not array.flags.writeable
