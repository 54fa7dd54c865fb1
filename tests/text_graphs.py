"""Graphs as ONNX text, for tests of transforms: a rule is given one text and must produce another.

`check` also runs the model before and after on random inputs with onnxruntime, its own optimisations switched off. Nodes of
another opset than the model's are run one by one, each as a model of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Attr, Graph, Model, Node, TensorType, Value, clone_node
from ort_lite.load.load import load
from ort_lite.load.save import to_proto
from ort_lite.plugins import plugins
from ort_lite.shapes import evaluate as size_of
from ort_lite.shapes import symbols
from ort_lite.transform import GraphPass, LocalRule, Transform
from ort_lite.transform.transform import TransformReport, transform

SIZES = (2, 3, 4, 5, 6, 7)  # of free dimensions, in the order in which the inputs name them


def model(signature: str, body: str, constants: str = "", opset: int = 21) -> Model:
    """The Model of `signature constants { body }`, ONNX's text format."""
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g {signature} {constants} {body}'
    return load(onnx.parser.parse_model(text))


def every_transform() -> list[Transform]:
    """Those before the claim, and then fusions."""
    listed = (*plugins.transforms(), *plugins.fusions())
    return list({transform.name: transform for transform in listed}.values())


def check(
    transforms: Transform | Sequence[Transform],
    signature: str,
    before: str,
    after: str | None = None,
    *,
    skip: str | None = None,
    constants: str = "",
    after_constants: str = "",
    opset: int = 21,
    tolerance: float = 1e-5,
    feeds: Mapping[str, Array] | None = None,
) -> TransformReport:
    """Runs the transforms, and nothing else, on `before`: the result must be `after`, or `before` where that is left out.

    With `skip` the graph stays, and a reason that contains the text is given. Weights of both texts are in `constants`; where
    `after_constants` gives those of the result, their values count too.
    """
    listed = [transforms] if isinstance(transforms, LocalRule | GraphPass) else list(transforms)
    original, changed = model(signature, before, constants, opset), model(signature, before, constants, opset)
    report = transform(changed, listed, "all", rules=plugins.shape_rules())
    expected = model(signature, before if after is None else after, after_constants or constants, opset)
    assert structure(changed.graph) == structure(expected.graph), f"{report}\n{changed.graph}"
    if after_constants:
        for got, want in zip(weights(changed.graph), weights(expected.graph), strict=True):
            np.testing.assert_array_equal(got, want)
    reasons = [skipped.reason for skipped in report.skipped]
    assert skip is None or any(skip in reason for reason in reasons), reasons
    assert [value.name for value in changed.graph.outputs] == [value.name for value in original.graph.outputs]
    same_outputs(original, changed, tolerance, feeds)
    return report


def same_outputs(a: Model, b: Model, tolerance: float, feeds: Mapping[str, Array] | None = None) -> None:
    """Both models give the same on random inputs, relative to the largest magnitude."""
    feeds = random_feeds(a.graph) if feeds is None else feeds
    for value, x, y in zip(a.graph.outputs, evaluate(a, feeds), evaluate(b, feeds), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), value.name
        largest = float(np.abs(x.astype(np.float64)).max(initial=1)) if x.dtype.kind in "fiub" else 1
        np.testing.assert_allclose(y, x, rtol=0, atol=tolerance * largest, err_msg=value.name)


def random_feeds(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    dims = [value.shape or () for value in graph.inputs]
    names = dict.fromkeys(symbol.name for shape in dims for symbol in symbols(shape))
    sizes = dict(zip(names, SIZES, strict=False))
    feeds = {}
    for value, shape in zip(graph.inputs, dims, strict=True):
        concrete = [size_of(dim, sizes) for dim in shape]
        dtype = to_numpy(value.dtype or "float32")
        random = rng.standard_normal(concrete) * 3 if dtype.kind == "f" else rng.integers(0, 2, concrete)
        feeds[value.name] = np.asarray(random).astype(dtype)
    return feeds


def evaluate(model: Model, feeds: Mapping[str, Array]) -> list[Array]:
    """The model's outputs according to onnxruntime."""
    imported = model.opset_imports
    if all(node.version == imported.get(node.domain) for node in model.graph.all_nodes()):
        return run(to_proto(model), feeds)
    graph = model.graph
    values: dict[Value, Array] = {value: feeds[value.name] for value in graph.inputs}
    values |= {value: value.constant for value in graph.initializers.values() if value.constant is not None}
    for node in graph:
        values.update(_evaluate_alone(node, values))
    return [values[value] for value in graph.outputs]


def _evaluate_alone(node: Node, values: Mapping[Value, Array]) -> dict[Value, Array]:
    assert not node.subgraphs()
    mapping: dict[Value, Value] = {}
    graph = Graph("alone")
    for value in dict.fromkeys(value for value in node.inputs if value is not None):
        array = values[value]
        mapping[value] = Value(value.name, TensorType(value.dtype or "float32", array.shape))
        graph.inputs.append(mapping[value])
    copy = graph.append(clone_node(node, mapping))
    graph.set_outputs(value for value in copy.outputs if value is not None)
    alone = Model(graph, {"": 21, "com.microsoft": 1} | {node.domain: node.version})
    results = run(to_proto(alone), {value.name: values[old] for old, value in mapping.items() if value in graph.inputs})
    return dict(zip((value for value in node.outputs if value is not None), results, strict=True))


def run(proto: Any, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, dict(feeds))
    return results


def structure(graph: Graph, names: dict[Value, str] | None = None) -> str:
    """The graph without its names: values are numbered as they appear, constants are told by type and shape alone."""
    names = {} if names is None else names

    def name(value: Value | None) -> str:
        if value is None:
            return ""
        if value not in names:
            array = value.constant
            names[value] = f"%{len(names)}" if array is None else f"{array.dtype}{list(array.shape)}"
        return names[value]

    def attribute(found: Attr) -> str:
        value = found.value
        if found.type == "GRAPH":
            return f"{found.name}={structure(value, names)}"
        return f"{found.name}={np.round(value, 5).tolist() if found.type in ('FLOAT', 'FLOATS') else value}"

    lines = [", ".join(map(name, graph.inputs))]
    for node in graph:
        attributes = " ".join(attribute(found) for _, found in sorted(node.attributes.items()))
        read = ", ".join(map(name, node.inputs))
        lines.append(f"{', '.join(map(name, node.outputs))} = {node.domain}.{node.op_type}<{attributes}>({read})")
    lines.append(", ".join(map(name, graph.outputs)))
    return "\n".join(lines)


def weights(graph: Graph) -> list[Array]:
    """Constants that nodes read, in the order in which they do."""
    read = dict.fromkeys(value for node in graph for value in node.inputs if value is not None)
    return [value.constant for value in read if value.constant is not None]
