"""SVMClassifier and SVMRegressor against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

ML: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 1}
X = ramp((9, 4))
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def numbers(count: int, seed: int = 0) -> list[float]:
    drawn: list[float] = np.random.default_rng(seed).normal(size=count).astype(np.float32).tolist()
    return drawn


def machine(classes: int, counts: list[int], kernel: str = "RBF", probabilities: bool = False) -> dict[str, Any]:
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 3.0],
        "support_vectors": numbers(vectors * 4, 1),
        "rho": numbers(pairs, 2),
        "coefficients": numbers((classes - 1) * vectors, 3),
        "vectors_per_class": counts,
        "classlabels_ints": [9, 4, 7, 2][:classes],
    }
    if probabilities:
        attributes |= {"prob_a": [-abs(n) for n in numbers(pairs, 4)], "prob_b": numbers(pairs, 5)}
    return attributes


def classify(attributes: dict[str, Any], labels: str = "int64") -> None:
    wanted = ort_op("SVMClassifier", [X], attributes, **ML, outputs=[labels, "float32"])
    check_op("SVMClassifier", X, expected=wanted, outputs=2, rtol=1e-4, atol=1e-5, **ML, **attributes)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("classes", "counts"), [(2, [3, 4]), (2, [1, 1]), (4, [2, 3, 1, 2]), (4, [9, 0, 12, 5])])
def test_pairs_of_classes_vote(classes: int, counts: list[int], kernel: str) -> None:
    classify(machine(classes, counts, kernel))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_vector_is_one_row(kernel: str) -> None:
    attributes = machine(4, [2, 3, 1, 2], kernel)
    rows = run_op("SVMClassifier", [X[:1]], attributes, outputs=2, **ML)
    vector = run_op("SVMClassifier", [X[0]], attributes, outputs=2, **ML)
    for expected, result in zip(rows, vector, strict=True):
        np.testing.assert_array_equal(result.ravel(), expected.ravel())


@pytest.mark.parametrize(("classes", "counts"), [(2, [3, 4]), (3, [2, 3, 1]), (4, [2, 3, 1, 2])])
def test_probabilities_of_pairs_become_those_of_classes(classes: int, counts: list[int]) -> None:
    classify(machine(classes, counts, probabilities=True))


@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(("classes", "counts"), [(2, [3, 4]), (3, [2, 3, 1])])
def test_scores_are_transformed_as_onnxruntime_does(classes: int, counts: list[int], transform: str) -> None:
    classify({**machine(classes, counts), "post_transform": transform})


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_without_support_vectors_it_is_linear(classes: int, positive: bool) -> None:
    weights = [abs(w) if positive else w for w in numbers(classes * 4)]
    attributes: dict[str, Any] = {"coefficients": weights, "rho": [0.1], "kernel_type": "RBF", "kernel_params": [0.3, 0.5, 3.0]}
    classify({**attributes, "classlabels_strings": ["a", "b", "c"][:classes], "post_transform": "LOGISTIC"}, "string")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressors_match_onnxruntime(kernel: str, one_class: int) -> None:
    attributes = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 2.0],
        "support_vectors": numbers(20, 1),
        "coefficients": numbers(5, 2),
        "rho": [0.3],
        "n_supports": 5,
        "one_class": one_class,
    }
    wanted = ort_op("SVMRegressor", [X], attributes, **ML)
    check_op("SVMRegressor", X, expected=wanted, rtol=1e-4, **ML, **attributes)


@pytest.mark.parametrize("degree", [1.0, 2.0, 2.5, 3.0, 4.0])
def test_degrees_of_polynomials(degree: float) -> None:
    vectors, weights = np.array(numbers(80, 1), np.float32).reshape(20, 4), np.array(numbers(20, 2), np.float32)
    x = np.abs(X)
    vectors = np.abs(vectors)
    wanted = (0.3 * x.astype(np.float64) @ vectors.T + 0.5) ** degree @ weights - 0.75
    attributes: dict[str, Any] = {
        "kernel_type": "POLY",
        "kernel_params": [0.3, 0.5, degree],
        "support_vectors": vectors.ravel().tolist(),
    }
    attributes |= {"coefficients": weights.tolist(), "rho": [-0.75], "n_supports": 20}
    check_op("SVMRegressor", x, expected=wanted.astype(np.float32)[:, None], rtol=1e-4, atol=1e-4, **ML, **attributes)


def test_a_linear_regressor_keeps_digits_that_sums_over_vectors_would_cancel() -> None:
    vectors = np.array(numbers(1200, 1), np.float32).reshape(300, 4)
    weights = np.array(numbers(300, 2), np.float32) * 1000
    wanted = (X.astype(np.float64) @ vectors.T @ weights + 0.25)[:, None]
    attributes: dict[str, Any] = {
        "kernel_type": "LINEAR",
        "kernel_params": [0.0, 0.0, 0.0],
        "support_vectors": vectors.ravel().tolist(),
    }
    attributes |= {"coefficients": weights.tolist(), "rho": [0.25], "n_supports": 300}
    check_op("SVMRegressor", X, expected=wanted.astype(np.float32), rtol=1e-6, atol=1e-3, **ML, **attributes)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_a_regressor_without_support_vectors_is_a_product(dtype: str) -> None:
    weights = np.array([1, -2, 0.5, 3])
    x = ramp((3, 4), dtype)
    wanted = (x @ weights + 0.25).astype(np.float32)[:, None]
    check_op("SVMRegressor", x, expected=wanted, coefficients=weights.tolist(), rho=[0.25], **ML)


def test_no_rows() -> None:
    attributes = machine(3, [2, 3, 1])
    wanted = [np.empty(0, np.int64), np.empty((0, 3), np.float32)]
    check_op("SVMClassifier", X[:0], expected=wanted, outputs=2, **ML, **attributes)


@pytest.mark.parametrize("fixed", [True, False])
def test_features_should_be_those_of_the_vectors(fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match="rows have 3 features, support_vectors is for 4"):
        run_op("SVMClassifier", [X[:, :3]], machine(2, [3, 4]), outputs=2, fixed=fixed, **ML)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rho": []}, "rho has 0 elements, expected 1"),
        ({"coefficients": [1.0]}, "coefficients has 1 elements, expected 7"),
        ({"vectors_per_class": [3, 4, 5]}, "vectors_per_class has 3 elements for 2 classes"),
        ({"vectors_per_class": [8, -1]}, "vectors_per_class"),
        ({"support_vectors": [1.0] * 5}, "support_vectors has 5 elements, which are not 7 rows"),
        ({"kernel_type": "LAPLACE"}, "kernel_type 'LAPLACE'"),
    ],
)
def test_broken_attributes_are_declined(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("SVMClassifier", [X], machine(2, [3, 4]) | change, outputs=2, **ML)


def test_counts_of_zero_are_no_counts() -> None:
    """Of four classes there are six pairs, but without vectors it is linear: the scores are those of the classes."""
    attributes: dict[str, Any] = {"coefficients": ramp((4, 4)).ravel().tolist(), "rho": [0.0], "classlabels_ints": [0, 1, 2, 3]}
    plain = run_op("SVMClassifier", [X], attributes, outputs=2, **ML)
    zeros = run_op("SVMClassifier", [X], attributes | {"vectors_per_class": [0, 0, 0, 0]}, outputs=2, **ML)
    assert zeros[1].shape == (len(X), 4)
    np.testing.assert_array_equal(zeros[1], plain[1])
