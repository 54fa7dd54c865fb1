"""Conversion of a Model to a ModelProto and to a file that `onnx.checker` accepts."""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ort_lite.dtypes import BITS, Array, from_numpy
from ort_lite.errors import InvalidArgument, InvalidGraph
from ort_lite.graph.graph import Attr, Graph, Node, Value
from ort_lite.graph.model import Function, Model
from ort_lite.load.files import check_replaceable
from ort_lite.load.parse_options import SerializeOptions
from ort_lite.load.proto import pb, same_operator, serialize, write_attribute, write_type
from ort_lite.load.tensor_proto import describe, nbytes_of, to_bytes, write_tensor
from ort_lite.native.checkpoint import checkpoint
from ort_lite.shapes.dims import as_symbol
from ort_lite.shapes.expr import Expr

PutTensor = Callable[[Array, pb.TensorProto, str], None]

_ALIGNMENT = 64  # of tensors in a file, so that mapped ones suit all kernels
_CHUNK = 2**20  # bytes to check and write at a time


def to_proto(model: Model) -> pb.ModelProto:
    """Return the model as a ModelProto that owns its bytes. O(size of the model).

    Names in nested graphs that shadow outer names are changed, since ONNX forbids shadowing. Raises InvalidGraph for a node whose
    opset version has another version of its operator than the one that the model imports.
    """
    return _to_proto(model, write_tensor)


