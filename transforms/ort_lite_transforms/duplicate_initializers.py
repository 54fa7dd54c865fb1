"""Initialisers with the same bytes become one."""

import numpy as np

from ort_lite.checkpoint import checkpoint
from ort_lite.dtypes import Array
from ort_lite.graph import Graph, Value
from ort_lite.native.digest import digest
from ort_lite.transform import Rewriter, all_graphs, graph_pass
from ort_lite.transform.budget import stored_bytes

_SAMPLES = 16


@graph_pass(level="basic", counterparts=("ConstantSharing",))
def merge_duplicate_initializers(graph: Graph, rewriter: Rewriter) -> int:
    """Initialisers of one graph that agree in type, shape and a few samples are compared by digests of all their bytes.

    O(initialisers + bytes of those with equal samples). Strings are left alone, and so are views that repeat some of their elements.
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
    """Values of one type and shape."""
    first: dict[bytes, Value] = {}
    kept: dict[bytes, dict[object, Value]] = {}
    """By sample and digest, where several have the sample."""
    count = 0
    for value in values:
        checkpoint()
        sample = _sample(rewriter.array(value))
        other = first.setdefault(sample, value)
        if other is value:  # most weights: their samples differ from all others
            continue
        if sample not in kept:
            kept[sample] = {_digest(rewriter.array(other)): other}
        if (same := kept[sample].setdefault(_digest(rewriter.array(value)), value)) is not value:
            rewriter.touched.update(dict.fromkeys(value.readers))
            value.replace_all_uses_with(same)  # the dead one goes with remove_dead_nodes
            count += 1
    return count


def _sample(array: Array | None) -> bytes:
    assert array is not None
    return array.tobytes() if array.size <= _SAMPLES else bytes(array.flat[:: array.size // _SAMPLES].tobytes())


def _digest(array: Array | None) -> object:
    """Equal for the same bits, so that -0.0 stays apart from 0.0 and NaN equals itself."""
    assert array is not None
    if array.size <= _SAMPLES:  # all are in the sample
        return ""
    if not any(array.strides):
        return "filled"
    if stored_bytes(array) < array.nbytes:
        return id(array)
    return digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
