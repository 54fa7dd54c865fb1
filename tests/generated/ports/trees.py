"""Tree ensembles of ai.onnx.ml whose attributes list nodes and the weights of leaves; of classifiers those of three classes or more."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.learned import ML, labels_of, transformed
from tests.generated.ports.registry import port

_GOES_LEFT: dict[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def _numbers(how: dict[str, Any], name: str) -> Array:
    """An attribute of floats, which may come as a tensor."""
    tensor = how.get(f"{name}_as_tensor")
    return np.array(how.get(name) or (), np.float64) if tensor is None else tensor.astype(np.float64)


class _Forest:
    """The nodes by tree and number, and the weights (output, weight) of each of them."""

    def __init__(self, how: dict[str, Any], leaves: str) -> None:
        keys = list(zip(how["nodes_treeids"], how["nodes_nodeids"], strict=True))
        self._place = {key: place for place, key in enumerate(keys)}
        self._how, self._values = how, _numbers(how, "nodes_values")
        self._tracks = how.get("nodes_missing_value_tracks_true") or [0] * len(keys)
        inner = [place for place, mode in enumerate(how["nodes_modes"]) if mode != "LEAF"]
        children = {(keys[p][0], how[f"nodes_{side}nodeids"][p]) for p in inner for side in ("true", "false")}
        self.roots = [key for key in keys if key not in children]
        self._weights: dict[Any, list[tuple[int, float]]] = {}
        weights = zip(how[f"{leaves}_treeids"], how[f"{leaves}_nodeids"], how[f"{leaves}_ids"], strict=True)
        for (tree, node, output), weight in zip(weights, _numbers(how, f"{leaves}_weights"), strict=True):
            self._weights.setdefault((tree, node), []).append((output, weight))

    def leaf(self, row: Array, root: tuple[int, int]) -> list[tuple[int, float]]:
        """Return the weights at which a row arrives."""
        how, key = self._how, root
        while (mode := how["nodes_modes"][self._place[key]]) != "LEAF":
            place = self._place[key]
            value = row[how["nodes_featureids"][place]]
            left = _GOES_LEFT[mode](value, self._values[place]) or (np.isnan(value) and self._tracks[place])
            key = (key[0], how["nodes_truenodeids" if left else "nodes_falsenodeids"][place])
        return self._weights.get(key, [])


def _gathered(x: Array, forest: _Forest, outputs: int, gather: Callable[[float, float], float]) -> Array:
    """Gather the weights of all trees for each row and output, NaN where there is none."""
    rows = np.atleast_2d(x if x.dtype == np.float64 else x.astype(np.float32))
    found = np.full((len(rows), outputs), np.nan)
    for row, out in zip(rows, found, strict=True):
        for root in forest.roots:
            for output, weight in forest.leaf(row, root):
                out[output] = weight if np.isnan(out[output]) else gather(out[output], weight)
    return found


@port("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(x: Array, **how: Any) -> Array:
    """Sum the weights of leaves for each target. If there are several, one without a leaf is 0, without its base value."""
    targets, forest, kind = how["n_targets"], _Forest(how, "target"), how.get("aggregate_function", "SUM")
    gather = {"MIN": min, "MAX": max}.get(kind, lambda one, other: one + other)
    found = _gathered(x, forest, targets, gather)
    seen = ~np.isnan(found) | (targets == 1)
    scores = np.nan_to_num(found) / (len(forest.roots) if kind == "AVERAGE" else 1)
    base = _numbers(how, "base_values")
    return transformed(np.where(seen, scores + (base if base.size else 0.0), 0.0), how.get("post_transform", "NONE"))


@port("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(x: Array, **how: Any) -> tuple[Array, Array]:
    """The class of the greatest score wins, among those that a leaf or a base value has."""
    labels = labels_of(how, "classlabels_int64s")
    if len(labels) < 3:
        raise NotImplementedError("two classes")  # how one score makes two, onnxruntime alone defines
    found = _gathered(x, _Forest(how, "class"), len(labels), lambda one, other: one + other)
    base = _numbers(how, "base_values")
    if len(base) == len(labels):
        found = np.nan_to_num(found) + base
    best = np.where(np.isnan(found), -np.inf, found).argmax(1)
    return labels[best], transformed(np.nan_to_num(found), how.get("post_transform", "NONE"))
