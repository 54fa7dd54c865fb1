"""The IR: Model, Graph, Node, Value, Attr and their types."""

from ort_lite.graph.graph import Attr, Graph, Node, Value, clone_node, graph_text, node_text
from ort_lite.graph.model import Function, Model, Names
from ort_lite.graph.types import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, Type, type_name
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim

__all__ = [
    "Attr",
    "Dim",
    "Function",
    "Graph",
    "MapType",
    "Model",
    "Names",
    "Node",
    "OptionalType",
    "SequenceType",
    "Shape",
    "SparseTensorType",
    "TensorType",
    "Type",
    "Value",
    "clone_node",
    "graph_text",
    "node_text",
    "type_name",
]
