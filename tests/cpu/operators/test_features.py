"""ArrayFeatureExtractor, FeatureVectorizer, OneHotEncoder."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op
from tests.cpu.ort import ort_op

ML: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 1}


def check(op: str, *inputs: Array, constants: tuple[int, ...] = (), output: str = "float32", **attributes: Any) -> None:
    expected = ort_op(op, inputs, attributes, outputs=[output], **ML)
    check_op(op, *inputs, expected=expected, constants=constants, **attributes, **ML)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(("shape", "index"), [((4, 5), [3, 0, 3]), ((5,), [[1, 4]]), ((2, 3, 5), [2]), ((0, 5), [1])], ids=str)
def test_an_extractor_takes_columns(shape: tuple[int, ...], index: Any, dtype: str) -> None:
    check("ArrayFeatureExtractor", ramp(shape, dtype), np.array(index, np.int64), constants=(1,), output=dtype)


def test_an_index_out_of_range_is_named() -> None:
    for index in (3, -1):
        words = rf"ArrayFeatureExtractor.*index {index} at position 1 of 'in1' is out of range \[0, 3\)"
        with pytest.raises(RuntimeException, match=words):
            run_op("ArrayFeatureExtractor", [ramp((2, 3)), ints(0, index)], **ML)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_vectorizer_cuts_or_fills_up_and_joins(dtype: str) -> None:
    tables = [ramp((3, 4), dtype), ramp((3, 2), dtype), ramp((3, 2, 2), dtype)]
    check("FeatureVectorizer", *tables, inputdimensions=[2, 5, 4])
    check("FeatureVectorizer", tables[0][0], tables[1][0], inputdimensions=[4, 2])


def test_a_vectorizer_wants_as_many_widths_as_inputs() -> None:
    with pytest.raises(NotSupported, match="inputdimensions has 1 elements for 2 inputs"):
        run_op("FeatureVectorizer", [ramp((2, 2))] * 2, {"inputdimensions": [2]}, **ML)


def test_a_vectorizer_wants_as_many_rows_everywhere() -> None:
    with pytest.raises(InvalidArgument, match="input 1 has another number of rows"):
        run_op("FeatureVectorizer", [ramp((2, 2)), ramp((3, 2))], {"inputdimensions": [2, 2]}, **ML)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(2, 3), (6,), (0, 2)], ids=str)
def test_numbers_become_rows_of_zeros_and_a_one(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.arange(np.prod(shape)).reshape(shape) % 5 + (0.7 if dtype[0] == "f" else 0)).astype(dtype)
    check("OneHotEncoder", x, cats_int64s=[3, 1, 0, 12])


@pytest.mark.parametrize("x", [np.array([1, 2], np.int64), np.array(["a", "b"], object)], ids=["numbers", "strings"])
def test_an_unknown_category_may_be_an_error(x: Array) -> None:
    attributes = {"cats_int64s": [1], "zeros": 0} if x.dtype != object else {"cats_strings": ["a"], "zeros": 0}
    with pytest.raises(RuntimeException, match=r"OneHotEncoder 'node'.*(2|'b') at position 1 is no category"):
        run_op("OneHotEncoder", [x], attributes, **ML)


def test_categories_are_different() -> None:
    with pytest.raises(NotSupported, match="cats_int64s should be different numbers"):
        run_op("OneHotEncoder", [ints(1)], {"cats_int64s": [1, 1]}, **ML)


def test_widths_are_not_negative() -> None:
    """The second input would be written in front of the result."""
    with pytest.raises(NotSupported, match=r"inputdimensions \[-5, 10\] should not be below zero"):
        run_op("FeatureVectorizer", [ramp((2, 3)), ramp((2, 3))], {"inputdimensions": [-5, 10]}, **ML)
