"""Numbers that make no sense, where only the run tells them: the message names the node."""

from collections.abc import Sequence

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from tests.hostile.building import node_model
from tests.hostile.structures import BOOL, ONE, branches, info


def int64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def int32(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def steps(gates: int) -> list[Array]:
    """Three steps of two sequences, with weights."""
    return [zeros(3, 2, 2), zeros(1, gates, 2), zeros(1, gates, 1)]


X = zeros(2, 3)
IMAGE = "float[N,C,H,W]"
RECURRENT = "float[S,B,I], float[1,{0},2], float[1,{0},1], -, int32[K]"


@pytest.mark.parametrize(
    ("node", "inputs", "given", "words"),
    [
        ("Slice", "float[N,M], int64[K], int64[K], int64[K], int64[K]", [X, int64(0), int64(1), int64(0), int64(0)], "step"),
        ("Slice", "float[N,M], int64[K], int64[K], int64[K]", [X, int64(0), int64(1), int64(2)], "axis 2"),
        ("OneHot", "int64[N], int64, float[2]", [int64(1), np.array(0), X[0, :2]], "has the element 0"),
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
        (
            "Conv",
            f"{IMAGE}, float[M,D,K,L]",
            [zeros(1, 1, 2, 3), zeros(1, 1, 3, 3)],
            "a window of 3 does not fit into 2 + 0 + 0",
        ),
        ("Conv <strides = [4, 4]>", f"{IMAGE}, float[M,D,K,L]", [zeros(1, 1, 3, 1), zeros(1, 1, 3, 3)], "window of 3"),
        ("Conv", f"{IMAGE}, float[M,D,K,L]", [zeros(1, 1, 0, 0), zeros(1, 1, 1, 1)], "window of 1"),
        ("Conv <dilations = [2, 2]>", f"{IMAGE}, float[M,D,K,L]", [zeros(1, 1, 4, 4), zeros(1, 1, 3, 3)], "window of 5"),
        ("MaxPool <kernel_shape = [3, 3]>", IMAGE, [zeros(1, 1, 3, 2)], "a window of 3 does not fit into 2 + 0 + 0"),
        ("LpPool <kernel_shape = [3, 3], strides = [4, 4]>", IMAGE, [zeros(1, 1, 1, 3)], "window of 3"),
        ("AveragePool <kernel_shape = [4, 4], ceil_mode = 1, strides = [2, 2]>", IMAGE, [zeros(1, 1, 2, 2)], "window of 4"),
        ('Pad <mode = "reflect">', "float[N,M], int64[4]", [X, int64(0, 3, 0, 0)], "axis 1 of 3 elements by 3"),
        ('Pad <mode = "reflect">', "float[N,M], int64[4]", [X, int64(0, 0, 2, 0)], "axis 0 of 2 elements by 2"),
        ("LSTM <hidden_size = 1>", RECURRENT.format(4), [*steps(4), int32(4, 1)], "the length 4 at position 0 of 'e'"),
        ("GRU <hidden_size = 1>", RECURRENT.format(3), [*steps(3), int32(1, -1)], "the length -1 at position 1 of 'e'"),
        ("RNN <hidden_size = 1>", RECURRENT.format(1), [*steps(1), int32(4, 4)], "out of range [0, 4)"),
        ("Dropout", "float[N,M], float, bool", [X, np.array(1, np.float32), np.array(True)], "ratio is 1.0"),
        ("Dropout", "float[N,M], float, bool", [X, np.array(np.nan, np.float32), np.array(True)], "ratio is nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(node: str, inputs: str, given: Sequence[Array], words: str) -> None:
    model = node_model(node, inputs)
    session = ort_lite.InferenceSession(model.SerializeToString())
    with pytest.raises(OrtLiteError) as caught:
        session.run(None, {one.name: array for one, array in zip(model.graph.input, given, strict=True)})
    assert "'n'" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_a_condition_that_is_not_one_element_is_refused(count: int) -> None:
    model = branches(ONE, ONE)
    model.graph.input[1].CopyFrom(info("c", BOOL, ["K"]))
    session = ort_lite.InferenceSession(model.SerializeToString())
    [y] = session.run(None, {"x": X[0, :2], "c": np.ones(1, np.bool_)})
    assert y.shape == (2,)
    with pytest.raises(OrtLiteError, match=rf"If 'n' .*cond, 'c'. has {count} elements"):
        session.run(None, {"x": X[0, :2], "c": np.ones(count, np.bool_)})


@pytest.mark.parametrize(
    ("node", "inputs", "given", "shape"),
    [
        ("Conv <pads = [1, 1, 1, 1]>", f"{IMAGE}, float[M,D,K,L]", [zeros(1, 1, 0, 0), zeros(1, 1, 2, 2)], (1, 1, 1, 1)),
        ("MaxPool <kernel_shape = [3, 3]>", IMAGE, [zeros(0, 1, 2, 2)], (0, 1, 0, 0)),
        ("MaxPool <kernel_shape = [3, 3], ceil_mode = 1, strides = [2, 2]>", IMAGE, [zeros(1, 1, 2, 2)], (1, 1, 1, 1)),
        (
            "MaxPool <kernel_shape = [3, 3], ceil_mode = 1, strides = [2, 2]>",
            "float[1,1,2,2]",
            [zeros(1, 1, 2, 2)],
            (1, 1, 1, 1),
        ),
        ('Pad <mode = "reflect">', "float[N,M], int64[4]", [X, int64(1, 1, 0, -1)], (3, 3)),
        ('Pad <mode = "wrap">', "float[N,M], int64[4]", [X, int64(0, 7, 0, 0)], (2, 10)),
        ("RNN <hidden_size = 1>", RECURRENT.format(1), [*steps(1), int32(0, 3)], (3, 1, 2, 1)),
    ],
)
def test_what_is_only_strange_runs(node: str, inputs: str, given: Sequence[Array], shape: tuple[int, ...]) -> None:
    """As in onnxruntime."""
    model = node_model(node, inputs)
    session = ort_lite.InferenceSession(model.SerializeToString())
    [y] = session.run(None, {one.name: array for one, array in zip(model.graph.input, given, strict=True)})
    assert y.shape == shape
