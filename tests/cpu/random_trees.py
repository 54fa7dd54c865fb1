"""Random tree ensembles, as attributes of the operators of ai.onnx.ml."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ort_lite.dtypes import Array

FEATURES = 4
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
SPLITS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.5, 1e-40)
"""Few, so that rows hit them."""


@dataclass
class Forest:
    """Nodes by tree; leaves have weights (target, weight)."""

    trees: list[list[dict[str, Any]]] = field(default_factory=list)

    def by_id(self, prefix: str) -> dict[str, Any]:
        """For TreeEnsembleClassifier ("class") and TreeEnsembleRegressor ("target")."""
        rows = [(tree, k, node) for tree, nodes in enumerate(self.trees) for k, node in enumerate(nodes)]
        weights = [(tree, k, *pair) for tree, k, node in rows for pair in node["weights"]]
        return {
            "nodes_treeids": [tree for tree, _, _ in rows],
            "nodes_nodeids": [k for _, k, _ in rows],
            **{f"nodes_{key}": [node[key] for _, _, node in rows] for key in ("featureids", "modes", "values")},
            "nodes_truenodeids": [node["true"] for _, _, node in rows],
            "nodes_falsenodeids": [node["false"] for _, _, node in rows],
            "nodes_missing_value_tracks_true": [node["track"] for _, _, node in rows],
            f"{prefix}_treeids": [w[0] for w in weights],
            f"{prefix}_nodeids": [w[1] for w in weights],
            f"{prefix}_ids": [w[2] for w in weights],
            f"{prefix}_weights": [w[3] for w in weights],
        }

    def by_position(self, dtype: Any) -> dict[str, Any]:
        """For TreeEnsemble, whose leaves have one weight."""
        inner = {(t, k): None for t, nodes in enumerate(self.trees) for k, node in enumerate(nodes) if not node["weights"]}
        leaves = {(t, k): None for t, nodes in enumerate(self.trees) for k, node in enumerate(nodes) if node["weights"]}
        places = {key: n for part in (inner, leaves) for n, key in enumerate(part)}
        nodes = [(t, self.trees[t][k]) for t, k in inner]
        weights = [self.trees[t][k]["weights"][0] for t, k in leaves]
        children = {side: [(t, node[side]) for t, node in nodes] for side in ("true", "false")}
        return {
            "tree_roots": [places[t, 0] for t in range(len(self.trees))],
            "nodes_featureids": [node["featureids"] for _, node in nodes],
            "nodes_splits": np.array([node["values"] for _, node in nodes], dtype),
            "nodes_modes": np.array([MODES.index(node["modes"]) for _, node in nodes], np.uint8),
            "nodes_missing_value_tracks_true": [node["track"] for _, node in nodes],
            **{f"nodes_{side}nodeids": [places[key] for key in keys] for side, keys in children.items()},
            **{f"nodes_{side}leafs": [int(key in leaves) for key in keys] for side, keys in children.items()},
            "leaf_targetids": [target for target, _ in weights],
            "leaf_weights": np.array([weight for _, weight in weights], dtype),
        }


def random_forest(
    seed: int,
    trees: int,
    targets: Sequence[int],
    *,
    depth: int = 3,
    modes: Sequence[str] = MODES,
    tracks: bool = True,
    single: bool = False,
    full: bool = False,
    weight: Callable[[np.random.Generator], float] = lambda rng: rng.normal(),
    leaf: float = 0.2,
) -> Forest:
    """Leaves, one of `leaf` nodes, have weights for some of `targets`, for one (single), or for all (full), in any order."""
    rng = np.random.default_rng(seed)
    forest = Forest()
    for _ in range(trees):
        nodes: list[dict[str, Any]] = []
        least = len(targets) if full else 1
        most = 1 if single else len(targets)
        _grow(rng, nodes, depth, targets, modes, tracks, (least, most), weight, leaf)
        forest.trees.append(nodes)
    return forest


def _grow(
    rng: np.random.Generator,
    nodes: list[dict[str, Any]],
    depth: int,
    targets: Sequence[int],
    modes: Sequence[str],
    tracks: bool,
    weights: tuple[int, int],
    weight: Callable[[np.random.Generator], float],
    leaf: float,
) -> int:
    me = len(nodes)
    node: dict[str, Any] = {"featureids": 0, "modes": "LEAF", "values": 0.0, "true": 0, "false": 0, "track": 0, "weights": []}
    nodes.append(node)
    if nodes[0] is not node and (depth <= 0 or rng.random() < leaf):
        some = rng.permutation(targets)[: rng.integers(weights[0], weights[1], endpoint=True)]
        node["weights"] = [(int(target), float(np.float32(weight(rng)))) for target in some]
        return me
    node |= {"featureids": int(rng.integers(FEATURES)), "modes": str(rng.choice(modes)), "values": float(rng.choice(SPLITS))}
    node["track"] = int(tracks and rng.random() < 0.5)
    for side in ("true", "false"):
        node[side] = _grow(rng, nodes, depth - 1, targets, modes, tracks, weights, weight, leaf)
    return me


def rows(seed: int, count: int, dtype: str = "float32") -> Array:
    """(count, FEATURES) that hit the splits; floats with NaN and infinities."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-4, 4, (count, FEATURES)).astype(dtype)
    return rng.choice(np.array([*SPLITS, np.nan, np.inf, -np.inf]), (count, FEATURES)).astype(dtype)
