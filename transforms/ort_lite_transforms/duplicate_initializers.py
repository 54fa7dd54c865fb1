"""Initialisers with the same bytes become one."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Graph, Value
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.digest import digest
from ort_lite.transform import Rewriter, all_graphs, graph_pass
from ort_lite.transform.budget import bytes_in_memory

_SAMPLES = 16
_FEW = 8


@graph_pass(level="basic", counterparts=("ConstantSharing",))
def merge_duplicate_initializers(graph: Graph, rewriter: Rewriter) -> int:
    """Initialisers of one graph that agree in type, shape and a few samples are compared in full.

    O(initialisers + bytes of those with equal samples): weights that differ are mostly told apart by the samples. Strings are left
    alone.
    """
    count = 0
    for body in all_graphs(graph):
        shapes: dict[tuple[object, ...], list[Value]] = {}
        for value in body.initializers.values():
            array = rewriter.array(value)
            if array is not None and array.dtype.kind != "O" and not value.is_graph_output():
                shapes.setdefault((array.dtype, array.shape), []).append(value)
        for values in shapes.values():
            if len(values) > 1:
                count += _merge(values, rewriter)
    return count


def _merge(values: list[Value], rewriter: Rewriter) -> int:
    """Values of one type and shape. A few of equal samples are compared with each other; if there are more, their digests are."""
    few: dict[bytes, list[tuple[Value, Array]]] = {}
    many: dict[tuple[bytes, object], Value] = {}
    count = 0
    for value in values:
        array = rewriter.array(value)
        assert array is not None
        sample = _sample(array)
        alike = few.setdefault(sample, [])
        same = _first(alike, array) if alike else None
        if same is None and len(alike) < _FEW:
            alike.append((value, array))
            continue
        if same is None:
            same = many.setdefault((sample, _digest(array)), value)
        if same is not value:
            rewriter.touched.update(dict.fromkeys(value.readers))
            value.replace_all_uses_with(same)  # the dead one goes with remove_dead_nodes
            count += 1
    return count


def _first(alike: list[tuple[Value, Array]], array: Array) -> Value | None:
    """The first value whose elements are those of `array`. A checkpoint."""
    checkpoint()
    for other, known in alike:
        if array.size <= _SAMPLES or _same_bytes(array, known):  # of few elements, all are in the sample
            return other
    return None


def _sample(array: Array) -> bytes:
    return array.tobytes() if array.size <= _SAMPLES else bytes(array.flat[:: array.size // _SAMPLES].tobytes())


def _same_bytes(a: Array, b: Array) -> bool:
    """Bits, so that -0.0 stays apart from 0.0 and NaN equals itself. Views of one element compare that element."""
    if not any(a.strides) and not any(b.strides):
        return bool(a.flat[:1].tobytes() == b.flat[:1].tobytes())
    kind = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else None
    return bool(np.array_equal(a.view(kind), b.view(kind))) if kind else a.tobytes() == b.tobytes()


def _digest(array: Array) -> object:
    """Equal for the same bits. Views that repeat some of their elements have one of their own."""
    if not any(array.strides):
        return "filled"
    if bytes_in_memory(array) < array.nbytes:
        return id(array)
    return digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
