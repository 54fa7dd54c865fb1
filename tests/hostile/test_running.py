"""Numbers that make no sense, where only the run tells them: the message names the node."""

from collections.abc import Sequence

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from tests.hostile.building import node_model


def int64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("node", "inputs", "given", "words"),
    [
        ("Slice", "float[N,M], int64[K], int64[K], int64[K], int64[K]", [X, int64(0), int64(1), int64(0), int64(0)], "step"),
        ("Slice", "float[N,M], int64[K], int64[K], int64[K]", [X, int64(0), int64(1), int64(2)], "axis 2"),
        ("OneHot", "int64[N], int64, float[2]", [int64(1), np.array(0), X[0, :2]], "depth is 0"),
        ("OneHot", "int64[N], int64, float[2]", [int64(1), np.array(-1), X[0, :2]], "-1"),
        ("Range", "int64, int64, int64", [np.array(0), np.array(5), np.array(0)], "delta is 0"),
        ("Range", "int64, int64, int64", [np.array(0), np.array(2**62), np.array(1)], "4611686018427387904"),
        ("SplitToSequence", "float[N,M], int64", [X, np.array(0)], "split is 0"),
        ("Gather", "float[N,M], int64[K]", [X, int64(2)], "index 2"),
        ("ConstantOfShape", "int64[K]", [int64(2**32, 2**32)], "4294967296"),
        ("ConstantOfShape", "int64[K]", [int64(-1)], "-1"),
        ("Reshape", "float[N,M], int64[K]", [X, int64(-2, 3)], "-2"),
        ("Expand", "float[N,M], int64[K]", [X, int64(-5, 1)], "-5"),
        ("TopK", "float[N,M], int64[1]", [X, int64(4)], "4"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(node: str, inputs: str, given: Sequence[Array], words: str) -> None:
    model = node_model(node, inputs)
    session = ort_lite.InferenceSession(model.SerializeToString())
    with pytest.raises(OrtLiteError) as caught:
        session.run(None, {info.name: array for info, array in zip(model.graph.input, given, strict=True)})
    assert "'n'" in str(caught.value)
    assert words in str(caught.value)
