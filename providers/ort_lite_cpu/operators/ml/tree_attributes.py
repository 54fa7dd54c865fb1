"""The attributes of tree ensembles, of both generations, as `Trees`."""

import struct
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.ml.tree_tables import MEMBER, MODES, Trees

LEAF = len(MODES)
_CODES = {**{name: code for code, name in enumerate(MODES[:MEMBER])}, "LEAF": LEAF}


def ints(op: NodeLowering, name: str) -> Array:
    """Return an attribute of integers as an array."""
    given = op.attr(name) or ()
    return np.frombuffer(struct.pack(f"={len(given)}q", *given), np.int64)  # a third of what `np.array` takes


def floats(op: NodeLowering, name: str, dtype: Any) -> Array:
    """Return a list of floats, or what version 3 has for doubles, a tensor."""
    tensor = op.attr(f"{name}_as_tensor")
    if tensor is not None:
        return np.array(tensor.reshape(-1), dtype)
    given = op.attr(name) or ()
    return np.frombuffer(struct.pack(f"={len(given)}d", *given), np.float64).astype(dtype)


def nodes_by_id(op: NodeLowering, prefix: str, dtype: Any) -> Trees:
    """Return the nodes of TreeEnsembleClassifier or -Regressor, named by tree and node; `prefix` is "class" or "target".

    Nodes that follow each other with one tree's number are a tree, the first of them is its root. Raises ValueError.
    """
    given = op.attr("nodes_modes") or ()
    if unknown := set(given) - _CODES.keys():
        raise ValueError(f"nodes_modes has {min(unknown)!r}; known are {', '.join(_CODES)}")
    modes = np.fromiter(map(_CODES.__getitem__, given), np.int64, len(given))
    names = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")
    columns = {name: ints(op, name) for name in names} | {"nodes_values": floats(op, "nodes_values", dtype)}
    for name, column in columns.items():
        if len(column) != len(modes):
            raise ValueError(f"{name} has {len(column)} elements, nodes_modes {len(modes)}")
    trees, features = columns["nodes_treeids"], columns["nodes_featureids"]
    find = _Finder(trees, columns["nodes_nodeids"])
    leaf = modes == LEAF
    number = np.where(leaf, -np.cumsum(leaf), np.cumsum(~leaf) - 1)  # of a leaf -1 - k, of an inner node k
    inner = np.flatnonzero(~leaf)
    true, false = (number[find(trees[inner], columns[f"nodes_{side}nodeids"][inner])] for side in ("true", "false"))
    track = _tracks(op, len(modes))
    starts, targets, weights = _weights(op, prefix, dtype, find, number, int(leaf.sum()))
    return Trees(
        features=features[inner],
        modes=modes[inner],
        splits=columns["nodes_values"][inner],
        true=true,
        false=false,
        track=track[inner],
        roots=number[np.flatnonzero(np.diff(trees, prepend=trees[:1] - 1))],
        starts=starts,
        targets=targets,
        weights=weights,
    )


def _tracks(op: NodeLowering, count: int) -> Array:
    """Return for each of the nodes whether NaN takes the true branch. Raises ValueError unless all nodes say so, or none."""
    tracks = ints(op, "nodes_missing_value_tracks_true")
    if len(tracks) not in (0, count):
        raise ValueError(f"nodes_missing_value_tracks_true has {len(tracks)} elements for {count} nodes")
    return tracks == 1 if len(tracks) else np.zeros(count, bool)


def _weights(
    op: NodeLowering, prefix: str, dtype: Any, find: "_Finder", number: Array, leaves: int
) -> tuple[Array, Array, Array]:
    """Return weights leaf by leaf. Those of inner nodes, which old converters wrote, count for nothing."""
    owners = number[find(ints(op, f"{prefix}_treeids"), ints(op, f"{prefix}_nodeids"))]
    targets, weights = ints(op, f"{prefix}_ids"), floats(op, f"{prefix}_weights", dtype)
    if not len(owners) == len(targets) == len(weights):
        raise ValueError(
            f"{prefix}_nodeids, {prefix}_ids and {prefix}_weights have {len(owners)}, {len(targets)} and {len(weights)}"
        )
    kept = np.flatnonzero(owners < 0)
    kept = kept[np.argsort(-owners[kept], kind="stable")]
    starts = np.searchsorted(-1 - owners[kept], np.arange(leaves + 1))
    return starts, targets[kept], weights[kept]


