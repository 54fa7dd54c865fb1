"""Tree ensembles: rows go down the trees in groups, all trees of a group in step; then scores and labels are made of the sums."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.native.lang import OK, Ptr, Static, cast, like, native, shift, span
from ort_lite.shapes import Dim, less
from ort_lite_cpu.op import Op
from ort_lite_cpu.operators.scores import TRANSFORMS, Labels, kind_of, logistic, probit, transform
from ort_lite_cpu.operators.tree_attributes import floats, ints, nodes_by_id, nodes_by_position
from ort_lite_cpu.operators.tree_tables import Forest, Trees, forest
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.tensor import Tensor

GROUP = 16
"""Trees that a row goes down in step: so many loads that do not wait for each other."""
BLOCK = 64
"""Rows that stay in a cache while all trees pass."""
ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})


@native
def keys(x: Ptr, y: Ptr, count: int, infinity: int, nan: int, part: int, parts: int) -> int:
    """y = integers in the order of x, floats given as their bits: see tree_tables.order_keys."""
    for i in span(count, part, parts):
        magnitude = x[i] & nan
        key = -magnitude if x[i] < 0 else magnitude
        y[i] = nan if magnitude > infinity else key
    return OK


@native
def descend(x: Ptr, nodes: Ptr, roots: Ptr, at: Ptr, count: int, missing: Static) -> None:
    """at[:count] = the leaves where the row x ends in the trees at `roots`."""
    for t in range(count):
        at[t] = roots[t]
    moved = count
    while moved != 0:
        moved = 0
        for t in range(count):
            node = shift(nodes, at[t] * 4)
            feature = node[0]
            if missing:
                low = feature < 0
                key = x[~feature if low else feature]
                high = key > node[1] and not (low and key == like(key, -1) & MAXIMA[0])
            else:
                high = x[feature] > node[1]
            to = node[3 if high else 2]
            moved |= to ^ at[t]
            at[t] = to


@native
def walk(
    x: Ptr, nodes: Ptr, roots: Ptr, starts: Ptr, targets: Ptr, weights: Ptr, at: Ptr, sums: Ptr, seen: Ptr, rows: int,
    features: int, trees: int, inner: int, outputs: int, missing: Static, aggregate: Static, part: int, parts: int,
) -> int:  # fmt: skip
    """sums (rows, outputs) of the weights at the leaves, or their least or largest; seen: whether there was any."""
    first, last = rows * part // parts, rows * (part + 1) // parts
    mine = shift(at, part * GROUP)
    for block in range(first, last, BLOCK):
        end = min(block + BLOCK, last)
        for i in range(block * outputs, end * outputs):
            sums[i] = like(sums, 0)
            seen[i] = like(seen, 0)
        for group in range(0, trees, GROUP):
            count = min(GROUP, trees - group)
            for row in range(block, end):
                if count == GROUP:
                    descend(shift(x, row * features), nodes, shift(roots, group), mine, GROUP, missing)
                else:
                    descend(shift(x, row * features), nodes, shift(roots, group), mine, count, missing)
                for t in range(count):
                    leaf = mine[t] - inner
                    for k in range(starts[leaf], starts[leaf + 1]):
                        i = row * outputs + targets[k]
                        weight = weights[k]
                        if aggregate == "sum":
                            sums[i] = sums[i] + weight
                        elif aggregate == "min":
                            sums[i] = weight if seen[i] == 0 or weight < sums[i] else sums[i]
                        else:
                            sums[i] = weight if seen[i] == 0 or weight > sums[i] else sums[i]
                        seen[i] = like(seen, 1)
    return OK
