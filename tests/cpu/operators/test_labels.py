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


def test_of_equal_keys_the_first_counts() -> None:
    attributes: dict[str, Any] = {"keys_int64s": [1, 1], "values_int64s": [5, 6]}
    check_op("LabelEncoder", np.array([1]), expected=np.array([5]), opset=4, domain="ai.onnx.ml", **attributes)


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
