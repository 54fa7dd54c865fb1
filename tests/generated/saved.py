"""Failing models in folders: model.onnx, the inputs, and the verdict with the command line that repeats it.

Inputs have the layout of ONNX's test data, test_data_set_0/input_0.pb, so that other tools read them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_lite.dtypes import Array
from tests.generated.verdict import Verdict

DATA = "test_data_set_0"
_LONGEST = 200
"""Characters of a refusal in a verdict: some list all operators that there are."""


def save(folder: Path, model: onnx.ModelProto, feeds: Mapping[str, Any], verdict: Verdict) -> None:
    """Write a failure. The folder may hold an earlier form of it, which is replaced."""
    data = folder / DATA
    data.mkdir(parents=True, exist_ok=True)
    for old in data.iterdir():
        old.unlink()
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for index, value in enumerate(_inputs(model)):
        proto = to_proto(feeds[value.name], value.type, value.name)
        (data / f"input_{index}.pb").write_bytes(proto.SerializeToString())
    (folder / "verdict.txt").write_text(describe(model, verdict, folder), encoding="utf-8")


def load(path: Path) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Read a failure from its folder or from the model file in it."""
    folder = path if path.is_dir() else path.parent
    model = onnx.load(folder / "model.onnx" if path.is_dir() else path)
    feeds = {}
    for index, value in enumerate(_inputs(model)):
        data = (folder / DATA / f"input_{index}.pb").read_bytes()
        feeds[value.name] = from_proto(data, value.type)
    return model, feeds


def describe(model: onnx.ModelProto, verdict: Verdict, folder: Path) -> str:
    """Write the differences, the command line, and the model as text."""
    lines = [f"python -m tests.generated --repeat {folder}", f"status: {verdict.status}"]
    lines += [f"{one.oracle}{f' ({one.explanation})' if one.explanation else ''}: {one.text}" for one in verdict.differences]
    lines += [f"not valid: {verdict.invalid}"] if verdict.invalid else []
    lines += [f"{name} refused: {_first_line(text)}" for name, text in verdict.refusals.items()]
    return "\n".join([*lines, "", onnx.printer.to_text(model), ""])


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0][:_LONGEST]


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {one.name for one in model.graph.initializer} | {one.values.name for one in model.graph.sparse_initializer}
    return [value for value in model.graph.input if value.name not in constants]


def to_proto(contents: Any, type_: onnx.TypeProto, name: str = "") -> Any:
    """Convert the contents of an input to the proto of its type: TensorProto, SequenceProto, OptionalProto or MapProto."""
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        return _tensor(np.asarray(contents), type_.tensor_type.elem_type, name)
    if kind == "sequence_type":
        return _sequence(contents, type_.sequence_type.elem_type, name)
    if kind == "map_type":
        return _map(contents, type_.map_type, name)
    if kind == "optional_type":
        return _optional(contents, type_.optional_type.elem_type, name)
    raise TypeError(f"an input of type {kind} cannot be saved")


def _tensor(array: Array, dtype: int, name: str) -> onnx.TensorProto:
    if dtype == onnx.TensorProto.STRING:
        texts: list[Any] = [text.encode() if isinstance(text, str) else text for text in array.ravel().tolist()]
        return helper.make_tensor(name, dtype, array.shape, texts)
    return numpy_helper.from_array(array, name)


_FIELDS = {"tensor_type": "tensor", "sequence_type": "sequence", "map_type": "map", "optional_type": "optional"}


def _sequence(contents: Any, element: onnx.TypeProto, name: str) -> onnx.SequenceProto:
    field = _FIELDS[str(element.WhichOneof("value"))]
    proto = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.DataType.Value(field.upper()))
    getattr(proto, f"{field}_values").extend(to_proto(one, element) for one in contents)
    return proto


def _optional(contents: Any, element: onnx.TypeProto, name: str) -> onnx.OptionalProto:
    field = _FIELDS[str(element.WhichOneof("value"))]
    proto = onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.DataType.Value(field.upper()))
    if contents is not None:
        getattr(proto, f"{field}_value").CopyFrom(to_proto(contents, element))
    return proto


def _map(contents: Mapping[Any, Any], type_: onnx.TypeProto.Map, name: str) -> onnx.MapProto:
    proto = onnx.MapProto(name=name, key_type=type_.key_type)
    if type_.key_type == onnx.TensorProto.STRING:
        proto.string_keys.extend(key.encode() for key in contents)
    else:
        proto.keys.extend(contents)
    dtype = type_.value_type.tensor_type.elem_type
    scalars = [np.array(value, helper.tensor_dtype_to_np_dtype(dtype)) for value in contents.values()]
    proto.values.elem_type = onnx.SequenceProto.DataType.TENSOR
    proto.values.tensor_values.extend(_tensor(scalar, dtype, "") for scalar in scalars)
    return proto


def from_proto(data: bytes, type_: onnx.TypeProto) -> Any:
    """Read the contents of an input of a type."""
    kind = type_.WhichOneof("value")
    reader: Any = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "map_type": onnx.MapProto,
        "optional_type": onnx.OptionalProto,
    }[str(kind)]
    return _contents(reader.FromString(data))


def _contents(proto: Any) -> Any:
    if isinstance(proto, onnx.TensorProto):
        array = numpy_helper.to_array(proto)
        if proto.data_type != onnx.TensorProto.STRING:
            return array
        texts = np.empty(array.shape, object)
        texts[...] = np.array([text.decode() for text in proto.string_data], object).reshape(array.shape)
        return texts
    if isinstance(proto, onnx.SequenceProto):
        field = onnx.SequenceProto.DataType.Name(proto.elem_type).lower()
        return [_contents(one) for one in getattr(proto, f"{field}_values")]
    if isinstance(proto, onnx.OptionalProto):
        field = f"{onnx.OptionalProto.DataType.Name(proto.elem_type).lower()}_value"
        return _contents(getattr(proto, field)) if proto.HasField(field) else None
    keys = [key.decode() for key in proto.string_keys] or list(proto.keys)
    return dict(zip(keys, (one.item() for one in _contents(proto.values)), strict=True))
