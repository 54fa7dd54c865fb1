"""Models as text, for tests of loading and saving."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, parser

Array = np.ndarray[Any, np.dtype[Any]]

# Three levels; `inner` reads values of both levels above it, `shared` is hidden by a value of the else branch.
NESTED = """
main (float[N, 2] x, bool flag, bool deep) => (float[N, 2] y) <float[2] w = {1, 2}> {
    shared = Add(x, w)
    y = If (flag) <
        then_branch = yes () => (float[N, 2] t) {
            t1 = Neg(shared)
            t = If (deep) <
                then_branch = inner () => (float[N, 2] a) { a = Mul(t1, shared) },
                else_branch = other () => (float[N, 2] b) { b = Mul(t1, w) }
            >
        },
        else_branch = no () => (float[N, 2] e) {
            shared = Relu(x)
            e = Neg(shared)
        }
    >
}
"""

FUNCTIONS = """
<ir_version: 10, opset_import: ["": 18, "my": 1]>
main (float[N] x) => (float[N] y, float[N] z) {
    y = my.twice <alpha = 0.5> (x)
    z = my.scale (y, x)
}
<domain: "my", opset_import: ["": 18, "my": 1]>
twice <alpha> (a) => (c) {
    b = my.scale <by: float = @alpha> (a)
    c = my.scale <by: float = @alpha> (b)
}
<domain: "my", opset_import: ["": 14]>
scale <by: float = 2.0> (a, bias) => (c) {
    f = Constant <value_float: float = @by> ()
    c = Mul(a, f)
}
"""


def proto(graph: str, ir_version: int = 8, opsets: str = '"": 17') -> onnx.ModelProto:
    """The model of a graph in ONNX's text syntax."""
    return parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{opsets}]> {graph}")


def nodes(*made: onnx.NodeProto, outputs: tuple[str, ...] = ("y",), **options: Any) -> onnx.ModelProto:
    """A model of these nodes in this order, with an input `x`; for what the text syntax cannot say."""
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", *outputs)]
    graph = helper.make_graph(list(made), "main", infos[:1], infos[1:], **options)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def run(model: onnx.ModelProto, *feeds: Array) -> list[Array]:
    """What onnxruntime computes, its optimisations off."""
    from tests import text_graphs

    initialized = {tensor.name for tensor in model.graph.initializer}
    names = [info.name for info in model.graph.input if info.name not in initialized]
    return text_graphs.run(model, dict(zip(names, feeds, strict=True)))


def interpret(model: onnx.ModelProto, *feeds: Array) -> list[Array]:
    """What onnx's reference implementation computes; it takes functions that onnxruntime refuses."""
    from onnx.reference import ReferenceEvaluator

    names = [info.name for info in model.graph.input]
    return list(ReferenceEvaluator(model).run(None, dict(zip(names, feeds, strict=True))))
