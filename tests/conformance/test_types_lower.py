"""What the provider claims it also lowers: onnx's node cases with each type of the schema in the place of theirs.

Nothing is compiled or run here; results are the business of the other tests.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import onnx
import pytest
from onnx.defs import OpSchema

from ort_lite.dtypes import Array, DType, from_numpy, to_numpy, to_onnx
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Attr, Model, Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.inference.annotate import annotate
from ort_lite.load.load import load
from ort_lite.options import SessionOptions
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import Selection
from ort_lite.session.settle import settle
from ort_lite_cpu.lowering.lower import Lowering
from ort_lite_cpu.lowering.lowered import HostStep
from ort_lite_cpu.lowering.values import Values
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.provider import CPUExecutionProvider
from tests.conformance.onnx_backend import cases, data_sets
from tests.conformance.operator_table import parsed

pytestmark = pytest.mark.slow
_BODY = "the types in its body would have to change too"
_OWN = "its attributes are of the types that the case has"
APART = {
    "If": _BODY,
    "Loop": _BODY,
    "Scan": _BODY,
    "SequenceMap": _BODY,
    "FlexAttention": _BODY,
    "LabelEncoder": _OWN,
    "TfIdfVectorizer": _OWN,
    "SequenceInsert": "the elements of the sequence would have to change too",
    "BitCast": "the other type would have to be of the same size",
}
_NO_CASE_NAMES = """
CastMap CategoryMapper ConcatFromSequence DictVectorizer FeatureVectorizer GlobalLpPool Gradient Imputer LinearClassifier
LinearRegressor MaxRoiPool Multinomial Normalizer OneHotEncoder Optional RandomNormal RandomNormalLike RandomUniform
RandomUniformLike SVMClassifier SVMRegressor Scaler SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceLength
TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
"""
NO_CASE = frozenset(_NO_CASE_NAMES.split())
"""Operators of which onnx has no case of one node."""
OPERATORS = frozenset(schema.name for schema in onnx.defs.get_all_schemas())
UNDEFINED = ("there is nothing between two strings", "over strings", "to float8_e8m0fnu")
"""What the messages say where a type does not go with the case's attributes."""


@cache
def chosen() -> dict[str, str]:
    """The name of the first case of each operator."""
    found: dict[str, str] = {}
    for name, case in cases().items():
        if case.kind == "node" and case.model is not None and len(case.model.graph.node) == 1:
            found.setdefault(case.model.graph.node[0].op_type, name)
    return found


def schema_of(model: onnx.ModelProto) -> OpSchema:
    node = model.graph.node[0]
    version = next(opset.version for opset in model.opset_import if opset.domain == node.domain)
    return onnx.defs.get_schema(node.op_type, version, node.domain)


def variable(parameters: Sequence[OpSchema.FormalParameter], index: int) -> str:
    return parameters[min(index, len(parameters) - 1)].type_str


def retyped(values: Sequence[Value | None], parameters: Sequence[OpSchema.FormalParameter], name: str, dtype: DType) -> None:
    for index, value in enumerate(values):
        if value is not None and isinstance(value.type, TensorType) and variable(parameters, index) == name:
            value.type = TensorType(dtype, value.type.shape)


def converted(array: Array, dtype: DType) -> Array:
    if dtype == "string":
        return np.array([str(element) for element in array.reshape(-1)], object).reshape(array.shape)
    return (
        array.astype(np.float32).astype(to_numpy(dtype))
        if array.dtype.kind not in "Oc"
        else np.ones(array.shape, to_numpy(dtype))
    )


def made(model: onnx.ModelProto, inputs: Sequence[object], name: str, dtype: DType) -> Model:
    """The model with `dtype` for the type variable. Small operands behind the first are constants, which shapes come from."""
    schema, loaded = schema_of(model), load(model)
    [node] = loaded.graph
    retyped(node.inputs, schema.inputs, name, dtype)
    retyped(node.outputs, schema.outputs, name, dtype)
    if "to" in node.attributes and variable(schema.outputs, 0) == name:
        node.attributes["to"] = Attr.of("to", to_onnx(dtype))
    if node.op_type == "DequantizeLinear" and dtype == "float8_e8m0fnu":  # of the scale, and no result's
        node.attributes["output_dtype"] = Attr.of("output_dtype", to_onnx("float32"))
    data = {info.name: array for info, array in zip(model.graph.input, inputs, strict=False)}
    for value in operands(node):
        array = data.get(value.name)
        if isinstance(array, np.ndarray) and array.size <= 16 and value.dtype is not None:
            value.constant = array if from_numpy(array.dtype) == value.dtype else converted(array, value.dtype)
            loaded.graph.inputs.remove(value)
            loaded.graph.initializers[value.name] = value
    return loaded


def operands(node: Node) -> Iterator[Value]:
    yield from dict.fromkeys(value for value in node.inputs[1:] if value is not None and value is not node.inputs[0])


def refusal(model: Model) -> str:
    """Why the provider does not lower the model, or does it with a Python step although all its tensors hold numbers."""
    numbers = all(is_number(value) for node in model.graph for value in (*node.inputs, *node.outputs) if value is not None)
    for node in model.graph:
        for value in node.outputs:
            if value is not None:
                value.type = None
    annotate(model.graph, plugins.shape_rules())  # says what outputs really are
    settle(model, Selection((CPUExecutionProvider(),), listed=False), SessionOptions())
    feeds = [(value, Info(value.type)) for value in model.graph.inputs]
    try:
        nodes = list(model.graph)
        values = Values(feeds, plugins.shape_rules(), CPUOptions(threads=1), {}, Program)
        lowered = Lowering(values).run(nodes, model.graph.outputs)
    except NotSupported as error:
        return "" if any(text in str(error) for text in UNDEFINED) else str(error)
    python = any(isinstance(item, HostStep) and item.python for item in lowered.items)
    return "a Python step" if python and numbers and nodes[0].op_type != "ImageDecoder" else ""


def is_number(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype != "string"


@pytest.mark.parametrize("op_type", sorted(OPERATORS - NO_CASE - APART.keys()))
def test_every_type_is_lowered(op_type: str) -> None:
    case = cases()[chosen()[op_type]]
    assert case.model is not None
    inputs, _ = next(data_sets(case, case.model))
    refused: dict[str, str] = {}
    for constraint in schema_of(case.model).type_constraints:
        for text in sorted(constraint.allowed_type_strs):
            type_ = parsed(text)
            if isinstance(type_, TensorType):
                why = refusal(made(case.model, inputs, constraint.type_param_str, type_.dtype))
                refused.update({f"{constraint.type_param_str}={text}": why} if why else {})
    assert refused == {}


def test_every_operator_with_a_case_is_asked() -> None:
    assert OPERATORS - chosen().keys() == NO_CASE
