"""Constant, ConstantOfShape, Range, EyeLike."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array, to_numpy, to_onnx
from ort_lite.errors import InvalidGraph
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value", ramp((3, 4)), ramp((3, 4))),
        ("value_float", 2.5, np.array(2.5, np.float32)),
        ("value_floats", [1.0, 2.0], np.array([1, 2], np.float32)),
        ("value_int", 7, np.array(7)),
        ("value_ints", list(range(100)), np.arange(100)),
    ],
)
def test_a_constant_is_its_attribute(attribute: str, value: Any, expected: Array) -> None:
    check_op("Constant", expected=expected, **{attribute: value})


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4), (1, 1, 100)], ids=str)
def test_filled_with_a_value_of_any_type(dtype: str, shape: tuple[int, ...]) -> None:
    value = np.array([1]).astype(dtype)
    check_op("ConstantOfShape", ints(*shape), value=value, constants=[0], expected=np.full(shape, value[0]))


def test_filled_with_zeros_where_no_value_is_given() -> None:
    check_op("ConstantOfShape", ints(3, 50), expected=np.zeros((3, 50), np.float32))


@pytest.mark.parametrize(("start", "limit", "delta"), [(1, 100, 3), (5, -90, -1), (5, 5, 1), (3, 1, 1)])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_ranges_are_those_of_numpy(start: int, limit: int, delta: int, dtype: str) -> None:
    inputs = [np.array(number, dtype) for number in (start, limit, delta)]
    check_op("Range", *inputs, constants=[0, 1, 2], expected=np.arange(start, limit, delta).astype(dtype))


def test_a_range_of_fractions_has_its_last_step() -> None:
    inputs = [np.array(number, np.float32) for number in (0, 1, 0.3)]
    check_op("Range", *inputs, expected=np.array([0, 0.3, 0.6, 0.9], np.float32))


@pytest.mark.parametrize("k", [0, 1, -2, 9])
def test_ones_on_a_diagonal(k: int) -> None:
    check_op("EyeLike", ramp((3, 4)), k=k, expected=np.eye(3, 4, k, np.float32))


@pytest.mark.parametrize("dtype", ["float16", "int64", "bool"])
def test_a_diagonal_of_another_type(dtype: str) -> None:
    check_op("EyeLike", ramp((2, 3)), dtype=to_onnx(dtype), expected=np.eye(2, 3, dtype=to_numpy(dtype)))


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(InvalidGraph, match="complex128"):
        run_op("ConstantOfShape", [ints(2)], {"value": np.array([1j])})


@pytest.mark.parametrize(
    "values",
    [np.array([1.5, 2], np.float16), np.array([1j, 2]), np.array(["a", "b"], object)],
    ids=["float16", "complex128", "string"],
)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_sparse_constants_and_initialisers(values: Array, level: str) -> None:
    sparse = onnx.SparseTensorProto(
        dims=[2, 3], values=numpy_helper.from_array(values, "w"), indices=numpy_helper.from_array(ints(1, 5))
    )
    made = helper.make_node("Constant", [], ["v"], sparse_value=sparse)
    outputs = [helper.make_tensor_value_info(name, sparse.values.data_type, None) for name in ("v", "y")]
    graph = helper.make_graph(
        [made, helper.make_node("Transpose", ["w"], ["y"])], "g", [], outputs, sparse_initializer=[sparse]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel[level]
    want = np.full(6, "", object) if values.dtype == object else np.zeros(6, values.dtype)
    want[[1, 5]] = values
    got = ort_lite.InferenceSession(model.SerializeToString(), options).run(None, {})
    assert [array.tolist() for array in got] == [want.reshape(2, 3).tolist(), want.reshape(2, 3).T.tolist()]


@pytest.mark.parametrize("count", [0, 2])
def test_one_value_fills(count: int) -> None:
    with pytest.raises(NotSupported, match=f"value has {count} elements, expected 1"):
        run_op("ConstantOfShape", [ints(70)], {"value": np.zeros(count, np.float32)})


def test_an_identity_is_a_matrix() -> None:
    with pytest.raises(NotSupported, match="the input has rank 3, expected 2"):
        run_op("EyeLike", [ramp((2, 2, 2))])
