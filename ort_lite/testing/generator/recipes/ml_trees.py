"""Tree ensembles of ai.onnx.ml, both the old and the new operators."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.record import Record, field
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.ml_features import ML, features, floats, labels, post_transform, rows

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = len(MODES)
"""The number of the mode of TreeEnsemble that asks whether a feature is in a set."""


class Branch(Record, eq=False):
    """An inner node, whose children are branches or leaves."""

    feature: int
    mode: int
    split: float
    tracks: int
    """1 where NaN takes the true branch."""
    true: "Branch | Leaf"
    false: "Branch | Leaf"
    members: list[float] = field(default_factory=list)


class Leaf(Record, eq=False):
    """The weights of a leaf by target or class."""

    weights: dict[int, float]


class _Forest:
    """Draws trees over `width` features for `outputs` targets or classes. Thresholds are few, so that rows hit them exactly."""

    def __init__(self, draw: Draw, width: int, outputs: int, modes: int, single: bool) -> None:
        self.draw, self.width, self.outputs, self.single = draw, width, outputs, single
        self.modes = [draw.integer(0, modes - 1)] if draw.chance(0.4) else list(range(modes))
        self.trees = [self._grow(draw.integer(1, 3)) for _ in range(draw.integer(1, 4))]

    def _grow(self, depth: int) -> Branch:
        draw = self.draw
        children = [self._leaf() if depth <= 1 or draw.chance(0.25) else self._grow(depth - 1) for _ in range(2)]
        mode = draw.choice(self.modes)
        split = draw.choice([0.0, 0.5, draw.integer(-24, 24) / 8])
        members = [draw.integer(-24, 24) / 8 for _ in range(draw.integer(1, 3))] if mode == MEMBER else []
        return Branch(draw.integer(0, self.width - 1), mode, split, draw.integer(0, 1), children[0], children[1], members)

    def _leaf(self) -> Leaf:
        draw = self.draw
        count = 1 if self.single else draw.integer(1, self.outputs)
        return Leaf(dict(zip(draw.rng.sample(range(self.outputs), count), floats(draw, count), strict=True)))


def _by_id(draw: Draw, trees: list[Branch], prefix: str) -> dict[str, Any]:
    """Return the attributes of TreeEnsembleClassifier ("class") or TreeEnsembleRegressor ("target"), with arbitrary tree and node
    ids.
    """
    nodes: list[dict[str, Any]] = []
    weights: list[tuple[int, int, int, float]] = []

    def put(tree: int, node: Branch | Leaf, numbers: list[int]) -> int:
        number = numbers.pop()
        own: dict[str, Any] = {"treeids": tree, "nodeids": number, "featureids": 0, "modes": "LEAF", "values": 0.0}
        own |= {"truenodeids": 0, "falsenodeids": 0, "missing_value_tracks_true": 0, "hitrates": 1.0}
        nodes.append(own)
        if isinstance(node, Leaf):
            weights.extend((tree, number, target, weight) for target, weight in node.weights.items())
            return number
        own |= {"featureids": node.feature, "modes": MODES[node.mode], "values": node.split}
        own |= {"missing_value_tracks_true": node.tracks}
        own["truenodeids"], own["falsenodeids"] = put(tree, node.true, numbers), put(tree, node.false, numbers)
        return number

    scattered = draw.chance(0.2)
    for place, root in enumerate(trees):
        numbers = draw.rng.sample(range(40), 40) if scattered else list(range(39, -1, -1))
        put(place * 3 + 1 if scattered else place, root, numbers)
    left_out = {name for name in ("missing_value_tracks_true", "hitrates") if draw.chance(0.5)}
    columns = {f"nodes_{name}": [node[name] for node in nodes] for name in nodes[0] if name not in left_out}
    named = zip(("treeids", "nodeids", "ids", "weights"), zip(*weights, strict=True), strict=True)
    return columns | {f"{prefix}_{name}": list(values) for name, values in named}


def _as_tensors(draw: Draw, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the floats of rows of doubles as tensors of doubles, which version 3 allows."""
    if draw.version < 3 or draw.kind(0) != "float64" or draw.chance(0.2):
        return attributes
    names = ("nodes_values", "nodes_hitrates", "base_values", "class_weights", "target_weights")
    return {
        f"{name}_as_tensor" if name in names and value else name: np.array(value) if name in names and value else value
        for name, value in attributes.items()
    }


