"""A draft as a ModelProto, whose inputs declare their sizes as numbers, by names, or not at all."""

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_onnx
from ort_lite.graph.graph import Attr
from ort_lite.graph.types import MapType, OptionalType, SequenceType, TensorType, Type
from ort_lite.testing.generator.draft import Draft, Known, NodeDraft

IR_VERSION = 10
DECLARATIONS = ("fixed", "fixed", "shared", "own", "unnamed", "unranked")
"""How an input declares its sizes: as numbers; by a name for each size; by a name for each axis; unnamed; not even their number."""


def model_proto(draft: Draft, rng: Random, style: str | None = None) -> Any:
    """Return the draft as a ModelProto. `style`, one of DECLARATIONS or drawn at random, is how inputs declare their sizes."""
    from onnx import helper

    imports = [helper.make_opsetid(domain, version) for domain, version in draft.opsets.items()]
    return helper.make_model(graph_proto(draft, rng, style), opset_imports=imports, ir_version=IR_VERSION)


def graph_proto(draft: Draft, rng: Random, style: str | None = None) -> Any:
    """Return the draft as a GraphProto. A draft with an outer one becomes a body, whose inputs have fixed sizes."""
    from onnx import ValueInfoProto, helper, numpy_helper

    body = draft.outer is not None
    style = "fixed" if body else style or rng.choice(DECLARATIONS)
    inputs = [_input(draft.values[name], style if rng.random() < 0.8 else "fixed") for name in draft.inputs]
    outputs = [
        helper.make_value_info(name, type_proto(draft.lookup(name).type, None)) if body else ValueInfoProto(name=name)
        for name in draft.outputs
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in draft.constants.items()]
    nodes = [_node(node, index, rng) for index, node in enumerate(draft.nodes)]
    return helper.make_graph(nodes, "body" if body else "generated", inputs, outputs, constants)


def parse_graph(text: str, constants: Mapping[str, Array]) -> Any:
    """Parse a GraphProto from ONNX's text syntax, and add initializers."""
    from onnx import numpy_helper, parser

    graph = parser.parse_graph(text)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return graph


def _input(known: Known, style: str) -> Any:
    """Declare an input. Vectors of integers always have numeric sizes, because axes and shapes depend on them."""
    from onnx import helper

    sizes = known.shape
    counted = known.kind in ("int64", "int32") and sizes is not None and len(sizes) <= 1
    if sizes is None or (style == "unranked" and not counted):
        return helper.make_value_info(known.name, type_proto(known.type, None))
    dims: dict[str, list[Any]] = {
        "fixed": [*sizes],
        "shared": [f"n{n}" for n in sizes],
        "own": [f"{known.name}_{axis}" for axis in range(len(sizes))],
        "unnamed": [None] * len(sizes),
    }
    return helper.make_value_info(known.name, type_proto(known.type, dims["fixed" if counted else style]))


def type_proto(type_: Type, dims: Any) -> Any:
    """Return a TypeProto. `dims` are a tensor's declared sizes; None leaves the rank open."""
    from onnx import helper

    match type_:
        case TensorType(dtype, _):
            return helper.make_tensor_type_proto(to_onnx(dtype), dims)
        case SequenceType(element):
            return helper.make_sequence_type_proto(type_proto(element, None))
        case OptionalType(element):
            return helper.make_optional_type_proto(type_proto(element, None))
        case MapType(key, value):
            return helper.make_map_type_proto(to_onnx(key), type_proto(value, []))
    raise TypeError(f"{type_!r} is no type")


def _node(node: NodeDraft, index: int, rng: Random) -> Any:
    from onnx import helper

    proto = helper.make_node(node.op_type, node.inputs, node.outputs, name=f"{node.op_type}_{index}", domain=node.domain)
    proto.attribute.extend(_attribute(name, value, rng) for name, value in sorted(node.attributes.items()))
    return proto


def _attribute(name: str, value: Any, rng: Random) -> Any:
    from onnx import AttributeProto, helper, numpy_helper

    if isinstance(value, Attr) and value.type == "SPARSE_TENSOR":
        value = _sparse(value.value, rng)
    elif isinstance(value, Attr):
        return helper.make_attribute(name, value.value, attr_type=AttributeProto.AttributeType.Value(value.type))
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    elif isinstance(value, Draft):
        value = graph_proto(value, rng)
    elif isinstance(value, (TensorType, SequenceType, OptionalType, MapType)):
        value = type_proto(value, None)
    if isinstance(value, (list, tuple)) and not value:
        return helper.make_attribute(name, value, attr_type=AttributeProto.INTS)
    return helper.make_attribute(name, value)


def _sparse(array: Array, rng: Random) -> Any:
    """Return a SparseTensorProto of the array. Its indices are flat positions or coordinates."""
    from onnx import helper, numpy_helper

    flat = np.flatnonzero(array)
    indices = flat if rng.random() < 0.5 else np.stack(np.unravel_index(flat, array.shape), -1)
    values = numpy_helper.from_array(array.reshape(-1)[flat])
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices.astype(np.int64)), array.shape)
