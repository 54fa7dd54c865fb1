"""Types and shapes for every value of a graph: shape inference from the graph's inputs on, bodies included."""

from ort_lite.graph.graph import Graph
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import Info, ShapeRules


def annotate(graph: Graph, rules: ShapeRules) -> Inference:
    """Sets `Value.type` of every value to what the rules find; what no rule knows keeps its declared type. O(nodes).

    Overridable initialisers count as inputs. Returns the Inference, which also knows the contents of small integer tensors.
    Raises ShapeInferenceError.
    """
    inference = Inference(rules, checks_all=True)
    inference.run(graph, [Info(value.type) for value in graph.inputs])
    for value, info in inference.infos.items():
        if info.type is not None:
            value.type = info.type
    return inference
