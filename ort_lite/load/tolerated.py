"""Declarations that onnxruntime does not take at their word."""

from ort_lite.graph.model import Model
from ort_lite.graph.types import OptionalType, SequenceType, TensorType, Type


def forget_element_shapes(model: Model) -> None:
    """Forget the shapes of elements of inputs: onnxruntime feeds sequences and optionals without looking at them."""
    for value in model.graph.inputs:
        value.type = _without_shapes(value.type)


def _without_shapes(type_: Type | None) -> Type | None:
    if isinstance(type_, (SequenceType, OptionalType)):
        inner = type_.element
        element = TensorType(inner.dtype) if isinstance(inner, TensorType) else _without_shapes(inner)
        return type_.replace(element=element)
    return type_
