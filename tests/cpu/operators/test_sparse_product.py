"""SparseToDenseMatMul of com.microsoft, and sparse inputs of a model, against onnxruntime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as native

import ort_lite
from ort_lite.dtypes import Array, from_numpy, to_onnx
from ort_lite.errors import InvalidArgument, InvalidGraph, OrtLiteError

CPU = ["CPUExecutionProvider"]
DENSE = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, -4]])
Sizes = Sequence[Any]


def model(
    dtype: str, a: Sizes = ("M", "K"), b: Sizes = ("P", "N"), op_type: str = "SparseToDenseMatMul", **attributes: Any
) -> onnx.ModelProto:
    code = to_onnx(from_numpy(np.dtype(dtype)))
    inputs = [
        helper.make_value_info("a", helper.make_sparse_tensor_type_proto(code, a)),
        helper.make_tensor_value_info("b", code, b),
    ]
    domain = "com.microsoft" if op_type == "SparseToDenseMatMul" else ""
    node = helper.make_node(op_type, ["a", "b"], ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "sparse", inputs, [helper.make_tensor_value_info("y", code, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def sparse(api: Any, a: Array, form: str) -> Any:
    """An OrtValue with the elements of `a` other than 0, as COO or CSR."""
    rows, columns = np.nonzero(a)
    values, shape = a[rows, columns], list(a.shape)
    device = (onnxruntime.OrtDevice(native.OrtDevice(native.OrtDevice.cpu(), 0, 0)),) if api is onnxruntime else ()
    if form == "COO":
        made = api.SparseTensor.sparse_coo_from_numpy(shape, values, np.stack([rows, columns], 1), *device)
    else:
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(a, axis=1))]).astype(np.int64)
        made = api.SparseTensor.sparse_csr_from_numpy(shape, values, np.ascontiguousarray(columns), starts, *device)
    return api.OrtValue.ort_value_from_sparse_tensor(made)


def run(api: Any, source: onnx.ModelProto, a: Array, b: Array, form: str = "COO", threads: int = 1) -> Array:
    options = api.SessionOptions()
    options.intra_op_num_threads = threads
    session = api.InferenceSession(source.SerializeToString(), options, providers=CPU)
    feeds = {"a": sparse(api, a, form), "b": api.OrtValue.ortvalue_from_numpy(b)}
    return np.asarray(session.run_with_ort_values(None, feeds)[0].numpy())


def check(source: onnx.ModelProto, a: Array, b: Array, **how: Any) -> None:
    want = run(onnxruntime, source, a, b, **how)
    for threads in (1, 3):
        got = run(ort_lite, source, a, b, threads=threads, **how)
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["COO", "CSR"])
@pytest.mark.parametrize(("transA", "transB"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32", "uint64"])
def test_products(dtype: str, transA: int, transB: int, form: str) -> None:
    """alpha counts for float32 alone."""
    a, b = DENSE.astype(dtype), np.arange(8).reshape(4, 2).astype(dtype)
    a, b = (np.ascontiguousarray(x.T if turned else x) for x, turned in ((a, transA), (b, transB)))
    check(model(dtype, transA=transA, transB=transB, alpha=2.5), a, b, form=form)


def test_a_larger_product_of_known_sizes() -> None:
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(90, 70)) * (rng.random((90, 70)) < 0.05)).astype(np.float32)
    check(model("float32", [90, 70], [70, 33]), a, rng.normal(size=(70, 33)).astype(np.float32))


def test_elements_that_are_not_there_make_no_nan() -> None:
    b = np.full((4, 2), np.inf, np.float32)
    b[1], b[3], b[0] = 1, np.nan, 2
    check(model("float32"), DENSE.astype(np.float32), b)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 4, 2), (3, 4, 0), (3, 0, 2)])
def test_products_of_nothing(m: int, k: int, n: int) -> None:
    got = run(ort_lite, model("float32"), np.zeros((m, k), np.float32), np.ones((k, n), np.float32))
    np.testing.assert_array_equal(got, np.zeros((m, n), np.float32))


def test_an_input_says_that_it_is_sparse_and_takes_dense_values_too(tmp_path: Any) -> None:
    source, a, b = model("float32"), DENSE.astype(np.float32), np.ones((4, 2), np.float32)
    apis: list[Any] = [ort_lite, onnxruntime]
    types = [[one.type for one in api.InferenceSession(source.SerializeToString()).get_inputs()] for api in apis]
    assert types[0] == types[1] == ["sparse_tensor(float)", "tensor(float)"]
    options = ort_lite.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    session = ort_lite.InferenceSession(source.SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], a @ b)
    saved = onnx.load(tmp_path / "saved.onnx")
    assert saved.graph.input[0] == source.graph.input[0]
    check(saved, a, b)


def test_sizes_agree_and_operands_are_matrices() -> None:
    a, b = DENSE.astype(np.float32), np.ones((3, 2), np.float32)
    with pytest.raises(InvalidArgument, match=r"dimension 0 of input 1 .* is 3, but K is 4"):
        run(ort_lite, model("float32"), a, b)
    with pytest.raises(OrtLiteError, match="has rank 3; it should have 2"):
        run(ort_lite, model("float32", b=["B", "K", "N"]), a, np.ones((1, 4, 2), np.float32))


def test_other_operators_take_no_sparse_tensors() -> None:
    with pytest.raises(InvalidGraph, match=r"is sparse_tensor\(float\); MatMul-13 takes"):
        ort_lite.InferenceSession(model("float32", op_type="MatMul").SerializeToString())


def test_only_inputs_of_a_model_are_sparse() -> None:
    output = helper.make_value_info("y", helper.make_sparse_tensor_type_proto(1, [2]))
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [2])], [output]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(InvalidGraph, match="value 'y': values of sparse_tensor_type are not supported"):
        ort_lite.InferenceSession(made.SerializeToString())
