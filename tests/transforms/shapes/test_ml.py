"""The domain ai.onnx.ml, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.graph import MapType, TensorType
from ort_lite.inference import Info
from tests.transforms.shapes.checking import check, floats, infer, integers, tensor, text

ML = "ai.onnx.ml"
X = tensor("float32", "N", 4)


def tree(classes: list[int], labels: list[int]) -> dict[str, Any]:
    """A stump whose leaves vote for the classes."""
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": classes,
        "class_weights": [1.0, 2.0],
        "classlabels_int64s": labels,
    }


@pytest.mark.parametrize(("classes", "labels"), [([0, 0], [0, 1]), ([0, 2], [0, 1, 2]), ([0, 0], [5])], ids=str)
def test_trees_have_a_score_for_every_label(classes: list[int], labels: list[int]) -> None:
    check("TreeEnsembleClassifier", floats(4, 2), outputs=2, domain=ML, version=3, **tree(classes, labels))


@pytest.mark.parametrize(("classes", "biases"), [(2, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("shape", [(4, 2), (2,)], ids=str)
def test_linear_classifiers(shape: tuple[int, ...], classes: int, biases: int) -> None:
    attributes: dict[str, Any] = {
        "coefficients": [1.0] * (2 * biases),
        "intercepts": [0.0] * biases,
        "classlabels_ints": [*range(classes)],
    }
    check("LinearClassifier", floats(*shape), outputs=2, domain=ML, version=1, **attributes)


@pytest.mark.parametrize(("classes", "proba"), [(2, False), (2, True), (3, False), (3, True), (4, False)])
def test_support_vectors_have_scores_of_classes_or_pairs(classes: int, proba: bool) -> None:
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "coefficients": [1.0] * (2 * classes * (classes - 1)),
        "support_vectors": [0.0] * (4 * classes),
        "kernel_type": "RBF",
        "vectors_per_class": [2] * classes,
        "rho": [0.1] * pairs,
        "kernel_params": [1.0, 0.0, 3.0],
        "classlabels_ints": [*range(classes)],
    }
    if proba:
        attributes |= {"prob_a": [1.0] * pairs, "prob_b": [1.0] * pairs}
    check("SVMClassifier", floats(5, 2), outputs=2, domain=ML, version=1, **attributes)


def test_labels_are_strings_when_they_are_given_so() -> None:
    attributes: dict[str, Any] = {"coefficients": [1.0] * 8, "intercepts": [0.0] * 2, "classlabels_strings": ["a", "b"]}
    found = infer("LinearClassifier", X, outputs=2, domain=ML, **attributes)
    assert [text(y) for y in found] == ["string[N]", "float32[N, 2]"]
    (maps,) = infer("ZipMap", X, domain=ML, classlabels_strings=["a", "b"])
    assert text(maps) == "seq(map(string, float32[]))"


def test_regressors() -> None:
    check("LinearRegressor", floats(3, 2), domain=ML, version=1, coefficients=[1.0] * 4, targets=2)
    vectors: dict[str, Any] = {
        "coefficients": [1.0, 1.0],
        "support_vectors": [0.0] * 4,
        "n_supports": 2,
        "rho": [0.0],
        "kernel_type": "RBF",
    }
    check("SVMRegressor", floats(5, 2), domain=ML, version=1, kernel_params=[1.0, 0.0, 3.0], **vectors)
    assert text(infer("TreeEnsembleRegressor", X, domain=ML, n_targets=3)[0]) == "float32[N, 3]"
    assert text(infer("TreeEnsemble", tensor("float64", "N", 4), domain=ML, n_targets=3)[0]) == "float64[N, 3]"


@pytest.mark.parametrize("shape", [(5,), (3, 5), (3, 4, 5)], ids=str)
def test_features_are_picked_from_the_last_axis(shape: tuple[int, ...]) -> None:
    check("ArrayFeatureExtractor", floats(*shape), integers(1, 2).reshape(1, 2), domain=ML, version=1)


def test_preprocessing() -> None:
    check("Scaler", floats(3, 2), domain=ML, version=1, scale=[1.0, 2.0], offset=[0.0, 0.0])
    check("Normalizer", floats(3, 2), domain=ML, version=1)
    check("Binarizer", floats(3, 2), domain=ML, version=1)
    check("OneHotEncoder", integers(1, 2).reshape(1, 2), domain=ML, version=1, cats_int64s=[1, 2, 3])
    check("FeatureVectorizer", floats(3, 2), floats(3, 4), domain=ML, version=1, inputdimensions=[2, 4])
    check("FeatureVectorizer", floats(2), floats(4), domain=ML, version=1, inputdimensions=[2, 4])
    check("Imputer", floats(3, 2), domain=ML, version=1, imputed_value_floats=[1.0], replaced_value_float=0.0)


def test_labels_are_mapped() -> None:
    check("LabelEncoder", integers(1, 2), domain=ML, version=2, keys_int64s=[1, 2], values_floats=[1.0, 2.0])
    check("LabelEncoder", integers(1, 2), domain=ML, version=2, keys_int64s=[1, 2], values_strings=["a", "b"])
    table = np.array([1, 2], np.int16)
    assert text(infer("LabelEncoder", X, domain=ML, values_tensor=table)[0]) == "int16[N, 4]"
    assert text(infer("LabelEncoder", tensor("string", "N"), domain=ML, version=1, classes_strings=["a"])[0]) == "int64[N]"
    assert text(infer("CategoryMapper", tensor("int64", "N"), domain=ML)[0]) == "string[N]"


def test_maps_become_rows() -> None:
    map_ = Info(MapType("string", TensorType("float32", ())))
    assert text(infer("DictVectorizer", map_, domain=ML, string_vocabulary=["a", "b"])[0]) == "float32[1, 2]"
    assert text(infer("CastMap", map_, domain=ML, cast_to="TO_INT64")[0]) == "int64[1, y0#1]"
    assert text(infer("CastMap", map_, domain=ML, map_form="SPARSE", max_map=7)[0]) == "float32[1, 7]"
