"""Constant, ConstantOfShape, Range, EyeLike."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidGraph
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op


@pytest.mark.parametrize("k", [0, 1, -2, 9])
def test_ones_on_a_diagonal(k: int) -> None:
    check_op("EyeLike", ramp((3, 4)), k=k, expected=np.eye(3, 4, k, np.float32))


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
    with pytest.raises(InvalidArgument, match="has rank 3; it should have 2"):
        run_op("EyeLike", [ramp((2, 2, 2))])
