"""Overrides of free dimensions by denotation, against onnxruntime."""

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument as TheirInvalidArgument

import ort_lite
from ort_lite.errors import InvalidArgument


def denoted(dim: str | int | None, denotations: list[str]) -> bytes:
    """x (dim, 3), whose dimensions have the denotations, and z (n, 3), whose dimensions have none; a Relu of each."""
    info, float_ = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    inputs = [info("x", float_, [dim, 3], shape_denotation=denotations), info("z", float_, ["n", 3])]
    outputs = [info("y", float_, [dim, 3]), info("w", float_, ["n", 3])]
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"]), onnx.helper.make_node("Relu", ["z"], ["w"])]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(model.SerializeToString())


def overridden(package: Any, model: bytes, by_denotation: dict[str, int], by_name: dict[str, int]) -> list[Any] | str:
    """The shapes of inputs and outputs in a session of the package with these overrides, or the name of its error."""
    options = package.SessionOptions()
    options.log_severity_level = 4
    for name, size in by_denotation.items():
        options.add_free_dimension_override_by_denotation(name, size)
    for name, size in by_name.items():
        options.add_free_dimension_override_by_name(name, size)
    try:
        made = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except (InvalidArgument, TheirInvalidArgument) as error:
        return type(error).__name__
    return [arg.shape for arg in (*made.get_inputs(), *made.get_outputs())]


BOTH = ["DATA_BATCH", "DATA_FEATURE"]


@pytest.mark.parametrize(
    ("dim", "denotations", "by_denotation", "by_name"),
    [
        ("n", BOTH, {"DATA_BATCH": 2}, {}),
        ("n", BOTH, {"data_batch": 2, "DATA_FEATURE": 3}, {}),
        (None, BOTH, {"DATA_BATCH": 2}, {}),
        ("n", BOTH, {"OTHER": 2}, {}),
        ("n", ["", "DATA_FEATURE"], {"DATA_BATCH": 2}, {}),
        (2, BOTH, {"DATA_BATCH": 2}, {}),
        (4, BOTH, {"DATA_BATCH": 2}, {}),
        ("n", BOTH, {"DATA_BATCH": 2}, {"n": 2}),
        ("n", BOTH, {"DATA_BATCH": 2}, {"n": 5}),
        ("n", BOTH, {}, {"n": 5}),
    ],
)
def test_free_dimensions_by_denotation_are_those_of_onnxruntime(
    dim: str | int | None, denotations: list[str], by_denotation: dict[str, int], by_name: dict[str, int]
) -> None:
    model = denoted(dim, denotations)
    want = overridden(onnxruntime, model, by_denotation, by_name)
    assert overridden(ort_lite, model, by_denotation, by_name) == want


def test_an_override_that_contradicts_a_model_says_so() -> None:
    options = ort_lite.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    with pytest.raises(
        InvalidArgument, match="input 'x' has 4 in dimension 0; the override by its denotation 'DATA_BATCH' is 2"
    ):
        ort_lite.InferenceSession(denoted(4, BOTH), options)


def test_denotations_are_saved(tmp_path: Path) -> None:
    ort_lite.save(ort_lite.load(denoted("n", BOTH)), tmp_path / "m.onnx")
    assert ort_lite.load(tmp_path / "m.onnx").denotations == {"x": ("DATA_BATCH", "DATA_FEATURE")}
