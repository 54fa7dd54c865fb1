"""A Model back to ModelProto and to a file, as `onnx.checker` accepts it."""

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidGraph
from ort_lite.graph import Function, Graph, Model, Node, TensorType, Value
from ort_lite.proto import pb, same_operator, serialize, write_attribute, write_type
from ort_lite.tensor_proto import describe, to_bytes, write_tensor

PutTensor = Callable[[Array, pb.TensorProto, str], None]

_EXTERNAL_FROM = 1024  # bytes; smaller initialisers stay in the model, where the shape inference of others sees them
_ALIGNMENT = 64  # of a tensor in its file, so that a mapped one serves any kernel


def to_proto(model: Model) -> pb.ModelProto:
    """The model as a ModelProto that owns its bytes. O(size of the model).

    Names of nested graphs that hide outer ones are changed, since ONNX forbids that. Raises InvalidGraph for a node whose
    opset version is not the one that the model imports and holds another version of the operator.
    """
    return _to_proto(model, write_tensor)


def save(model: Model, path: str | os.PathLike[str], external_data: str | None = None) -> None:
    """Writes the model to `path`, its larger initialisers into the file `external_data` beside it if given.

    Files are replaced when they are complete, so the model may come from the very same files. Raises InvalidProtobuf above
    2 GiB without external data, InvalidArgument for a name that is not a plain file name.
    """
    path = Path(path)
    if external_data is None:
        _replace(path, lambda file: _write(file, serialize(to_proto(model))))
        return
    if Path(external_data).name != external_data or external_data == path.name:
        raise InvalidArgument(f"external_data={external_data!r}: expected the name of another file in {path.parent}")

    def write_both(data_file: BinaryIO) -> None:
        proto = _to_proto(model, _ExternalWriter(data_file, external_data))
        staged.append(serialize(proto))

    staged: list[bytes] = []
    _replace(path.parent / external_data, write_both)
    _replace(path, lambda file: _write(file, staged[0]))


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _replace(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """The file appears under its name when it is complete: a mapping of the old one stays intact, a reader sees no half."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            write(file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _ExternalWriter:
    """Appends tensors to a file and describes in the TensorProto where they are."""

    def __init__(self, file: BinaryIO, location: str) -> None:
        self._file, self._location = file, location

    def __call__(self, array: Array, proto: pb.TensorProto, name: str) -> None:
        describe(array, proto, name)
        data = b"" if proto.data_type == pb.TensorProto.STRING else to_bytes(array)
        if len(data) < _EXTERNAL_FROM:
            proto.Clear()
            write_tensor(array, proto, name)
            return
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        offset = self._file.tell()
        self._file.write(data)
        proto.data_location = pb.TensorProto.EXTERNAL
        for key, value in (("location", self._location), ("offset", str(offset)), ("length", str(len(data)))):
            entry = proto.external_data.add()
            entry.key, entry.value = key, value


def _to_proto(model: Model, put_initializer: PutTensor) -> pb.ModelProto:
    proto = pb.ModelProto(
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
    )
    for key, text in model.metadata_props.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, text
    imports = dict(model.opset_imports)
    writer = _Writer(model, imports, put_initializer)
    writer.graph(model.graph, proto.graph, {})
    for function in model.functions.values():
        _put_function(model, function, proto.functions.add(), put_initializer)
    _put_imports(imports, proto.opset_import)
    return proto


def _put_imports(imports: Mapping[str, int], opsets: "Repeated[pb.OperatorSetIdProto]") -> None:
    for domain, version in imports.items():
        opset = opsets.add()
        opset.domain, opset.version = domain, version


def _put_function(model: Model, function: Function, proto: pb.FunctionProto, put_initializer: PutTensor) -> None:
    proto.domain, proto.name, proto.doc_string = function.domain, function.name, function.graph.doc_string
    if function.overload:
        proto.overload = function.overload
    proto.attribute.extend(function.attributes)
    imports = dict(function.opset_imports)
    writer = _Writer(model, imports, put_initializer)
    visible = writer.declare(function.graph, {})
    for attribute in function.defaults.values():
        writer.attribute_into(proto.attribute_proto.add(), attribute, visible)
    proto.input.extend(writer.name(value) for value in function.graph.inputs)
    proto.output.extend(writer.name(value) for value in function.graph.outputs)
    writer.nodes(function.graph, proto.node, visible)
    writer.value_info((*function.graph.inputs, *writer.intermediate(function.graph)), proto.value_info)
    _put_imports(imports, proto.opset_import)
