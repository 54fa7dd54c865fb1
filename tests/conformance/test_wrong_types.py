"""Of every node one input in other types: refused when the model is loaded, naming the node, or allowed by the schema.

Who is right is computed here from the schemas of onnx and onnxruntime; nothing is compiled or run.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import onnx
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_schemas

from ort_lite.dtypes import from_ort_name, to_onnx
from ort_lite.errors import InvalidGraph
from ort_lite.inference.annotate import annotate
from ort_lite.inference.form import check_form
from ort_lite.load.load import load
from ort_lite.plugins import plugins
from ort_lite_cpu.operators import FAMILIES
from tests.conformance.versions.cases import Case
from tests.conformance.versions.checking import own_type
from tests.conformance.versions.models import model
from tests.conformance.versions.registry import matching
from tests.conformance.versions.schemas import Key, main_types, newest, schemas

TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8",
    "int32": "int32",
    "int64": "int64",
    "bool": "bool",
    "string": "string",
}
"""Those that are tried, as element types and as onnx spells them."""
BEYOND = {
    "Loop": "what its body gives back must have the type of the state",
    "Scan": "as Loop",
    "SequenceInsert": "an element has the type of the others",
    "SequenceMap": "its body takes the elements",
    "QLinearConcat": "its inputs come in threes: a tensor, a scale, a zero point",
}
"""Operators that refuse more than their schemas do, and why."""


def is_allowed(schema: Any, given: Sequence[str | None]) -> bool:
    """Whether the schema takes inputs of these types; None: left out, or no tensor."""
    types = {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}
    bound: dict[str, str] = {}
    for position, kind in enumerate(given):
        one = schema.inputs[min(position, len(schema.inputs) - 1)]
        name = one.type_str if hasattr(one, "type_str") else one.typeStr
        alike = one.is_homogeneous if hasattr(one, "is_homogeneous") else one.isHomogeneous
        if kind is None:
            continue
        if kind not in types.get(name, {name}) or (alike and bound.setdefault(name, kind) != kind):
            return False
    return True


def kind_of(info: onnx.TypeProto) -> str:
    """As schemas spell it: "tensor(float)", "seq(tensor(int8))", "map(int64, float)"."""
    case = info.WhichOneof("value")
    if case == "tensor_type":
        return f"tensor({onnx.TensorProto.DataType.Name(info.tensor_type.elem_type).lower()})"
    if case == "sparse_tensor_type":
        return f"sparse_tensor({onnx.TensorProto.DataType.Name(info.sparse_tensor_type.elem_type).lower()})"
    if case == "sequence_type":
        return f"seq({kind_of(info.sequence_type.elem_type)})"
    if case == "optional_type":
        return f"optional({kind_of(info.optional_type.elem_type)})"
    key = onnx.TensorProto.DataType.Name(info.map_type.key_type).lower()
    return f"map({key}, {kind_of(info.map_type.value_type)[7:-1]})"


def verdict(proto: onnx.ModelProto) -> str:
    """What the front of a session says of the model; empty where it takes it."""
    rules = plugins.shape_rules()
    found = load(proto)
    try:
        check_form(found, rules)
        annotate(found.graph, rules)
    except InvalidGraph as error:
        return str(error)
    return ""


def variants(proto: onnx.ModelProto) -> Iterator[tuple[str, list[str | None]]]:
    """The model with each input of its only node in each other type, one at a time: (what it is, the types of the inputs)."""
    [node] = proto.graph.node
    infos = {info.name: info.type for info in proto.graph.input}
    kinds = [kind_of(infos[name]) if name else None for name in node.input]
    yield "as it is", kinds
    for position, kind in enumerate(kinds):
        if kind is None:
            continue
        type_ = infos[node.input[position]]
        kept = type_.SerializeToString()
        for dtype, spelled in TYPES.items():
            if f"tensor({spelled})" != kind:
                shape = type_.tensor_type.shape if type_.tensor_type.HasField("shape") else None
                changed = helper.make_tensor_type_proto(to_onnx(dtype), None)
                if shape is not None:
                    changed.tensor_type.shape.CopyFrom(shape)
                type_.CopyFrom(changed)
                yield (
                    f"input {position} {dtype}",
                    [f"tensor({spelled})" if k == position else one for k, one in enumerate(kinds)],
                )
                type_.ParseFromString(kept)


def wrong(proto: onnx.ModelProto, schema: Any) -> Iterator[str]:
    """Variants of which the verdict is another than that of the schema, or does not name the node."""
    op_type = proto.graph.node[0].op_type
    for what, kinds in variants(proto):
        said, allowed = verdict(proto), is_allowed(schema, kinds)
        if allowed and said and op_type in BEYOND and what != "as it is":
            continue
        if bool(said) == allowed or (said and not said.startswith(f"{op_type} 'node': input")):
            yield f"{what}: {said or 'taken'}"


def label(key: Key) -> str:
    return f"{key[0]}{'.' if key[0] else ''}{key[1]}-{key[2]}"


# ONNX


def longest(key: Key) -> Case | None:
    """The case of an operator that gives most inputs, of those in types that its version allows."""
    types = main_types(schemas()[key])
    fitting = [one for one in matching(key) if not types or own_type(one, schemas()[key]) in (None, *types)]
    return max(fitting, key=count, default=None)


def count(one: Case | None) -> int:
    return 0 if one is None else sum(value is not None for value in one.inputs)


@pytest.mark.parametrize("key", [key for key in newest() if count(longest(key)) > 1], ids=label)
def test_each_input_in_other_types(key: Key) -> None:
    one = longest(key)
    assert one is not None
    assert list(wrong(model(one, schemas()[key], one.inputs), schemas()[key])) == []


# onnxruntime's own operators

_VALUES = {"INT": 1, "INTS": [1], "FLOAT": 1.0, "STRING": "a", "GRAPH": helper.make_graph([], "body", [], [])}


@cache
def microsoft() -> dict[Key, Any]:
    """Schemas of those that run here and have two or more inputs."""
    every = [one for one in onnxruntime_schemas.get_all_operator_schema() if (one.domain, one.name) in FAMILIES]
    return {(one.domain, one.name, 1): one for one in every if one.domain == "com.microsoft" and len(one.inputs) > 1}


def built(schema: Any) -> onnx.ModelProto:
    """A node with all its inputs, each of float32 or the first type that it may have, and of no known rank."""
    usual = ("tensor(float)", "sparse_tensor(float)")
    types = {
        one.type_param_str: next((kind for kind in usual if kind in one.allowed_type_strs), min(one.allowed_type_strs))
        for one in schema.type_constraints
    }
    infos = [declared(f"in{k}", types.get(one.typeStr, one.typeStr)) for k, one in enumerate(schema.inputs)]
    required: dict[str, Any] = {name: _VALUES[one.type.name] for name, one in schema.attributes.items() if one.required}
    outputs = [f"out{k}" for k in range(schema.min_output)]
    node = helper.make_node(schema.name, [info.name for info in infos], outputs, name="node", domain=schema.domain, **required)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(schema.domain, 1), helper.make_opsetid("", 21)])


def declared(name: str, kind: str) -> onnx.ValueInfoProto:
    """An input of a tensor's type, as schemas spell it."""
    make = helper.make_sparse_tensor_type_proto if kind.startswith("sparse_") else helper.make_tensor_type_proto
    return helper.make_value_info(name, make(to_onnx(from_ort_name(kind.removeprefix("sparse_"))), None))


@pytest.mark.parametrize("key", microsoft(), ids=label)
def test_each_input_of_onnxruntimes_operators_in_other_types(key: Key) -> None:
    assert list(wrong(built(microsoft()[key]), microsoft()[key])) == []
