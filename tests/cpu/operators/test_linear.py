"""LinearClassifier and LinearRegressor."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.ort import ort_op

ML: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 1}
X = ramp((9, 5))
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def coefficients(rows: int, seed: int = 0) -> list[float]:
    drawn: list[float] = np.random.default_rng(seed).normal(size=rows * 5).astype(np.float32).tolist()
    return drawn


def product(x: Array, coefficients: list[float], intercepts: list[float], targets: int = 1) -> Array:
    table = np.array(coefficients).reshape(targets, -1)
    return np.asarray(x.reshape(-1, x.shape[-1]) @ table.T + np.array(intercepts), np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(9, 5), (0, 5), (5,)], ids=str)
def test_a_regressor_is_a_product(shape: tuple[int, ...], dtype: str) -> None:
    attributes = {"coefficients": coefficients(3), "intercepts": [0.5, -1.0, 2.0], "targets": 3}
    check_op("LinearRegressor", ramp(shape, dtype), expected=product, rtol=1e-4, atol=1e-4, **ML, **attributes)


@pytest.mark.parametrize("pin", ["gemm", "matmul-dots"])
def test_each_candidate_computes_scores(pin: str) -> None:
    drawn = np.random.default_rng(1).normal(size=(2, 70)).astype(np.float32)
    attributes = {"coefficients": drawn.reshape(-1).tolist(), "intercepts": [0.5, -1.0], "targets": 2}
    check_op("LinearRegressor", ramp((9, 70)), expected=product, rtol=1e-4, atol=1e-3, pin=pin, **ML, **attributes)


def test_few_long_rows_of_coefficients_are_no_panel() -> None:
    attributes = {"coefficients": [1.0] * 1000, "intercepts": [0.0]}
    made = op_program("LinearRegressor", [ramp((9, 1000))], attributes, **ML)
    assert next(iter(made.kernels().values())).taken == "matmul-dots"


def test_intercepts_and_targets_have_defaults() -> None:
    check_op(
        "LinearRegressor", X, expected=lambda x, coefficients: product(x, coefficients, [0]), **ML, coefficients=coefficients(1)
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_transforms_of_regressors_are_those_of_onnxruntime(targets: int, transform: str) -> None:
    scaled = [c / 30 for c in coefficients(targets)]
    attributes = {"coefficients": scaled, "intercepts": [0.2] * targets, "targets": targets, "post_transform": transform}
    wanted = ort_op("LinearRegressor", [X], attributes, **ML)
    check_op("LinearRegressor", X, expected=wanted, rtol=1e-4, **ML, **attributes)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 4])
def test_classifiers_choose_the_largest_score(classes: int, transform: str) -> None:
    scaled = [c / 30 for c in coefficients(classes)]
    attributes = {"coefficients": scaled, "intercepts": [0.2] * classes, "post_transform": transform}
    attributes["classlabels_ints"] = [5, 3, 8, 1][:classes]
    wanted = ort_op("LinearClassifier", [X], attributes, **ML, outputs=["int64", "float32"])
    check_op("LinearClassifier", X, expected=wanted, outputs=2, rtol=1e-4, **ML, **attributes)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("labels", [{"classlabels_ints": [5, 7]}, {"classlabels_strings": ["no", "yes"]}], ids=str)
def test_one_row_of_coefficients_decides_between_two(labels: dict[str, Any], transform: str) -> None:
    attributes = {"coefficients": coefficients(1), "intercepts": [0.1], "post_transform": transform, **labels}
    kinds = ["string" if "classlabels_strings" in labels else "int64", "float32"]
    wanted = ort_op("LinearClassifier", [X], attributes, **ML, outputs=kinds)
    check_op("LinearClassifier", X, expected=wanted, outputs=2, rtol=1e-4, **ML, **attributes)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_classifiers_take_other_types_and_give_strings(dtype: str) -> None:
    x = ramp((6, 5), dtype)
    attributes = {"coefficients": coefficients(3), "intercepts": [0.0] * 3, "classlabels_strings": ["a", "b", "c"]}
    wanted = ort_op("LinearClassifier", [x], attributes, **ML, outputs=["string", "float32"])
    check_op("LinearClassifier", x, expected=wanted, outputs=2, rtol=1e-4, atol=1e-4, **ML, **attributes)


def test_intercepts_may_be_missing() -> None:
    attributes = {"coefficients": coefficients(3), "classlabels_ints": [0, 1, 2]}
    scores = product(X, coefficients(3), [0], 3)
    check_op("LinearClassifier", X, expected=[scores.argmax(1), scores], outputs=2, **ML, **attributes)


@pytest.mark.parametrize("fixed", [True, False])
def test_features_and_coefficients_should_agree(fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"LinearRegressor 'node'.*rows have 5 features, the coefficients are for 4"):
        run_op("LinearRegressor", [X], {"coefficients": [1.0] * 4}, fixed=fixed, **ML)


ROW, ROWS = {"coefficients": coefficients(1), "intercepts": [0.0]}, {"coefficients": coefficients(3), "intercepts": [0.0] * 3}


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 5, "targets": 2}, "5 coefficients are not 2 rows"),
        ("LinearRegressor", {"coefficients": coefficients(1), "post_transform": "RELU"}, "post_transform 'RELU'"),
        ("LinearClassifier", {**ROWS, "classlabels_ints": [1, 2]}, "2 labels for 3 classes"),
        ("LinearClassifier", {**ROW, "classlabels_ints": [1, 2, 3]}, "3 labels for one row of coefficients"),
    ],
)
def test_broken_attributes_are_declined(op: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op(op, [X], attributes, outputs=2 if op == "LinearClassifier" else 1, **ML)
