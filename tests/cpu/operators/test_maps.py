"""ZipMap, DictVectorizer, CastMap, through models: maps are fed and returned as dicts."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ort_lite
from ort_lite.errors import RuntimeException
from ort_lite_cpu.operators.ml import maps
from tests.cpu.check import run_op

ML: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": 1}


def map_type(key: int, value: int) -> onnx.TypeProto:
    type_ = onnx.TypeProto()
    type_.map_type.key_type = key
    type_.map_type.value_type.tensor_type.elem_type = value
    return type_


def run(op_type: str, key: int, value: int, result: int, fed: dict[Any, Any], **attributes: Any) -> Any:
    node = helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    x = helper.make_value_info("x", map_type(key, value))
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", result, None)])
    imports = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return ort_lite.InferenceSession(model.SerializeToString()).run(None, {"x": fed})[0]


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, 3]}, {"classlabels_strings": ["b", "a"]}], ids=str)
def test_rows_become_dicts_with_labels_in_order(labels: dict[str, Any]) -> None:
    [first, second] = next(iter(labels.values()))
    x = np.array([[0.25, 0.5], [1, 2]], np.float32)
    [got] = run_op("ZipMap", [x], labels, **ML)
    assert got == [{second: 0.5, first: 0.25}, {second: 2.0, first: 1.0}]
    assert list(got[0]) == sorted([first, second])
    assert run_op("ZipMap", [x[0]], labels, **ML)[0] == got[:1]


@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]], ids=str)
def test_many_rows_become_dicts_in_slices(labels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "ELEMENTS", 4)
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    [got] = run_op("ZipMap", [x], {"classlabels_strings": labels}, **ML)
    assert got == [dict(zip(labels, row, strict=True)) for row in x.tolist()]


def test_rows_should_be_as_long_as_the_labels() -> None:
    with pytest.raises(RuntimeException, match=r"ZipMap 'node'.*the shape \(1, 2\) are not of 3 labels"):
        run_op("ZipMap", [np.zeros((1, 2), np.float32)], {"classlabels_int64s": [1, 2, 3]}, **ML)


def test_the_keys_of_a_sparse_map_are_places() -> None:
    key, value = TensorProto.INT64, TensorProto.FLOAT
    assert run("CastMap", key, value, value, {2: 5.0, 0: 1.0, 9: 4.0}, map_form="SPARSE", max_map=4).tolist() == [[1, 0, 5, 0]]
    with pytest.raises(RuntimeException, match="the key -1 is below zero"):
        run("CastMap", key, value, value, {-1: 5.0}, map_form="SPARSE", max_map=4)
