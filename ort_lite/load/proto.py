"""Protobuf: ONNX's generated classes, parsing of bytes, and conversion of TypeProto and AttributeProto in both directions.

The classes are loaded directly from onnx's generated module; importing the package `onnx` would cost four times as much. protobuf
keeps one class per message type, so `import onnx` returns the same classes before or after. The module is not put into
`sys.modules`, because the import system would then never bind `onnx.onnx_ml_pb2`.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError, EncodeError

from ort_lite.dtypes import Array, DType, from_onnx, to_onnx
from ort_lite.errors import InvalidGraph, InvalidProtobuf, OutOfMemory
from ort_lite.graph.graph import Attr, Graph
from ort_lite.graph.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from ort_lite.load.wire import Buffer, ByteSource, Malformed, Span, outline
from ort_lite.shapes.expr import Dim, Expr


def _generate() -> ModuleType:
    """Return onnx's `onnx_ml_pb2`. Raises ImportError if onnx is not installed."""
    if "onnx" in sys.modules:
        return import_module("onnx.onnx_ml_pb2")
    found = (finder.find_spec("onnx", None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    package = next((spec for spec in found if spec is not None), None)
    folders = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("onnx.onnx_ml_pb2", folders) if folders else None
    if spec is None or spec.loader is None:
        raise ImportError("ort_lite reads models with the classes of the package 'onnx': pip install onnx")
    module = ModuleType(spec.name)
    module.__spec__ = spec
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from onnx import onnx_ml_pb2

    pb = onnx_ml_pb2
else:
    pb = _generate()

OUTLINE_FROM = 2**22  # bytes; below, protobuf copies faster than Python scans
MOST_DIMS = 64
"""The most dimensions of a tensor, which is NumPy's limit."""
_LARGEST = 2**25  # bytes to parse as a whole: protobuf's objects may take a hundred times as many
NEWEST_IR_VERSION: int = max(pb.Version.values())
TEXT = ("utf-8", "surrogateescape")  # strings in models are really bytes: those that are not UTF-8 survive a round trip


def parse(source: ByteSource, origin: str, least: int | None = None) -> "tuple[pb.ModelProto, frozenset[Span]]":
    """Return the model, and the spans of the tensors whose bytes were replaced by `segment` (`ort_lite.load.wire`).

    Replaces tensors of at least `least` bytes, which is LARGE or EVERY; None replaces none. Raises InvalidProtobuf naming `origin`
    for bytes that are not a ModelProto, at the first field that shows it.
    """
    if bytes(source.piece(4, min(8, source.size))) == b"ORTM":
        raise InvalidProtobuf(f"{origin} is in ORT format, which is not supported: load the .onnx model it was made from")
    try:
        outlined = None if least is None else outline(source, least)
        if outlined is None and source.size > _LARGEST:
            _check_strange(source, origin)
            raise InvalidProtobuf(
                f"{origin} ({source.size} bytes) is no ONNX model: it has more fields than one of its size, or groups"
            )
        small, spans = outlined or (_whole(source.piece(0, source.size)), frozenset())
        proto = pb.ModelProto.FromString(small)
    except (DecodeError, Malformed) as error:
        _check_strange(source, origin)
        problem = "cannot be read as a ModelProto: it is no ONNX model, was cut short, or nests more than 100 messages"
        raise InvalidProtobuf(f"{origin} ({source.size} bytes) {problem}") from error
    except MemoryError as error:
        raise OutOfMemory(f"{origin} ({source.size} bytes) does not fit into memory as a ModelProto") from error
    if not proto.HasField("graph"):
        _check_strange(source, origin)
    return proto, spans


def _check_strange(source: ByteSource, origin: str) -> None:
    """Raise InvalidProtobuf naming the format if the bytes are in a known one."""
    from ort_lite.load.strangers import stranger

    if strange := stranger(source):
        raise InvalidProtobuf(f"{origin} ({source.size} bytes) is no ONNX model: it is {strange}")


def _whole(data: Buffer) -> bytes:
    """Return the bytes of a buffer, without a copy if it is a view of an entire `bytes` object."""
    if isinstance(data, bytes):
        return data
    return data.obj if type(data.obj) is bytes and len(data.obj) == data.nbytes else bytes(data)


def serialize(proto: "pb.ModelProto") -> bytes:
    """Serialize deterministically: equal models give equal bytes. Raises InvalidProtobuf above protobuf's limit of 2 GiB."""
    try:
        data: bytes = proto.SerializeToString(deterministic=True)
        return data
    except (EncodeError, ValueError) as error:
        raise InvalidProtobuf("the model exceeds protobuf's 2 GiB: save it with external_data=") from error


def text(field: str | bytes) -> str:
    """Return a string field as str. protobuf returns invalid UTF-8 as bytes; U+FFFD replaces what cannot be decoded."""
    return field if isinstance(field, str) else field.decode("utf-8", "replace")


def element_type(code: int, who: object) -> DType:
    """Return the element type of a TensorProto.DataType. Raises InvalidGraph naming `who` for an unknown one."""
    try:
        return from_onnx(code)
    except KeyError:
        raise InvalidGraph(f"{who}: element type {code} is not known; TensorProto.DataType lists those that are") from None


def dims_of(tensor: "pb.TypeProto.Tensor", who: object) -> "Sequence[pb.TensorShapeProto.Dimension]":
    """Return the dimensions of a declared type. Raises InvalidGraph for more than an array can have."""
    dims = tensor.shape.dim
    if len(dims) > MOST_DIMS:
        raise InvalidGraph(f"{who}: its type has {len(dims)} dimensions, {MOST_DIMS} at most")
    found: Sequence[pb.TensorShapeProto.Dimension] = dims[:]
    return found


def read_type(
    proto: "pb.TypeProto", dim: Callable[["pb.TensorShapeProto.Dimension", int], Dim], who: object, sparse: bool = False
) -> Type | None:
    """Read a type; None if the model leaves it open. `dim` creates a dimension from (proto, axis).

    Raises InvalidGraph for a type that no value here has; a sparse tensor is one unless `sparse`.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type" or (sparse and kind == "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        if not tensor.elem_type:
            return None
        known = tensor.HasField("shape")
        shape = tuple([dim(d, axis) for axis, d in enumerate(dims_of(tensor, who))]) if known else None
        return (TensorType if kind == "tensor_type" else SparseTensorType)(element_type(tensor.elem_type, who), shape)
    if kind == "sequence_type":
        element = read_type(proto.sequence_type.elem_type, dim, who)
        return None if element is None else SequenceType(element)
    if kind == "optional_type":
        element = read_type(proto.optional_type.elem_type, dim, who)
        return None if element is None else OptionalType(element)
    if kind == "map_type":
        value = read_type(proto.map_type.value_type, dim, who)
        return None if value is None else MapType(element_type(proto.map_type.key_type, who), value)
    if kind is not None:
        raise InvalidGraph(f"{who}: values of {kind} are not supported; tensors, sequences, maps and optionals are")
    return None


def write_type(type_: Type, proto: "pb.TypeProto", name: Callable[[Expr], str] = str) -> None:
    """Fill `proto`. `name` returns the name of a symbolic dimension, or "" for none."""
    match type_:
        case TensorType(dtype, shape):
            tensor = proto.sparse_tensor_type if isinstance(type_, SparseTensorType) else proto.tensor_type
            tensor.elem_type = to_onnx(dtype)
            if shape is not None:
                tensor.shape.SetInParent()
            for dim in shape or ():
                added = tensor.shape.dim.add()
                if isinstance(dim, int):
                    added.dim_value = dim
                elif text := name(dim):
                    added.dim_param = text
        case SequenceType(element):
            write_type(element, proto.sequence_type.elem_type, name)
        case OptionalType(element):
            write_type(element, proto.optional_type.elem_type, name)
        case MapType(key, value):
            proto.map_type.key_type = to_onnx(key)
            write_type(value, proto.map_type.value_type, name)


_PLAIN: dict[int, tuple[str, Callable[["pb.AttributeProto"], Any]]] = {
    1: ("FLOAT", lambda a: a.f),
    2: ("INT", lambda a: a.i),
    3: ("STRING", lambda a: a.s.decode(*TEXT)),
    6: ("FLOATS", lambda a: a.floats[:]),  # a slice: `list(a.floats)` takes twice as long
    7: ("INTS", lambda a: a.ints[:]),
    8: ("STRINGS", lambda a: _texts(a.strings[:])),
}


def _texts(strings: list[bytes]) -> list[str]:
    """Decode the strings, each distinct one once: the modes of a forest are ten thousand strings with two values."""
    known = {found: found.decode(*TEXT) for found in set(strings)}
    return [known[found] for found in strings]


_MANY_GRAPHS = 64  # graphs in an attribute: no operator has a list of them
_NAMES = {code: name for name, code in pb.AttributeProto.AttributeType.items()}
_FIELDS = {  # name of the type -> field
    "FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "SPARSE_TENSOR": "sparse_tensor", "TYPE_PROTO": "tp",
    "FLOATS": "floats", "INTS": "ints", "STRINGS": "strings", "TENSORS": "tensors", "GRAPHS": "graphs",
    "SPARSE_TENSORS": "sparse_tensors", "TYPE_PROTOS": "type_protos",
}  # fmt: skip


class _Place:
    """The owner and the name of an attribute, formatted only in case of an error."""

    __slots__ = ("_name", "_who")

    def __init__(self, who: Callable[[], str], name: str) -> None:
        self._who, self._name = who, name

    def __str__(self) -> str:
        return f"{self._who()}, attribute {self._name!r}"


class AttributeReader:
    """Converts AttributeProto to Attr. Three functions read nested parts: graphs, tensors, dimensions."""

    def __init__(
        self,
        graph: Callable[["pb.GraphProto"], Graph],
        tensor: Callable[["pb.TensorProto | pb.SparseTensorProto", object], Array],
        dim: Callable[["pb.TensorShapeProto.Dimension", int], Dim],
    ) -> None:
        self._graph, self._tensor, self._dim = graph, tensor, dim

    def __call__(self, proto: "pb.AttributeProto", who: Callable[[], str]) -> Attr:
        """Return the attribute. Raises InvalidGraph naming `who` and the attribute.

        Sparse tensors become dense (`sparse_value` of Constant becomes `value`).
        """
        code = proto.type or _guess(proto)
        name = proto.name
        if proto.ref_attr_name:
            return Attr(name, _NAMES.get(code, "UNDEFINED"), None, text(proto.ref_attr_name))
        if (plain := _PLAIN.get(code)) is not None:
            kind, read = plain
            value = read(proto)
            if not value and not _has(proto, kind) and _guess(proto) not in (0, code):
                came = _NAMES[_guess(proto)]
                raise InvalidGraph(f"{who()}: attribute {name!r} says that it is {kind}, but its value is {came}")
            return Attr(name, kind, value)
        kind = _NAMES.get(code, "UNDEFINED")
        where = _Place(who, name)
        if kind in ("TENSOR", "SPARSE_TENSOR"):
            if kind == "SPARSE_TENSOR":
                return Attr(name.removeprefix("sparse_"), "TENSOR", self._tensor(proto.sparse_tensor, where))
            return Attr(name, kind, self._tensor(proto.t, where))
        if kind in ("TENSORS", "SPARSE_TENSORS"):
            many = proto.tensors if kind == "TENSORS" else proto.sparse_tensors
            return Attr(name, "TENSORS", [self._tensor(tensor, where) for tensor in many])
        if kind == "GRAPH":
            return Attr(name, kind, self._graph(proto.g))
        if kind == "GRAPHS":
            if len(proto.graphs) > _MANY_GRAPHS and not all(graph.output for graph in proto.graphs):
                raise InvalidGraph(f"{where}: one of its {len(proto.graphs)} graphs has no output; expected one or more")
            return Attr(name, kind, [self._graph(graph) for graph in proto.graphs])
        if kind == "TYPE_PROTO":
            return Attr(name, kind, read_type(proto.tp, self._dim, where))
        if kind == "TYPE_PROTOS":
            return Attr(name, kind, [read_type(type_, self._dim, where) for type_ in proto.type_protos])
        raise InvalidGraph(f"{where}: type {code} is not known; AttributeProto.AttributeType lists those that are")


def _has(proto: "pb.AttributeProto", kind: str) -> bool:
    """Return True if the field of the kind is set."""
    field = _FIELDS[kind]
    return len(getattr(proto, field)) > 0 if kind.endswith("S") else proto.HasField(field)


def _guess(proto: "pb.AttributeProto") -> int:
    """Infer the type of an attribute that does not state it, as in files of IR version 1, from the field that is set."""
    filled = {field.name for field, _ in proto.ListFields()}
    return next((pb.AttributeProto.AttributeType.Value(kind) for kind, f in _FIELDS.items() if f in filled), 0)


def write_attribute(
    attribute: Attr,
    proto: "pb.AttributeProto",
    graph: Callable[[Graph, "pb.GraphProto"], None],
    tensor: Callable[[Array, "pb.TensorProto"], None],
) -> None:
    """Fill `proto`; `graph` and `tensor` fill nested messages."""
    proto.name = attribute.name
    proto.type = pb.AttributeProto.AttributeType.Value(attribute.type)
    if attribute.ref:
        proto.ref_attr_name = attribute.ref
        return
    values = attribute.value if attribute.type.endswith("S") else [attribute.value]
    field = _FIELDS[attribute.type]
    match attribute.type.removesuffix("S"):
        case "TENSOR":
            for array in values:
                tensor(array, proto.tensors.add() if field == "tensors" else proto.t)
        case "GRAPH":
            for body in values:
                graph(body, proto.graphs.add() if field == "graphs" else proto.g)
        case "TYPE_PROTO":
            for type_ in values:
                write_type(type_, proto.type_protos.add() if field == "type_protos" else proto.tp)
        case "STRING":
            encoded = [text.encode(*TEXT) for text in values]
            proto.strings.extend(encoded) if field == "strings" else setattr(proto, field, encoded[0])
        case _:
            getattr(proto, field).extend(values) if attribute.type.endswith("S") else setattr(proto, field, values[0])


def same_operator(domain: str, op_type: str, one: int, other: int) -> bool:
    """Return True if two opset versions have the same version of an operator.

    Imports onnx, so do not call it in processes that only run models.
    """
    import onnx

    try:
        versions = [onnx.defs.get_schema(op_type, version, domain).since_version for version in (one, other)]
    except onnx.defs.SchemaError:
        return False
    return versions[0] == versions[1]


def similar_operator(domain: str, op_type: str, one: int, other: int) -> bool:
    """Return True if an operator as of opset version `one` means the same in version `other`. Imports onnx.

    This holds if the schemas differ at most in element types, or if `other` lacks the operator.
    """
    import onnx

    if one == other:
        return True
    try:
        newer = onnx.defs.get_schema(op_type, one, domain)
    except onnx.defs.SchemaError:  # a domain that onnx does not know
        return False
    try:
        older = onnx.defs.get_schema(op_type, other, domain)
    except onnx.defs.SchemaError:
        return True

    def interface(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
        operands = [[(o.name, o.option) for o in listed] for listed in (schema.inputs, schema.outputs)]
        return operands, {
            name: (a.type, a.required, a.default_value.SerializeToString()) for name, a in schema.attributes.items()
        }

    return interface(newer) == interface(older)
