"""Models of one node, and inputs in other element types."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_lite.dtypes import Array, from_numpy, to_numpy, to_onnx
from tests.conformance.versions.cases import Case, Input, Maybe
from tests.conformance.versions.schemas import OpSchema, follows

OPEN, FIXED, UNNAMED = "open dimensions", "fixed dimensions", "unnamed dimensions"
_LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
_NARROW_FLOATS = ("float8", "float6", "float4")


def convert(value: Input, dtype: str) -> Input:
    """`value` in another element type: numbers are rounded to integers and clipped, strings are made of them."""
    if isinstance(value, list):
        return [convert(one, dtype) for one in value]
    if isinstance(value, Maybe):
        return Maybe(convert(value.value, dtype), convert(value.like, dtype))
    if not isinstance(value, np.ndarray) or from_numpy(value.dtype) == dtype:
        return value
    if value.dtype == object:
        value = np.arange(1.0, 1 + value.size).reshape(value.shape)
    if dtype == "string":
        return np.array([f"s{item}" for item in value.ravel()], object).reshape(value.shape)
    if dtype.startswith("complex"):
        return (value + 1j * value[..., ::-1] if value.ndim else value + 2j).astype(dtype)
    if dtype == "bool":
        return np.asarray(np.asarray(value.astype(np.float64)) != 0)
    with np.errstate(all="ignore"):
        if np.dtype(to_numpy(dtype)).kind in "iu" or dtype in _LIMITS:
            low, high = _LIMITS.get(dtype) or (np.iinfo(dtype).min, np.iinfo(dtype).max)
            whole = np.rint(np.nan_to_num(value.astype(np.float64)))
            return np.asarray(np.clip(whole, low, min(high, 2**53))).astype(np.int64).astype(to_numpy(dtype))
        if dtype.startswith(_NARROW_FLOATS):
            value = value.astype(np.float32)  # ml_dtypes knows no other way
        return value.astype(to_numpy(dtype))


def converted(case: Case, schema: OpSchema, dtype: str | None) -> tuple[Input, ...]:
    """The inputs with the main type variable bound to `dtype`; None leaves them as they are."""
    if dtype is None:
        return case.inputs
    return tuple(convert(value, dtype) if follows(schema, k) else value for k, value in enumerate(case.inputs))


def names(case: Case) -> list[str]:
    return ["" if value is None else f"in{k}" for k, value in enumerate(case.inputs)]


def results(case: Case) -> list[str]:
    return [f"out{k}" if named else "" for k, named in enumerate(case.outputs)]


def model(
    case: Case,
    schema: OpSchema,
    inputs: Sequence[Input],
    dims: str = FIXED,
    constants: Sequence[int] = (),
    outputs: Sequence[Any] | None = None,
) -> onnx.ModelProto:
    """The node alone in a graph of the opset of `schema`. `outputs` are values of the types that it declares."""
    infos, initializers = [], []
    for k, (name, value) in enumerate(zip(names(case), inputs, strict=True)):
        if k in constants and value is not None:
            initializers.append(_tensor(value, name))
        elif value is not None:
            counted = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.int64
            infos.append(helper.make_value_info(name, type_of(value, FIXED if counted and not follows(schema, k) else dims)))
    plain = {key: _tensor(value) if isinstance(value, np.ndarray) else value for key, value in case.attributes.items()}
    node = helper.make_node(case.op_type, names(case), results(case), name="node", domain=case.domain, **plain)
    out = [onnx.ValueInfoProto(name=name) for name in results(case) if name]
    if outputs is not None:
        out = [helper.make_value_info(info.name, type_of(value, UNNAMED)) for info, value in zip(out, outputs, strict=True)]
    graph = helper.make_graph([node], "g", infos, out, initializers)
    imports = [helper.make_opsetid(case.domain, schema.since_version)]
    if case.domain:
        imports.append(helper.make_opsetid("", 21))
    return helper.make_model(graph, opset_imports=imports)


def type_of(value: Any, dims: str | None = None) -> onnx.TypeProto:
    """The ONNX type of a value; `dims` says how the sizes of a tensor are spelled, None leaves out even the rank."""
    if isinstance(value, Maybe):
        return helper.make_optional_type_proto(type_of(value.like, dims))
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return helper.make_sequence_type_proto(type_of(value[0]))
        return helper.make_sequence_type_proto(type_of(value[0] if value else np.zeros((), np.float32)))
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        code = onnx.TensorProto.STRING if isinstance(key, str) else onnx.TensorProto.INT64
        return helper.make_map_type_proto(code, type_of(np.asarray(item)))
    value = np.asarray(value)
    spell: dict[str, Callable[[int], Any]] = {OPEN: lambda n: f"n{n}", FIXED: int, UNNAMED: lambda n: None}
    shape = None if dims is None else [spell[dims](n) for n in value.shape]
    return helper.make_tensor_type_proto(to_onnx(from_numpy(value.dtype)), shape)


def _tensor(value: Any, name: str | None = None) -> onnx.TensorProto:
    array: Array = value
    return numpy_helper.from_array(array, name)
