"""The outputs that a case should have."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ort_lite.dtypes import from_numpy, from_onnx, from_ort_name, to_numpy
from tests.conformance.versions.cases import Case, Input, Maybe, Right
from tests.conformance.versions.models import convert, converted, model, names, results
from tests.conformance.versions.schemas import OpSchema, follows, formal, has_containers, main_variable
from tests.cpu.ort import ort_op

HALVES = ("float16", "bfloat16")
EXACT = ("BitCast", "EyeLike")
"""Operators whose results depend on the type itself, as do those of what moves sequences and optionals."""


def expected(case: Case, schema: OpSchema, dtype: str | None) -> list[Any]:
    """One for each output that the node names. Of float16 and bfloat16: of the same numbers in float32, rounded at the end.

    So are those of float64 that come from onnxruntime, which has few operators of the default domain in it.
    """
    inputs = converted(case, schema, dtype)
    own = next((kind for k, value in enumerate(inputs) if follows(schema, k) and (kind := _dtype(value))), None)
    lacks = (*HALVES, "float64") if is_onnxruntime(case) and not case.domain else HALVES
    replaced = own in lacks and case.op_type not in EXACT and not has_containers(schema)
    if replaced:
        inputs = tuple(convert(value, "float32") if follows(schema, k) else value for k, value in enumerate(inputs))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [_plain(value) for value in _asked(case, schema, inputs)]
        if not replaced:
            return found
        assert own is not None
        main = main_variable(schema)
        kinds = [formal(schema.outputs, k) for k, named in enumerate(case.outputs) if named]
        return [
            convert(value, own) if kind is not None and kind.type_str == main and _dtype(value) == "float32" else value
            for kind, value in zip(kinds, found, strict=True)
        ]


def is_onnxruntime(case: Case) -> bool:
    return isinstance(case.oracle, str) and case.oracle.startswith("onnxruntime")


def _asked(case: Case, schema: OpSchema, inputs: Sequence[Input]) -> list[Any]:
    if callable(case.oracle):
        stored = {key: float(np.float32(v)) if isinstance(v, float) else v for key, v in case.attributes.items()}
        made = case.oracle(*inputs, **stored)
        return list(made) if isinstance(made, tuple) else [made]
    fed: list[Any] = [value.value if isinstance(value, Maybe) else value for value in inputs]
    if is_onnxruntime(case):
        version = int(case.oracle.partition("-")[2] or schema.since_version)
        kinds = [_output_type(case, schema, inputs, k) for k in range(len(case.outputs))]
        attributes = dict(case.attributes)
        made = ort_op(case.op_type, fed, attributes, opset=version, domain=case.domain, outputs=kinds)
        return [value for value, named in zip(made, case.outputs, strict=True) if named]
    assert case.oracle == "reference", case.oracle
    feeds = {name: value for name, value in zip(names(case), fed, strict=True) if name}
    return list(ReferenceEvaluator(model(case, schema, inputs)).run(None, feeds))


def _output_type(case: Case, schema: OpSchema, inputs: Sequence[Input], position: int) -> str:
    """The element type of an output: that of the input with the same variable, or what onnx infers."""
    parameter = formal(schema.outputs, position)
    assert parameter is not None
    if parameter.type_str.startswith("tensor("):
        return from_ort_name(parameter.type_str)
    for k, value in enumerate(inputs):
        source = formal(schema.inputs, k)
        if source is not None and source.type_str == parameter.type_str and value is not None:
            return str(_dtype(value))
    inferred = onnx.shape_inference.infer_shapes(model(case, schema, inputs)).graph
    types = {info.name: info.type.tensor_type.elem_type for info in [*inferred.output, *inferred.value_info]}
    return from_onnx(types[results(case)[position]])


def _dtype(value: Any) -> str | None:
    if isinstance(value, Maybe):
        return _dtype(value.like)
    if isinstance(value, list):
        return _dtype(value[0]) if value else None
    return from_numpy(value.dtype) if isinstance(value, np.ndarray) else None


def _plain(value: Any) -> Any:
    """Arrays for NumPy's scalars, and strings as objects."""
    if value is None or isinstance(value, (dict, Maybe, Right)):
        return value
    if isinstance(value, list):
        return [_plain(one) for one in value]
    value = np.asarray(value)
    return value.astype(to_numpy("string")) if value.dtype.kind in "US" else value
