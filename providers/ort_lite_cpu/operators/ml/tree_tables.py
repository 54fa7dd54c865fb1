"""Tree ensembles as flat tables: every comparison becomes `key <= threshold`, of integers in the order of the floats.

So one kernel serves all modes, and nothing depends on how floats compare: -0.0 is 0.0, NaN is above all else.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Modes in the order of TreeEnsemble-5's numbers."""
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
ONE, ALL, SOME = 0, 1, 2
"""Numbers of weights of a leaf: one, one for each output, or some."""

DEEPEST = 10_000
MOST_VISITS = 1_000_000
"""Visits to nodes that several others share. Beyond that the nodes are taken to form a cycle."""


class Trees(Record, eq=False):
    """Inner nodes by column. Children and roots are numbers of inner nodes, or -1 - leaf.

    Leaf k adds weights[starts[k] : starts[k + 1]] to `targets` of the same places. `track`: NaN takes the true branch.
    """

    features: Array
    modes: Array
    splits: Array
    true: Array
    false: Array
    track: Array
    roots: Array
    starts: Array
    targets: Array
    weights: Array
    members: tuple[Array, ...] = ()
    """The values that take the true branch of each node with the mode MEMBER, in order."""


class Forest(Record, eq=False):
    """The tables that the kernel reads. nodes (inner + leaves, 4): feature, threshold, next where key <= threshold, next elsewhere.

    A feature of ~f instead of f says that NaN counts as low. A leaf is its own successor, always by the low side, so that all
    trees of a group can go on until the last one is there; where each leaf has one weight, its bits take the other side.
    `leaf` is the number of weights of a leaf: ONE, ALL, one for each output in order, or SOME.
    """

    nodes: Array
    count: int
    """The number of trees; their roots are padded with leaves to a multiple of a number."""
    roots: Array
    inner: int
    starts: Array
    targets: Array
    weights: Array
    features: int
    """The number of features that a row should have at least."""
    missing: bool
    """True if NaN counts as low anywhere."""
    leaf: int
    levels: int
    """Levels of the deepest tree: after as many steps every row is at a leaf of each tree."""


def order_keys(values: Array) -> Array:
    """Return integers in the order of the floats; NaN is the largest."""
    integer = np.int32 if values.dtype == np.float32 else np.int64
    bits = values.view(integer).astype(np.int64)
    keys = np.where(bits < 0, -(bits & np.iinfo(integer).max), bits)
    return np.where(np.isnan(values), np.iinfo(integer).max, keys)


def forest(trees: Trees, outputs: int, multiple: int = 1) -> Forest:
    """Build the tables, with roots that are leaves up to a `multiple` of trees. `outputs`: how many targets there are.

    Raises ValueError for trees that are none: children that do not exist, cycles, features below zero or beyond int32.
    """
    _check(trees)
    trees = _with_members(trees)
    integer = np.int32 if trees.splits.dtype == np.float32 else np.int64
    features, keys, low_next, high_next, missing = _comparisons(trees, integer)
    inner, leaves = len(features), len(trees.starts) - 1
    if inner + leaves > np.iinfo(np.int32).max:
        raise ValueError(f"{inner + leaves} nodes are too many")
    itself = np.arange(inner, inner + leaves)
    roots, low_next, high_next = (_number(nodes, inner) for nodes in (trees.roots, low_next, high_next))
    levels = _levels(roots, low_next, high_next)
    single = bool((np.diff(trees.starts) == 1).all())
    weights = None if single else _weights_of_all(trees, outputs)
    columns = [
        np.concatenate([features, np.zeros(leaves, np.int64)]),
        np.concatenate([keys, np.full(leaves, np.iinfo(integer).max)]),
        np.concatenate([low_next, itself]),
        np.concatenate([high_next, trees.weights.view(integer) if single else itself]),
    ]
    seen = 1 + int(trees.features.max(initial=0)) if len(trees.roots) else 0  # a leaf looks at the first, whatever it says
    idle = np.full(-len(roots) % multiple, inner)
    return Forest(
        count=len(roots),
        nodes=np.stack(columns, axis=1).astype(integer),
        roots=np.concatenate([roots, idle]),
        inner=inner,
        starts=trees.starts,
        targets=trees.targets,
        weights=trees.weights if weights is None else weights,
        features=seen,
        missing=missing,
        leaf=ONE if single else SOME if weights is None else ALL,
        levels=levels,
    )


def _weights_of_all(trees: Trees, outputs: int) -> Array | None:
    """Return (leaves * outputs,) if each leaf has one weight for every output, in the order of those; else None."""
    if outputs < 1 or not (np.diff(trees.starts) == outputs).all():
        return None
    targets, weights = trees.targets.reshape(-1, outputs), trees.weights.reshape(-1, outputs)
    order = np.argsort(targets, axis=1)
    if not (np.take_along_axis(targets, order, 1) == np.arange(outputs)).all():
        return None
    return np.take_along_axis(weights, order, 1).reshape(-1)


