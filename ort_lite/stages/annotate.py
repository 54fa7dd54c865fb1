"""Types and shapes for every value of a graph: shape inference from the graph's inputs on, bodies included."""

from collections.abc import Mapping

from ort_lite.graph import Graph, TensorType
from ort_lite.inference import Inference, Info, ShapeRules
from ort_lite.shapes import substitute


def annotate(graph: Graph, rules: ShapeRules) -> Inference:
    """Sets `Value.type` of every value to what the rules find; what no rule knows keeps its declared type. O(nodes).

    Overridable initialisers count as inputs. Returns the Inference, which also knows the contents of small integer tensors.
    Raises ShapeInferenceError.
    """
    inference = Inference(rules)
    inference.run(graph, [Info(value.type) for value in graph.inputs])
    for value, info in inference.infos.items():
        if info.type is not None:
            value.type = info.type
    return inference


def override_dimensions(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Replaces free dimensions of the graph's inputs by numbers; names that no input has are ignored, as onnxruntime does."""
    for value in graph.inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            value.type = TensorType(value.type.dtype, tuple(substitute(dim, sizes) for dim in value.type.shape))
