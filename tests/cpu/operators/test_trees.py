"""Tree ensembles against onnxruntime; all modes, aggregates, transforms and rules for two classes."""

import itertools
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite_cpu.operators.ml.tree_tables import ALL, ONE, SOME, Trees, forest
from tests.cpu.check import check_op, run_op
from tests.cpu.ort import ort_op
from tests.cpu.random_trees import MODES, random_forest, rows

ML: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 3}
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [10.0, 20.0],
    "n_targets": 1,
}


def regress(x: Array, attributes: dict[str, Any], rtol: float = 1e-5) -> None:
    [wanted] = ort_op("TreeEnsembleRegressor", [x], attributes, **ML)
    check_op("TreeEnsembleRegressor", x, expected=wanted, rtol=rtol, **ML, **attributes)


def classify(x: Array, attributes: dict[str, Any], labels: str = "int64", columns: int = 99) -> None:
    """`columns`: how many columns of the scores onnxruntime defines."""
    label, scores = ort_op("TreeEnsembleClassifier", [x], attributes, **ML, outputs=[labels, "float32"])
    got = run_op("TreeEnsembleClassifier", [x], attributes, outputs=2, **ML)
    assert got[0].tolist() == label.tolist()
    np.testing.assert_allclose(got[1][:, :columns], scores[:, :columns], 1e-4, 1e-5)
    if columns == 99:
        check_op("TreeEnsembleClassifier", x, expected=[label, scores], outputs=2, rtol=1e-4, atol=1e-5, **ML, **attributes)


def test_a_stump_compares_one_feature() -> None:
    x = np.array([[9, 0.5], [9, 0.6], [9, -9]], np.float32)
    check_op("TreeEnsembleRegressor", x, expected=np.array([[10], [20], [10]], np.float32), **ML, **STUMP)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tracks", [True, False])
def test_every_mode_and_the_way_of_missing_values(mode: str, tracks: bool) -> None:
    regress(rows(1, 70), {**random_forest(1, 5, [0], modes=[mode], tracks=tracks).by_id("target"), "n_targets": 1})


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_rows_of_other_types(dtype: str) -> None:
    attributes = random_forest(2, 20, [0], single=True).by_id("target")
    if dtype == "float64":
        attributes |= {"n_targets": 1}
        wide = {key: value for key, value in attributes.items() if key not in ("nodes_values", "target_weights")}
        wide["nodes_values_as_tensor"] = np.array(attributes["nodes_values"])
        wide["target_weights_as_tensor"] = np.array(attributes["target_weights"]) + 1e-12
        regress(rows(2, 40, dtype), wide)
    else:  # onnxruntime has no regressor of integers
        x = rows(2, 40, dtype)
        [wanted] = ort_op("TreeEnsembleRegressor", [x.astype(np.float32)], {**attributes, "n_targets": 1}, **ML)
        check_op("TreeEnsembleRegressor", x, expected=wanted, **ML, n_targets=1, **attributes)


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_every_aggregate_with_base_values(aggregate: str, targets: int) -> None:
    attributes = random_forest(3, 18, range(targets)).by_id("target")
    regress(
        rows(3, 30),
        {**attributes, "n_targets": targets, "aggregate_function": aggregate, "base_values": [0.5, -1.0, 2.0][:targets]},
    )


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_transform_of_regressors(transform: str, targets: int) -> None:
    attributes = random_forest(4, 9, range(targets), weight=lambda rng: rng.random() / 30).by_id("target")
    regress(rows(4, 30), {**attributes, "n_targets": targets, "post_transform": transform}, rtol=1e-4)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("base", [{}, {"base_values": [0.1, 0.2, 0.3]}], ids=str)
def test_classes_are_chosen_by_their_sums(transform: str, base: dict[str, Any]) -> None:
    attributes = random_forest(5, 7, range(3), weight=lambda rng: rng.random()).by_id("class")
    classify(rows(5, 30), {**attributes, "classlabels_int64s": [7, 5, 9], "post_transform": transform, **base})


TWO = list(itertools.product(["one", "both"], [True, False], [0, 1, 2], ["NONE", "LOGISTIC", "SOFTMAX", "PROBIT"]))