def _comparisons(trees: Trees, integer: type[np.signedinteger[Any]]) -> tuple[Array, Array, Array, Array, bool]:
    """Return (features, keys, next if low, next if high) of the inner nodes, EQ and NEQ as two, and True if NaN is low anywhere."""
    top, low = np.iinfo(integer).max, np.iinfo(integer).min
    modes, keys, nan = trees.modes, order_keys(trees.splits), np.isnan(trees.splits)
    swapped = (modes == GT) | (modes == GTE)
    keys = np.where(nan, np.where(swapped, top, low), keys - ((modes == LT) | (modes == GTE)))
    nan_is_low = np.where(swapped, ~trees.track, trees.track & (modes != NEQ))
    low_next, high_next = np.where(swapped, trees.false, trees.true), np.where(swapped, trees.true, trees.false)
    # EQ: up to the key, and not up to the one before. NEQ: neither, for NaN too.
    twice = np.flatnonzero((modes == EQ) | (modes == NEQ))
    equal = modes[twice] == EQ
    second = len(modes) + np.arange(len(twice))
    low_next[twice] = second
    high_next[twice] = np.where(equal, trees.false[twice], trees.true[twice])
    features = np.concatenate([np.where(nan_is_low, ~trees.features, trees.features), trees.features[twice]])
    keys = np.concatenate([keys, np.where(nan[twice], low, keys[twice] - 1)])
    low_next = np.concatenate([low_next, np.where(equal, trees.false[twice], trees.true[twice])])
    high_next = np.concatenate([high_next, np.where(equal, trees.true[twice], trees.false[twice])])
    return features, keys, low_next, high_next, bool(nan_is_low.any())


def _number(nodes: Array, inner: int) -> Array:
    return np.where(nodes < 0, inner - 1 - nodes, nodes)


def _check(trees: Trees) -> None:
    inner, leaves = len(trees.features), len(trees.starts) - 1
    for name, nodes in (("true", trees.true), ("false", trees.false), ("root", trees.roots)):
        if len(nodes) and (nodes.max() >= inner or nodes.min() < -leaves):
            raise ValueError(f"a {name} node is out of range: there are {inner} nodes and {leaves} leaves")
    for feature in (trees.features.min(initial=0), trees.features.max(initial=0)):
        if not 0 <= feature < np.iinfo(np.int32).max:
            raise ValueError(f"a node asks for feature {feature}")


def _levels(roots: Array, low_next: Array, high_next: Array) -> int:
    """Return the number of levels. Raises ValueError for cycles. O(nodes) for trees; nodes that several others share are seen again."""
    inner = len(low_next)
    level, visits = roots[roots < inner], 0
    for count in range(DEEPEST):
        visits += len(level)
        if not len(level):
            return count
        if visits > inner + len(roots) + MOST_VISITS:
            break
        children = np.concatenate([low_next[level], high_next[level]])
        level = np.unique(children[children < inner])
    raise ValueError(f"the nodes form a cycle, or a tree of more than {DEEPEST} levels")


def _with_members(trees: Trees) -> Trees:
    """Return trees in which nodes with the mode MEMBER are searches of few steps among their sorted values."""
    at = np.flatnonzero(trees.modes == MEMBER)
    if not len(at):
        return trees
    added = _Search(trees, len(trees.features))
    features, modes, splits = trees.features.copy(), trees.modes.copy(), trees.splits.copy()
    true, false = trees.true.copy(), trees.false.copy()
    for node, values in zip(at.tolist(), trees.members, strict=True):
        row = added.rows(node, np.unique(values[~np.isnan(values)]))
        modes[node], splits[node], true[node], false[node] = row
    more = list(zip(*added.made, strict=True)) or [()] * 6
    return trees.replace(
        features=np.concatenate([features, np.array(more[0], np.int64)]),
        modes=np.concatenate([modes, np.array(more[1], np.int64)]),
        splits=np.concatenate([splits, np.array(more[2], splits.dtype)]),
        true=np.concatenate([true, np.array(more[3], np.int64)]),
        false=np.concatenate([false, np.array(more[4], np.int64)]),
        track=np.concatenate([trees.track, np.array(more[5], bool)]),
    )


class _Search:
    """A builder of nodes that look for a feature's value among sorted ones; `made` are those behind the first of each search."""

    def __init__(self, trees: Trees, count: int) -> None:
        self._trees, self._count = trees, count
        self.made: list[tuple[int, int, float, int, int, bool]] = []

    def rows(self, node: int, values: Array) -> tuple[int, float, int, int]:
        """Return mode, split, true and false child of the first node. NaN is no member, unless it is tracked."""
        true, false = int(self._trees.true[node]), int(self._trees.false[node])
        if not len(values):
            return LEQ, float("nan"), true, false
        if len(values) == 1:
            return EQ, float(values[0]), true, false
        middle = (len(values) - 1) // 2
        return LEQ, float(values[middle]), self._add(node, values[: middle + 1]), self._add(node, values[middle + 1 :])

    def _add(self, node: int, values: Array) -> int:
        mode, split, true, false = self.rows(node, values)
        track = bool(self._trees.track[node])
        self.made.append((int(self._trees.features[node]), mode, split, true, false, track))
        return self._count + len(self.made) - 1
