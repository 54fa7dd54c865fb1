"""Scaler, Normalizer, Imputer, Binarizer."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

ML: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 1}
TYPES = ["float32", "float64", "int32", "int64"]


def scaled(x: Array, offset: list[float], scale: list[float]) -> Array:
    return np.asarray((x - np.array(offset)) * np.array(scale), np.float32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3,), (0, 3)], ids=str)
def test_a_scaler_subtracts_and_multiplies(shape: tuple[int, ...], dtype: str) -> None:
    check_op("Scaler", ramp(shape, dtype), expected=scaled, rtol=1e-4, **ML, offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -3.0])
    check_op("Scaler", ramp(shape, dtype), expected=scaled, rtol=1e-4, **ML, offset=[0.5], scale=[2.0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_a_normalizer_divides_rows(norm: str, dtype: str) -> None:
    x = ramp((4, 5), dtype)
    x[2] = 0
    for rows in (x, x[0]):
        check_op("Normalizer", rows, expected=ort_op("Normalizer", [rows], {"norm": norm}, **ML), **ML, norm=norm)


def test_rows_of_length_one_have_the_bits_that_onnxruntime_gives() -> None:
    x = np.random.default_rng(0).standard_normal((50, 7)).astype(np.float32)
    check_op("Normalizer", x, expected=ort_op("Normalizer", [x], {"norm": "L2"}, **ML), rtol=0, atol=0, **ML, norm="L2")


def imputed(x: Array, imputed_value_floats: list[float], replaced_value_float: float) -> Array:
    missing = np.isnan(x) if np.isnan(replaced_value_float) else x == np.float32(replaced_value_float)
    return np.where(missing, np.array(imputed_value_floats), x).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("replaced", [2.5, float("nan")])
@pytest.mark.parametrize("values", [[7.0], [7.0, 8.0, 9.0]], ids=str)
def test_an_imputer_replaces_a_value_or_what_is_none(values: list[float], replaced: float, dtype: str) -> None:
    x = np.array([[2.5, np.nan, 1], [2.5, 2.5, np.nan]], dtype)
    check_op("Imputer", x, expected=imputed, **ML, imputed_value_floats=values, replaced_value_float=replaced)


@pytest.mark.parametrize("fixed", [True, False])
def test_attributes_are_for_all_features_or_for_each(fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"Scaler 'node'.*rows have 3 features, the attributes are for 2"):
        run_op("Scaler", [ramp((2, 3))], {"offset": [0.0, 1.0], "scale": [1.0, 2.0]}, fixed=fixed, **ML)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("Scaler", {"offset": [1.0], "scale": [1.0, 2.0]}, "1 offsets for 2 scales"),
        ("Normalizer", {"norm": "L3"}, "norm 'L3'"),
        ("Imputer", {"imputed_value_int64s": [1]}, "imputed_value_floats is missing"),
    ],
)
def test_broken_attributes_are_declined(op_type: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op(op_type, [ramp((2, 2))], attributes, **ML)