class _Ids:
    """Numbers and their ranks. Those of nearly all models are 0, 1, ..., each its own rank."""

    def __init__(self, ids: Array) -> None:
        top = int(ids.max(initial=-1))
        dense = ids.min(initial=0) == 0 and top < len(ids) and bool(np.bincount(ids).all())
        self._known = None if dense else np.unique(ids)
        self.count = top + 1 if self._known is None else len(self._known)

    def rank(self, ids: Array) -> Array:
        """Return the rank of a tree that is not known: any from 0 to `count`."""
        return np.clip(ids, 0, self.count) if self._known is None else np.searchsorted(self._known, ids)

    def has(self, ids: Array) -> Array:
        return (ids >= 0) & (ids < self.count) if self._known is None else np.isin(ids, self._known)


class _Finder:
    """The positions of nodes by tree and number."""

    def __init__(self, trees: Array, nodes: Array) -> None:
        self._trees, self._nodes = _Ids(trees), _Ids(nodes)
        keys = self._keys(trees, nodes)
        self._order = np.argsort(keys, kind="stable")  # in no time where they are in order
        self._keys_in_order = keys[self._order]
        again = np.flatnonzero(np.diff(self._keys_in_order) == 0)
        if len(again):
            at = self._order[again[0]]
            raise ValueError(f"node {nodes[at]} is there twice in tree {trees[at]}")

    def _keys(self, trees: Array, nodes: Array) -> Array:
        return self._trees.rank(trees) * (self._nodes.count + 1) + self._nodes.rank(nodes)

    def __call__(self, trees: Array, nodes: Array) -> Array:
        """Raise ValueError for a node that does not exist."""
        if len(trees) != len(nodes):
            raise ValueError(f"there are {len(trees)} tree numbers for {len(nodes)} nodes")
        known = self._trees.has(trees) & self._nodes.has(nodes)
        keys = self._keys(trees, nodes)
        at = np.searchsorted(self._keys_in_order, keys)
        known &= at < len(self._order)
        known[known] = self._keys_in_order[at[known]] == keys[known]
        if not known.all():
            missing = int(np.flatnonzero(~known)[0])
            raise ValueError(f"tree {trees[missing]} has no node {nodes[missing]}")
        return self._order[at]


def nodes_by_position(op: NodeLowering, dtype: Any) -> Trees:
    """Return the nodes of TreeEnsemble-5, whose children are positions among nodes or leaves. Raises ValueError."""
    modes = np.array(op.attr("nodes_modes"), np.int64).reshape(-1)
    features, splits = ints(op, "nodes_featureids"), np.array(op.attr("nodes_splits"), dtype).reshape(-1)
    true, true_leaf = ints(op, "nodes_truenodeids"), ints(op, "nodes_trueleafs")
    false, false_leaf = ints(op, "nodes_falsenodeids"), ints(op, "nodes_falseleafs")
    if any(len(column) != len(modes) for column in (features, splits, true, true_leaf, false, false_leaf)):
        raise ValueError(f"attributes of nodes differ in length from nodes_modes, {len(modes)}")
    if modes.min(initial=0) < 0 or modes.max(initial=0) > MEMBER:
        raise ValueError(f"nodes_modes should be 0 to {MEMBER}")
    roots = ints(op, "tree_roots")
    if min(true.min(initial=0), false.min(initial=0), roots.min(initial=0)) < 0:
        raise ValueError("a child or a root is below zero")
    track = _tracks(op, len(modes))
    targets, weights = ints(op, "leaf_targetids"), np.array(op.attr("leaf_weights"), dtype).reshape(-1)
    if len(targets) != len(weights):
        raise ValueError(f"leaf_targetids has {len(targets)} elements, leaf_weights {len(weights)}")
    return Trees(
        features=features,
        modes=modes,
        splits=splits,
        true=np.where(true_leaf != 0, -1 - true, true),
        false=np.where(false_leaf != 0, -1 - false, false),
        track=track,
        roots=roots,
        starts=np.arange(len(targets) + 1),
        targets=targets,
        weights=weights,
        members=_members(op, int((modes == MEMBER).sum()), dtype),
    )


def _members(op: NodeLowering, count: int, dtype: Any) -> tuple[Array, ...]:
    """Return `membership_values`, cut at each NaN: one piece for each node with the mode MEMBER."""
    tensor = op.attr("membership_values")
    values = np.empty(0, dtype) if tensor is None else np.array(tensor, dtype).reshape(-1)
    pieces = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    if not len(pieces[-1]):  # behind the last NaN
        pieces.pop()
    if len(pieces) != count:
        raise ValueError(f"membership_values has {len(pieces)} sets, each ended by a NaN, for {count} nodes of BRANCH_MEMBER")
    return tuple(pieces)
