"""Initialisers with the same bytes become one."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Graph, Value
from ort_lite.transform import Rewriter, all_graphs, graph_pass

_SAMPLES = 16


@graph_pass(level="basic", counterparts=("ConstantSharing",))
def merge_duplicate_initializers(graph: Graph, rewriter: Rewriter) -> int:
    """Initialisers of one graph that agree in type, shape and a few samples are compared in full.

    O(initialisers + bytes of true duplicates): weights that differ are told apart by the samples. Strings are left alone.
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
    kept: dict[bytes, list[Value]] = {}
    count = 0
    for value in values:
        array = rewriter.array(value)
        assert array is not None
        alike = kept.setdefault(_sample(array), [])
        for other in alike:
            if array.size <= _SAMPLES or _same_bytes(array, rewriter.array(other)):  # of few elements, all are in the sample
                rewriter.touched.update(dict.fromkeys(value.readers))
                value.replace_all_uses_with(other)  # the dead one goes with remove_dead_nodes
                count += 1
                break
        else:
            alike.append(value)
    return count


def _sample(array: Array) -> bytes:
    return array.tobytes() if array.size <= _SAMPLES else bytes(array.flat[:: array.size // _SAMPLES].tobytes())


def _same_bytes(a: Array, b: Array | None) -> bool:
    """Bits, so that -0.0 stays apart from 0.0 and NaN equals itself. Views of one element compare that element."""
    if b is None or a is b:
        return a is b
    if not any(a.strides) and not any(b.strides):
        return bool(a.flat[:1].tobytes() == b.flat[:1].tobytes())
    kind = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else None
    return bool(np.array_equal(a.view(kind), b.view(kind))) if kind else a.tobytes() == b.tobytes()
