"""Nodes with which onnxruntime 1.32 ends the process. It is not asked about models that have one."""

from collections.abc import Iterable, Iterator

import numpy as np
import onnx

from tests.generated.walk import Site, Values, reads, sites

_IN_FUNCTIONS = frozenset({"SimplifiedLayerNormalization", "SequenceMap", "CastLike", "Bernoulli"})
_OWN_LAYER_NORMALIZATION = 17
"""The first opset of ONNX that has LayerNormalization; before it, the operator is onnxruntime's."""


def crash_at_load(model: onnx.ModelProto) -> str:
    """Say why onnxruntime would crash at load, "" if it would not."""
    for function in model.functions:
        opset = next((one.version for one in function.opset_import if not one.domain), _OWN_LAYER_NORMALIZATION)
        early = {"LayerNormalization"} if opset < _OWN_LAYER_NORMALIZATION else set()
        names = {node.op_type for node in _all_nodes(function.node)} & (_IN_FUNCTIONS | early)
        if names:
            return f"crashes: {', '.join(sorted(names))} in a function, at load (segmentation fault)"
    return ""


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _all_nodes(body.node)


def crash(model: onnx.ModelProto, values: Values) -> str:
    """Say why onnxruntime would crash at a node, "" if it would not."""
    fixed = {one.name for one in model.graph.initializer}
    fixed |= {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    for site in sites(model, values):
        if site.operator == "com.microsoft.QLinearWhere" and not fixed.issuperset(site.node.input[index] for index in (3, 6)):
            return "crashes: a zero point that is not constant, if those of the result are (segmentation fault)"
        if reason := _reason(site):
            return reason
    return ""


def _reason(site: Site) -> str:
    first = site.operand(0)
    match site.operator:
        case "GRU" | "LSTM" if isinstance(first, np.ndarray) and first.size == 0:
            return "crashes: a batch of none (terminate called without an active exception)"
        case "RandomNormal" | "RandomNormalLike" if site.attribute("scale", 1.0) == 0:
            return "crashes: scale 0 (an assertion of the standard library)"
        case "com.microsoft.QLinearSigmoid" | "com.microsoft.QLinearLeakyRelu" if len(site.node.input) < 5:
            return "crashes: no last zero point (an assertion of the standard library)"
        case "Einsum" if any(isinstance(one, np.ndarray) and one.size == 0 for one in _operands(site)):
            return "crashes: an operand without elements (division by zero)"
        case "Unique" if isinstance(first, np.ndarray) and first.size == 0 and site.attribute("axis") is not None:
            return "crashes: no elements along an axis (terminate called without an active exception)"
        case "Scan" if _has_empty_values(site):
            return "crashes: no elements along an axis other than 0 (division by zero)"
    return ""


def _operands(site: Site) -> list[object]:
    return [site.operand(index) for index in range(len(site.node.input))]


def _has_empty_values(site: Site) -> bool:
    """A value that the node reads or makes, or a constant of its body, has no elements. Results in bodies are not known."""
    known = [site.values.get(name) for name in (*reads(site.node), *site.node.output) if name]
    own = [one for attribute in site.node.attribute for one in attribute.g.initializer]
    return any(isinstance(one, np.ndarray) and one.size == 0 for one in known) or any(0 in one.dims for one in own)