@pytest.mark.parametrize(("classes", "positive", "base", "transform"), TWO)
def test_two_classes_follow_the_rules_of_onnxruntime(classes: str, positive: bool, base: int, transform: str) -> None:
    ids = [1] if classes == "one" else [0, 1]
    scale = 0.1 if transform == "PROBIT" else 0.3  # few digits of probit are right near 1/2
    forest = random_forest(6, 4, ids, weight=lambda rng: (rng.random() - (0 if positive else 0.6)) * scale)
    attributes = {**forest.by_id("class"), "classlabels_int64s": [4, 8], "post_transform": transform}
    if base:
        attributes["base_values"] = [0.05, 0.1][:base]
    undefined = base < 2 and (transform == "PROBIT" or (base == 1 and classes == "both"))
    classify(rows(6, 30), attributes, columns=1 if undefined else 99)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("targets", [1, 2])
def test_ensembles_of_version_five(targets: int, dtype: str) -> None:
    attributes = random_forest(8, 18, range(targets), single=True, leaf=0.3).by_position(dtype)
    attributes |= {"n_targets": targets, "aggregate_function": 0}
    x = rows(8, 40, dtype)
    [wanted] = ort_op("TreeEnsemble", [x], attributes, domain="ai.onnx.ml", opset=5, outputs=[dtype])
    check_op("TreeEnsemble", x, expected=wanted, domain="ai.onnx.ml", opset=5, **attributes)


def test_version_five_numbers_transforms_as_the_specification_does() -> None:
    attributes = {**random_forest(8, 18, range(2), single=True).by_position("float32"), "n_targets": 2}
    x = rows(8, 40)
    how: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 5}
    [plain] = run_op("TreeEnsemble", [x], attributes, **how)  # onnxruntime has 1 and 2 the other way round
    softmax = np.exp(plain) / np.exp(plain).sum(1, keepdims=True)
    check_op("TreeEnsemble", x, expected=softmax, post_transform=1, **how, **attributes)
    check_op("TreeEnsemble", x, expected=1 / (1 + np.exp(-plain)), post_transform=2, **how, **attributes)


VERSION_FIVE: dict[str, Any] = {
    "nodes_splits": np.array([0.5], np.float32),
    "nodes_featureids": [0],
    "nodes_modes": np.array([0], np.uint8),
    "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1],
    "nodes_trueleafs": [1],
    "nodes_falseleafs": [1],
    "leaf_targetids": [0, 0],
    "leaf_weights": np.array([1, 2], np.float32),
    "tree_roots": [0],
    "n_targets": 1,
}


@pytest.mark.parametrize("track", [0, 1])
@pytest.mark.parametrize("members", [[], [2.0], [2.0, -1.0], [5.0, 1.0, 2.0, -0.0, 7.0]], ids=str)
def test_members_of_a_set_take_the_true_branch(members: list[float], track: int) -> None:
    attributes: dict[str, Any] = VERSION_FIVE | {
        "nodes_splits": np.zeros(1, np.float32),
        "nodes_modes": np.array([6], np.uint8),
        "nodes_missing_value_tracks_true": [track],
        "leaf_weights": np.array([1, 0], np.float32),
        "membership_values": np.array([*members, np.nan], np.float32),
    }
    x = np.array([[v] for v in (2, -1, 0, 1, 5, 7, 6.5, np.inf, np.nan)], np.float32)
    wanted = np.array([[v[0] in members or (np.isnan(v[0]) and track)] for v in x], np.float32)
    check_op("TreeEnsemble", x, expected=wanted, domain="ai.onnx.ml", opset=5, **attributes)


@pytest.mark.parametrize("shape", [(0, 4), (4,), (1, 6)], ids=str)
def test_no_rows_a_vector_and_more_features_than_asked_for(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    attributes = {**random_forest(9, 3, [0]).by_id("target"), "n_targets": 1}
    table = x.reshape(-1, x.shape[-1])
    wanted = ort_op("TreeEnsembleRegressor", [table], attributes, **ML) if x.size else [np.empty((0, 1), np.float32)]
    check_op("TreeEnsembleRegressor", x, expected=wanted, **ML, **attributes)


LEAF: dict[str, Any] = {key: [values[1]] for key, values in STUMP.items() if key.startswith("nodes")}
LEAF |= {"target_treeids": [0], "target_nodeids": [1], "target_ids": [0], "target_weights": [3.0], "n_targets": 1}


def test_a_tree_may_be_one_leaf() -> None:
    check_op("TreeEnsembleRegressor", np.zeros((2, 1), np.float32), expected=np.full((2, 1), 3, np.float32), **ML, **LEAF)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 5), st.integers(1, 80))
