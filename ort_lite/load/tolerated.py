"""Declarations that onnxruntime does not take at their word: models that it runs are brought to what they mean."""

import numpy as np

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Model, Names
from ort_lite.graph.types import OptionalType, SequenceType, TensorType, Type


def correct_declarations(model: Model) -> None:
    """Forget shapes of elements of inputs, and give bodies of loops the scalars that they declare as tensors of one element. O(nodes).

    onnxruntime feeds sequences and optionals without looking at shapes; and a body whose iteration number or condition is declared
    with one axis gets them so. Spec: ONNX Loop-21.
    """
    for value in model.graph.inputs:
        value.type = _without_shapes(value.type)
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Loop" and not node.domain:
            for body in node.subgraphs():
                _reshape_scalars(body, node.version)


def _without_shapes(type_: Type | None) -> Type | None:
    if isinstance(type_, (SequenceType, OptionalType)):
        inner = type_.element
        element = TensorType(inner.dtype) if isinstance(inner, TensorType) else _without_shapes(inner)
        return type_.replace(element=element)
    return type_


def _reshape_scalars(body: Graph, version: int) -> None:
    names = Names(body)
    first = next(iter(body), None)
    for index, value in enumerate(body.inputs[:2]):
        if value.shape is None or len(value.shape) != 1:
            continue
        if first is None or not value.uses:  # at most passed on, and a condition may have one axis
            value.type = TensorType(value.dtype or "int64", ())
            continue
        scalar = Value(value.name, TensorType(value.dtype or "int64", ()))
        value.name = names(f"{value.name}_element")
        shape = body.add_initializer(Value(names(f"{value.name}_shape"), constant=np.array([1], np.int64)))
        body.insert_before(
            first, Node("Reshape", [scalar, shape], [value], version=version, name=names(f"{value.name}_Reshape"))
        )
        body.inputs[index] = scalar
