"""Types and shapes for every value of a graph: shape inference from the graph's inputs on, bodies included."""

from collections.abc import Mapping

from ort_lite.errors import InvalidArgument
from ort_lite.graph.graph import Graph
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType
from ort_lite.inference.inference import Inference
from ort_lite.inference.rules import Info, ShapeRules
from ort_lite.shapes.dims import substitute


def annotate(graph: Graph, rules: ShapeRules) -> Inference:
    """Sets `Value.type` of every value to what the rules find; what no rule knows keeps its declared type. O(nodes).

    Overridable initialisers count as inputs. Returns the Inference, which also knows the contents of small integer tensors.
    Raises ShapeInferenceError.
    """
    inference = Inference(rules, checked=True)
    inference.run(graph, [Info(value.type) for value in graph.inputs])
    for value, info in inference.infos.items():
        if info.type is not None:
            value.type = info.type
    return inference


def override_dimensions(model: Model, by_name: Mapping[str, int], by_denotation: Mapping[str, int] | None = None) -> None:
    """Replaces free dimensions of the model's inputs by numbers; what no input has is ignored, as onnxruntime does.

    Denotations are compared without regard to case; they override their own dimension alone, names all of one name. Raises
    InvalidArgument for a dimension that is another number already, or is overridden by two.
    """
    wanted = {name.lower(): size for name, size in (by_denotation or {}).items()}
    for value in model.graph.inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            shape = [substitute(dim, by_name) for dim in value.type.shape]
            for axis, denotation in enumerate(model.denotations.get(value.name, ())):
                size = wanted.get(denotation.lower()) if denotation else None
                if size is None:
                    continue
                if isinstance(shape[axis], int) and shape[axis] != size:
                    raise InvalidArgument(
                        f"input {value.name!r} has {shape[axis]} in dimension {axis}; the override by its denotation "
                        f"{denotation!r} is {size}"
                    )
                shape[axis] = size
            value.type = TensorType(value.type.dtype, tuple(shape))