def save(
    model: Model,
    path: str | os.PathLike[str],
    options: SerializeOptions | None = None,
    *,
    external_data: str | None = None,
) -> None:
    """Write the model to `path`, and larger initialisers to the file `external_data` next to it, if given.

    `external_data` overrides that of `options`. Files are replaced only once complete, so the model may come from the same files.
    Needs about a megabyte of additional memory, plus the contents of the model file. Runs of zeros become holes if the file system
    supports them. Raises InvalidProtobuf above 2 GiB without external data, and InvalidArgument for a name that is not a plain file
    name and for options other than SerializeOptions.
    """
    path = Path(path)
    options = SerializeOptions() if options is None else options
    if not isinstance(options, SerializeOptions):
        raise InvalidArgument(f"save: options came as {type(options).__name__}, expected SerializeOptions")
    external_data = options.external_data if external_data is None else external_data
    if external_data is None:
        _replace(path, lambda file: file.write(serialize(to_proto(model))))
        return
    if external_data in ("", path.name) or Path(external_data).name != external_data:
        raise InvalidArgument(f"external_data={external_data!r}: expected the name of another file in {path.parent}")

    def write_both(data_file: BinaryIO) -> None:
        proto = _to_proto(model, _ExternalWriter(data_file, external_data, options))
        staged.append(serialize(proto))

    staged: list[bytes] = []
    _replace(path.parent / external_data, write_both)
    _replace(path, lambda file: file.write(staged[0]))


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a new file and rename it once complete: mappings of the old file stay valid, and readers never see a partial file.

    Raises OSError if the name is that of a folder, a pipe or a device.
    """
    check_replaceable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            write(file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _ExternalWriter:
    """Appends tensors to a file and records their positions in the TensorProto."""

    def __init__(self, file: BinaryIO, location: str, options: SerializeOptions) -> None:
        self._file, self._location, self._threshold = file, location, options.raw_data_threshold
        self._alignment = options.alignment or _ALIGNMENT

    def __call__(self, array: Array, proto: pb.TensorProto, name: str) -> None:
        size = nbytes_of(array)
        if size is None or size < self._threshold:
            write_tensor(array, proto, name)
            return
        describe(array, proto, name)
        self._file.seek(-self._file.tell() % self._alignment, os.SEEK_CUR)
        offset = self._file.tell()
        _write_array(self._file, array)
        proto.data_location = pb.TensorProto.EXTERNAL
        for key, value in (("location", self._location), ("offset", str(offset)), ("length", str(size))):
            entry = proto.external_data.add()
            entry.key, entry.value = key, value


def _write_array(file: BinaryIO, array: Array) -> None:
    """Write the bytes that `to_bytes` returns, without a copy of the whole and with holes for zeros."""
    if from_numpy(array.dtype) in BITS:
        data = np.frombuffer(to_bytes(array), np.uint8)
    else:
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
    for begin in range(0, data.size, _CHUNK):
        checkpoint()
        chunk = data[begin : begin + _CHUNK]
        if chunk.any():
            file.write(chunk.data)
        else:
            file.seek(chunk.size, os.SEEK_CUR)
    file.truncate()  # keeps a hole at the end


def _to_proto(model: Model, put_initializer: PutTensor) -> pb.ModelProto:
    proto = pb.ModelProto(ir_version=model.ir_version, model_version=model.model_version)
    for field in ("producer_name", "producer_version", "domain", "doc_string"):
        if text := getattr(model, field):
            setattr(proto, field, text)
    for key, text in model.metadata_props.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, text
    writer = _Writer(model, model.opset_imports, put_initializer)
    writer.graph(model.graph, proto.graph, {})
    writer.put_imports(proto.opset_import)
    for function in model.functions.values():
        _Writer(model, function.opset_imports, put_initializer).function(function, proto.functions.add())
    return proto


class _Writer:
    """Writes a graph with its nested graphs, or a function."""

    def __init__(self, model: Model, imports: Mapping[str, int], put_initializer: PutTensor) -> None:
        self._model, self._imports, self._put_initializer = model, dict(imports), put_initializer
        self._names: dict[Value, str] = {}
        self._dim_name = _DimNames(model)

    def graph(self, graph: Graph, proto: pb.GraphProto, outer: Mapping[str, Value]) -> None:
        """Fill `proto`. `outer` holds the values of the enclosing graphs by name."""
        visible = self._declare(graph, outer)
        proto.name = graph.name or "graph"
        if graph.doc_string:
            proto.doc_string = graph.doc_string
        inputs = dict.fromkeys(graph.inputs)
        for value in graph.initializers.values():
            checkpoint()
            if value.constant is None:
                raise InvalidGraph(f"initialiser {value.name!r} has no array")
            self._put_initializer(value.constant, proto.initializer.add(), self._name(value))
            if self._model.ir_version < 4:  # where initialisers are also inputs
                inputs[value] = None
        self._infos(inputs, proto.input)
        if graph is self._model.graph:
            self._denotations(proto.input)
        self._nodes(graph, proto.node, visible)
        self._infos(graph.outputs, proto.output)
        self._infos(_intermediate(graph), proto.value_info)

    def function(self, function: Function, proto: pb.FunctionProto) -> None:
        graph = function.graph
        visible = self._declare(graph, {})
        proto.domain, proto.name = function.domain, function.name
        if function.overload:
            proto.overload = function.overload
        if graph.doc_string:
            proto.doc_string = graph.doc_string
        proto.input.extend(self._name(value) for value in graph.inputs)
        proto.output.extend(self._name(value) for value in graph.outputs)
        proto.attribute.extend(function.attributes)
        for attribute in function.defaults.values():
            self._attribute(attribute, proto.attribute_proto.add(), visible)
        self._nodes(graph, proto.node, visible)
        typed = [value for value in (*graph.inputs, *graph.outputs, *_intermediate(graph)) if value.type is not None]
        self._infos(dict.fromkeys(typed), proto.value_info)
        self.put_imports(proto.opset_import)

    def put_imports(self, opsets: Any) -> None:
        """Fill a repeated OperatorSetIdProto with the imports and with those that the written nodes also need."""
        for domain, version in self._imports.items():
            opset = opsets.add()
            opset.domain, opset.version = domain, version

    def _declare(self, graph: Graph, outer: Mapping[str, Value]) -> dict[str, Value]:
        """Name the values of the graph uniquely, avoiding names in `outer`, and return all that its nodes can read."""
        visible = dict(outer)
        made = [value for node in graph for value in node.outputs if value is not None]
        for value in (*graph.inputs, *graph.outputs, *graph.initializers.values(), *made):
            if value in self._names:
                continue
            name, number = value.name, 0
            while name in visible or not name:
                number += 1
                name = f"{value.name}_{number}"
            visible[name] = value
            self._names[value] = name
        return visible

    def _name(self, value: Value) -> str:
        if value not in self._names:
            raise InvalidGraph(f"{value.name!r} is read where no graph defines it, by {', '.join(map(str, value.readers[:3]))}")
        return self._names[value]

    def _nodes(self, graph: Graph, nodes: Any, visible: Mapping[str, Value]) -> None:
        for node in graph:
            checkpoint()
            self._check_version(node)
            proto = nodes.add()
            proto.op_type, proto.name = node.op_type, node.name
            if node.domain:
                proto.domain = node.domain
            if node.overload:
                proto.overload = node.overload
            proto.input.extend("" if value is None else self._name(value) for value in node.inputs)
            proto.output.extend("" if value is None else self._name(value) for value in node.outputs)
            for attribute in node.attributes.values():
                self._attribute(attribute, proto.attribute.add(), visible)

    def _attribute(self, attribute: Attr, proto: pb.AttributeProto, visible: Mapping[str, Value]) -> None:
        write_attribute(attribute, proto, lambda body, into: self.graph(body, into, visible), write_tensor)

    def _check_version(self, node: Node) -> None:
        imported = self._imports.setdefault(node.domain, node.version)
        if imported == node.version or (node.domain, node.op_type, node.overload) in self._model.functions:
            return
        if not same_operator(node.domain, node.op_type, node.version, imported):
            domain = node.domain or "ai.onnx"
            raise InvalidGraph(
                f"{node} is of {domain} {node.version}, another version of the operator than {domain} {imported}, which the "
                "model imports: save the model as it was before it was transformed, or import a newer opset"
            )

    def _denotations(self, inputs: Iterable[pb.ValueInfoProto]) -> None:
        for info in inputs:
            names = self._model.denotations.get(info.name, ())
            for dim, name in zip(info.type.tensor_type.shape.dim, names, strict=False):
                if name:
                    dim.denotation = name

    def _infos(self, values: Iterable[Value], infos: Any) -> None:
        for value in values:
            checkpoint()
            info = infos.add()
            info.name = self._name(value)
            if value.type is not None:
                write_type(value.type, info.type, self._dim_name)


class _DimNames:
    """The names of symbolic dimensions. Expressions get new names, since tools use `dim_param` as a name or evaluate it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._made: dict[Expr, str] = {}
        self._taken: set[str] = set()

    def __call__(self, dim: Expr) -> str:
        """Return the name, or "" for none. Equal expressions have the same name."""
        if as_symbol(dim) is not None:
            return self._model.unnamed_dims.get(str(dim), str(dim))
        if not self._made:
            self._taken = {
                str(known) for value in _values(self._model.graph) for known in getattr(value.type, "shape", None) or ()
            }
        if dim not in self._made:
            numbers = (f"unk__{number}" for number in count(len(self._made)))
            self._made[dim] = next(name for name in numbers if name not in self._taken)
            self._taken.add(self._made[dim])
        return self._made[dim]


def _values(graph: Graph) -> Iterator[Value]:
    """Yield the values of the graph and of its nested graphs that may have types."""
    yield from graph.inputs
    for node in graph.all_nodes():
        yield from (value for value in node.outputs if value is not None)
        for body in node.subgraphs():
            yield from body.inputs


def _intermediate(graph: Graph) -> list[Value]:
    """Return the values with known types that nodes compute, except the graph's outputs."""
    made = [value for node in graph for value in node.outputs if value is not None and value.type is not None]
    return [value for value in made if value not in graph.outputs]
