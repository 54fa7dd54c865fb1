"""Checks of a ModelProto while it is loaded. They raise InvalidGraph at the first error, even if a million follow."""

from collections.abc import Iterator, Sequence
from math import prod

from ort_lite.dtypes import itemsize, ort_name, to_onnx
from ort_lite.errors import InvalidGraph, shorten
from ort_lite.graph.graph import Graph, Value
from ort_lite.graph.types import TensorType, Type
from ort_lite.load.proto import element_type, pb, text
from ort_lite.load.scope import graph_name

MANY_ATTRIBUTES = 64
"""Above this number of attributes, the names of a node's attributes are compared before any attribute is read."""


def check_input_names(infos: Sequence[pb.ValueInfoProto]) -> Iterator[pb.ValueInfoProto]:
    """Yield the inputs of the model. Raises InvalidGraph for one without a name."""
    for info in infos:
        if not info.name:
            raise InvalidGraph("an input of the model has no name; every input needs one")
        yield info


def check_function_names(functions: Sequence[pb.FunctionProto]) -> None:
    """Raise InvalidGraph for a function without a name, or for two of the same name, before any is read."""
    seen = set[tuple[str, str, str]]()
    for function in functions:
        key = (domain_of(function.domain), text(function.name), text(function.overload))
        if not key[1]:
            raise InvalidGraph("a function of the model has no name; every function needs one")
        if key in seen:
            raise InvalidGraph(f"the model has function {key[1]!r} of domain {key[0]!r} twice")
        seen.add(key)


def check_node(proto: pb.NodeProto, where: str) -> None:
    """Raise InvalidGraph for a node without an operator."""
    if not proto.op_type:
        raise InvalidGraph(f"{where}: node {proto.name!r} has no operator (op_type is empty)").about(proto)


def check_attributes(proto: pb.NodeProto) -> None:
    """Raise InvalidGraph if a node has two attributes of the same name."""
    names = [attribute.name for attribute in proto.attribute]
    if len(set(names)) < len(names):
        listed = shorten(", ".join(map(str, names[:MANY_ATTRIBUTES])), 1000)
        raise InvalidGraph(f"{describe_node(proto)}: it has an attribute twice; the attributes are {listed}").about(proto)


def check_exists(proto: pb.NodeProto, names: Sequence[str], inputs: Sequence[Value | None]) -> None:
    """Raise InvalidGraph if a name in the node's inputs is not defined."""
    for name, value in zip(names, inputs, strict=True):
        if name and value is None:
            raise InvalidGraph(
                f"{describe_node(proto)}: input {name!r} is no input, initialiser or node output of the model"
            ).about(proto, input=name)


def check_input_type(value: Value, graph: Graph) -> None:
    """Raise InvalidGraph for an input of the model without a type, or too large to address."""
    if value.type is None:
        raise InvalidGraph(f"{graph_name(graph)}: input {value.name!r} has no type; every input of a model needs one")
    numbers = [dim for dim in value.shape or () if isinstance(dim, int)]
    if numbers and prod(numbers) * itemsize(value.dtype or "uint8") >= 2**63:
        raise InvalidGraph(f"{graph_name(graph)}: input {value.name!r} has dimensions {numbers}: 2**63 bytes or more")


def initializer_type(said: Type | None, initializer: Value) -> Type | None:
    """Return the type of an initialiser that a feed may replace.

    As in onnxruntime, a replacement may have other sizes in the dimensions that the model declares open.
    """
    own = initializer.type
    if not isinstance(said, TensorType) or not isinstance(own, TensorType) or said.shape is None or own.shape is None:
        return own
    if len(said.shape) != len(own.shape) or all(isinstance(dim, int) for dim in said.shape):
        return own
    return TensorType(own.dtype, said.shape)


def check_input(info: pb.ValueInfoProto, initializer: Value, graph: Graph) -> None:
    """Raise InvalidGraph if an initialiser is also an input, with another type."""
    tensor, array = info.type.tensor_type, initializer.constant
    if array is not None and tensor.HasField("shape"):
        said_dims = [dim.dim_value for dim in tensor.shape.dim[:]]
        fits = said_dims == list(array.shape) or (
            len(said_dims) == array.ndim and all(a <= 0 or a == b for a, b in zip(said_dims, array.shape, strict=True))
        )
        if not fits:
            raise InvalidGraph(
                f"{graph_name(graph)}: initialiser {info.name!r} has shape {list(array.shape)}, but the input of its name {said_dims}"
            )
    declared = tensor.elem_type
    if declared and initializer.dtype is not None and declared != to_onnx(initializer.dtype):
        came, said = initializer.dtype, element_type(declared, f"value {info.name!r}")
        raise InvalidGraph(
            f"{graph_name(graph)}: initialiser {info.name!r} is {ort_name(came)}, but the input of its name is {ort_name(said)}"
        )


def domain_of(name: str) -> str:
    """Return the domain of operators, "" for ONNX's own."""
    return "" if name == "ai.onnx" else text(name)


def describe_node(proto: pb.NodeProto) -> str:
    """Describe a node that may not have a name yet."""
    if proto.name:
        return f"{proto.op_type} {proto.name!r}"
    return f"{proto.op_type} with outputs {', '.join(map(repr, proto.output[:8]))}"