def test_any_ensemble_matches_onnxruntime(seed: int, trees: int, depth: int, count: int) -> None:
    attributes = {**random_forest(seed, trees, [0, 1], depth=depth, single=True).by_id("target"), "n_targets": 2}
    x = rows(seed, count)
    [wanted] = ort_op("TreeEnsembleRegressor", [x], attributes, **ML)
    [got] = run_op("TreeEnsembleRegressor", [x], attributes, **ML)
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("aggregate", ["SUM", "MIN"])
@pytest.mark.parametrize("trees", [1, 3, 4, 12, 13, 16, 18, 33])
def test_leaves_with_a_weight_for_every_target(trees: int, aggregate: str) -> None:
    attributes = random_forest(10, trees, range(3), full=True).by_id("target")
    attributes |= {"n_targets": 3, "aggregate_function": aggregate}
    regress(rows(10, 70), attributes, rtol=1e-4)
    lacking = {key: values[1:] if key.startswith("target_") else values for key, values in attributes.items()}
    regress(rows(10, 70), lacking, rtol=1e-4)


@pytest.mark.parametrize(
    ("starts", "targets", "wanted"),
    [
        ([0, 2, 4], [1, 0, 0, 1], (ALL, [1, 0, 2, 3])),
        ([0, 2, 4], [0, 1, 0, 1], (ALL, [0, 1, 2, 3])),
        ([0, 2, 4], [0, 1, 1, 1], (SOME, [0, 1, 2, 3])),
        ([0, 1, 4], [0, 1, 0, 1], (SOME, [0, 1, 2, 3])),
        ([0, 1, 2], [0, 1], (ONE, [0, 1])),
        ([0, 0, 2], [0, 1], (SOME, [0, 1])),
    ],
)
def test_what_weights_leaves_have(starts: list[int], targets: list[int], wanted: tuple[int, list[int]]) -> None:
    zero, weights = np.zeros(1, np.int64), np.arange(len(targets), dtype=np.float32)
    children = (zero - 1, zero - 2, np.zeros(1, bool), zero, np.array(starts), np.array(targets))
    made = forest(Trees(zero, zero, np.zeros(1, np.float32), *children, weights), 2)
    assert (made.leaf, made.weights.tolist()) == wanted


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"nodes_truenodeids": [0, 0, 0]}, "a cycle"),
    ({"nodes_truenodeids": [7, 0, 0]}, "tree 0 has no node 7"),
    ({"nodes_nodeids": [0, 1, 1]}, "node 1 is there twice in tree 0"),
    ({"nodes_featureids": [-1, 0, 0]}, "asks for feature -1"),
    ({"nodes_values": [0.5]}, "nodes_values has 1 elements, nodes_modes 3"),
    ({"target_nodeids": [1, 5]}, "tree 0 has no node 5"),
    ({"target_ids": [0, 1]}, "targets or classes 0 to 0"),
    ({"target_weights": [1.0]}, "target_weights have 2, 2 and 1"),
    ({"aggregate_function": "MEDIAN"}, "aggregate_function 'MEDIAN'"),
    ({"post_transform": "RELU"}, "post_transform 'RELU'"),
    ({"base_values": [1.0, 2.0]}, "2 base_values for 1 targets"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_broken_trees_are_declined(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=f"TreeEnsembleRegressor 'node' .*{message}"):
        run_op("TreeEnsembleRegressor", [np.zeros((1, 2), np.float32)], STUMP | change, **ML)


@pytest.mark.parametrize("fixed", [True, False])
def test_rows_need_the_features_that_trees_ask_for(fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"rows have 1 features, the trees ask for 2"):
        run_op("TreeEnsembleRegressor", [np.zeros((3, 1), np.float32)], STUMP, fixed=fixed, **ML)


BROKEN_FIVE: list[tuple[dict[str, Any], str]] = [
    ({"nodes_trueleafs": [0]}, "a cycle"),
    ({"nodes_falsenodeids": [2]}, "a false node is out of range: there are 1 nodes and 2 leaves"),
    ({"nodes_truenodeids": [2**63 - 1]}, "a true node is out of range"),
    ({"tree_roots": [1]}, "a root node is out of range"),
    ({"tree_roots": [-1]}, "a child or a root is below zero"),
    ({"nodes_falsenodeids": [-1]}, "a child or a root is below zero"),
    ({"nodes_featureids": [2**31 - 1]}, "asks for feature 2147483647"),
    ({"leaf_targetids": [0, 1]}, "targets or classes 0 to 0"),
    ({"leaf_targetids": [0]}, "leaf_targetids has 1 elements, leaf_weights 2"),
    ({"nodes_modes": np.array([7], np.uint8)}, "nodes_modes should be 0 to 6"),
    ({"nodes_modes": np.array([6, 6], np.uint8)}, "differ in length"),
    ({"n_targets": 0}, "targets or classes 0 to -1"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN_FIVE, ids=[message for _, message in BROKEN_FIVE])
def test_broken_trees_of_version_five_are_declined(change: dict[str, Any], message: str) -> None:
    how: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 5}
    assert run_op("TreeEnsemble", [np.zeros((1, 1), np.float32)], VERSION_FIVE, **how)[0].tolist() == [[1]]
    with pytest.raises(NotSupported, match=f"TreeEnsemble 'node' .*{message}"):
        run_op("TreeEnsemble", [np.zeros((1, 1), np.float32)], VERSION_FIVE | change, **how)


def test_a_wide_cycle_is_soon_found() -> None:
    """Each level is all nodes once more: that ends long before as many levels as a tree may have."""
    count = 100_000
    itself = np.roll(np.arange(count), 1)
    modes, splits, nothing = np.zeros(count, np.int64), np.zeros(count, np.float32), np.zeros(0, np.int64)
    children = (itself, itself, np.zeros(count, bool), np.arange(count), np.zeros(1, np.int64))
    trees = Trees(modes, modes, splits, *children, nothing, np.zeros(0, np.float32))
    with patch.object(np, "unique", wraps=np.unique) as unique, pytest.raises(ValueError, match="the nodes form a cycle"):
        forest(trees, 1)
    assert unique.call_count < 20


@pytest.mark.parametrize("fixed", [True, False])
def test_a_leaf_alone_looks_at_a_feature_too(fixed: bool) -> None:
    """Whatever it is: the kernel steps from a leaf to itself."""
    with pytest.raises(InvalidArgument, match="rows have 0 features, the trees ask for 1"):
        run_op("TreeEnsembleRegressor", [np.zeros((2, 0), np.float32)], LEAF, fixed=fixed, **ML)


def test_rows_are_a_matrix() -> None:
    with pytest.raises(InvalidArgument, match="has rank 3; it should have 1 or 2"):
        run_op("TreeEnsembleRegressor", [np.zeros((1, 2, 2), np.float32)], STUMP, **ML)


def test_integers_in_another_storage_order_are_brought_back() -> None:
    """A Transpose is no work: the Cast to floats that the trees need comes in the order that the integers have."""
    nodes = [
        onnx.helper.make_node("Transpose", ["x"], ["t"]),
        onnx.helper.make_node("TreeEnsembleRegressor", ["t"], ["y"], domain="ai.onnx.ml", **STUMP),
        onnx.helper.make_node("LinearRegressor", ["t"], ["z"], domain="ai.onnx.ml", coefficients=[1.0, 10.0], targets=1),
    ]
    x = np.array([[9, 8, 7], [0, 1, 0]])
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["C", "N"])
    results = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "yz"]
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [value], results), opset_imports=opsets, ir_version=8)
    y, z = ort_lite.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert (y[:, 0].tolist(), z[:, 0].tolist()) == ([10, 20, 10], [9, 18, 7])
