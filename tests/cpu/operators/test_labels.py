"""LabelEncoder and CategoryMapper."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op

KEYS: dict[str, list[Any]] = {"strings": ["b", "a", "c"], "int64s": [7, -2, 3], "floats": [0.5, float("nan"), -1.0]}
VALUES: dict[str, list[Any]] = {"strings": ["x", "y", "z"], "int64s": [10, 20, 30], "floats": [1.5, 2.5, 3.5]}
INPUTS: dict[str, Array] = {
    "strings": np.array([["a", "q"], ["c", "b"]], object),
    "int64s": np.array([[3, 5], [-2, 7]]),
    "floats": np.array([[np.nan, 2], [-1, 0.5]], np.float32),
}
UNKNOWN: dict[str, Any] = {"strings": "_Unused", "int64s": -1, "floats": -0.0}
DTYPES: dict[str, Any] = {"strings": object, "int64s": np.int64, "floats": np.float32}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", KEYS)
def test_keys_become_values_and_others_the_default(keys: str, values: str) -> None:
    mapping = dict(zip(map(str, KEYS[keys]), VALUES[values], strict=True))
    x = INPUTS[keys]
    wanted = [mapping.get(str(float(v) if keys == "floats" else v), UNKNOWN[values]) for v in x.reshape(-1)]
    attributes = {f"keys_{keys}": KEYS[keys], f"values_{values}": VALUES[values]}
    expected = np.array(wanted, DTYPES[values]).reshape(x.shape)
    check_op("LabelEncoder", x, expected=expected, opset=2, domain="ai.onnx.ml", **attributes)


@pytest.mark.parametrize("dtype", ["int16", "int32", "float64"])
def test_version_four_takes_tensors_of_any_type(dtype: str) -> None:
    tables = {
        "keys_tensor": np.array([4, 2], dtype),
        "values_tensor": np.array([1, 9], dtype),
        "default_tensor": np.array([5], dtype),
    }
    x, wanted = np.array([2, 3, 4], dtype), np.array([9, 5, 1], dtype)
    check_op("LabelEncoder", x, expected=wanted, opset=4, domain="ai.onnx.ml", **tables)


def test_given_defaults_are_used() -> None:
    attributes = {"keys_int64s": [1], "values_strings": ["one"], "default_string": "many"}
    wanted = np.array(["many", "one"], object)
    check_op("LabelEncoder", np.array([2, 1]), expected=wanted, opset=4, domain="ai.onnx.ml", **attributes)


def test_of_equal_keys_the_first_counts() -> None:
    attributes: dict[str, Any] = {"keys_int64s": [1, 1], "values_int64s": [5, 6]}
    check_op("LabelEncoder", np.array([1]), expected=np.array([5]), opset=4, domain="ai.onnx.ml", **attributes)


def test_version_one_numbers_its_strings() -> None:
    attributes: dict[str, Any] = {"classes_strings": ["a", "b"], "default_int64": -7, "default_string": "?"}
    words, numbers = np.array(["b", "c"], object), np.array([1, 5])
    check_op("LabelEncoder", words, expected=np.array([1, -7]), opset=1, domain="ai.onnx.ml", **attributes)
    check_op("LabelEncoder", numbers, expected=np.array(["b", "?"], object), opset=1, domain="ai.onnx.ml", **attributes)


def test_a_category_mapper_goes_both_ways() -> None:
    attributes: dict[str, Any] = {"cats_strings": ["cat", "dog"], "cats_int64s": [5, 3]}
    words, numbers = np.array([["dog", "cow"]], object), np.array([[5], [4]])
    check_op("CategoryMapper", words, expected=np.array([[3, -1]]), opset=1, domain="ai.onnx.ml", **attributes)
    check_op(
        "CategoryMapper", numbers, expected=np.array([["cat"], ["_Unused"]], object), opset=1, domain="ai.onnx.ml", **attributes
    )


def test_keys_and_values_should_be_as_many() -> None:
    with pytest.raises(NotSupported, match=r"LabelEncoder 'node'.*they are 2 and 1"):
        run_op("LabelEncoder", [np.array([1])], {"keys_int64s": [1, 2], "values_floats": [1.0]}, opset=4, domain="ai.onnx.ml")
    with pytest.raises(NotSupported, match="keys of float32 and values of int64 should be as many; they are not there"):
        run_op("LabelEncoder", [np.ones(1, "f")], {"keys_int64s": [1], "values_int64s": [1]}, opset=4, domain="ai.onnx.ml")


def test_an_empty_default_is_declined() -> None:
    attributes = {"keys_int64s": [1], "values_int64s": [1], "default_tensor": np.zeros(0, np.int64)}
    with pytest.raises(NotSupported, match="default_tensor has no element"):
        run_op("LabelEncoder", [np.array([1])], attributes, opset=4, domain="ai.onnx.ml")


def test_the_string_of_a_scalar_is_a_tensor() -> None:
    attributes = {"keys_int64s": [5], "values_strings": ["five"]}
    [got] = run_op("LabelEncoder", [np.array(5)], attributes, opset=4, domain="ai.onnx.ml")
    assert isinstance(got, np.ndarray)
    assert (got.shape, got.dtype, got.tolist()) == ((), np.dtype(object), "five")