@recipe("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(draw: Draw) -> NodeProposal:
    """Draw rows, and a forest with one to three targets."""
    x, targets = rows(draw), draw.integer(1, 3)
    forest = _Forest(draw, features(x), targets, len(MODES), single=draw.chance(0.3))
    attributes = _by_id(draw, forest.trees, "target")
    attributes |= {"base_values": floats(draw, targets)} if draw.chance(0.4) else {}
    return call(
        [x.name],
        n_targets=targets,
        aggregate_function=draw.maybe(draw.choice(("AVERAGE", "SUM", "MIN", "MAX")), 0.8),
        post_transform=post_transform(draw),
        **_as_tensors(draw, attributes),
    )


@recipe("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(draw: Draw) -> NodeProposal:
    """Draw rows and a forest. One of two classes may have all the weights, without PROBIT."""
    x, classes = rows(draw), draw.integer(2, 4)
    outputs = 1 if classes == 2 and draw.chance(0.5) else classes
    forest = _Forest(draw, features(x), outputs, len(MODES), single=draw.chance(0.3))
    attributes = _by_id(draw, forest.trees, "class")
    attributes |= {"base_values": floats(draw, outputs)} if draw.chance(0.4) else {}
    named = labels(draw, 0, "classlabels_int64s", classes)
    return call([x.name], 2, post_transform=post_transform(draw, probit=classes > 2), **named, **_as_tensors(draw, attributes))


@recipe("TreeEnsemble", domain=ML)
def tree_ensemble(draw: Draw) -> NodeProposal:
    """Draw rows and a forest whose children are positions among nodes or leaves. Each leaf has one weight."""
    x, targets = rows(draw), draw.integer(1, 3)
    forest = _Forest(draw, features(x), targets, len(MODES) + 1, single=True)
    return call(
        [x.name],
        n_targets=targets,
        aggregate_function=draw.maybe(draw.integer(0, 3), 0.8),
        post_transform=draw.maybe(draw.integer(0, 4), 0.7),
        **_by_position(draw, forest.trees),
    )


def _by_position(draw: Draw, trees: list[Branch]) -> dict[str, Any]:
    nodes: list[Branch] = []
    leaves: list[Leaf] = []
    places: dict[int, int] = {}

    def put(node: Branch | Leaf) -> None:
        if isinstance(node, Leaf):
            places[id(node)] = len(leaves)
            leaves.append(node)
            return
        places[id(node)] = len(nodes)
        nodes.append(node)
        put(node.true)
        put(node.false)

    for root in trees:
        put(root)
    dtype = to_numpy(draw.kind(0))
    sets = [value for node in nodes if node.mode == MEMBER for value in (*node.members, float("nan"))]
    weights = [next(iter(leaf.weights.items())) for leaf in leaves]
    return {
        "tree_roots": [places[id(root)] for root in trees],
        "nodes_featureids": [node.feature for node in nodes],
        "nodes_modes": np.array([node.mode for node in nodes], np.uint8),
        "nodes_splits": _numbers([node.split for node in nodes], dtype),
        "nodes_missing_value_tracks_true": draw.maybe([node.tracks for node in nodes]),
        "nodes_hitrates": draw.maybe(np.ones(len(nodes), np.float32), 0.3),
        **{f"nodes_{side}nodeids": [places[id(getattr(node, side))] for node in nodes] for side in ("true", "false")},
        **{f"nodes_{side}leafs": [int(isinstance(getattr(node, side), Leaf)) for node in nodes] for side in ("true", "false")},
        "membership_values": _numbers(sets, dtype) if sets else None,
        "leaf_targetids": [target for target, _ in weights],
        "leaf_weights": _numbers([weight for _, weight in weights], dtype),
    }


def _numbers(values: list[float], dtype: Any) -> Array:
    return np.array(values, np.float64).astype(dtype)
