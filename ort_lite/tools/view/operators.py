"""ONNX's documentation of the operators in a model: the opset of their version, what they do, and a link."""

from collections.abc import Mapping

from ort_lite.errors import shorten
from ort_lite.graph.graph import Node
from ort_lite.inference.schema import NHWC_DOMAIN
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.tools.view import document as page
from ort_lite.tools.view.graph_records import first_paragraph

_LONG = 600
"""Characters of a text."""
_PAGES = {
    "": "https://onnx.ai/onnx/operators/onnx__{op_type}.html",
    "ai.onnx.ml": "https://onnx.ai/onnx/operators/onnx_aionnxml_{op_type}.html",
    "ai.onnx.preview.training": "https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_{op_type}.html",
    "com.microsoft": "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.{op_type}",
}


def operators_of(nodes: Mapping[str, Node], rules: ShapeRules) -> dict[str, page.OperatorData]:
    """Return the documentation by operator. `nodes` has one node of each. Imports onnx for the texts."""
    return {name: _operator(node, rules) for name, node in nodes.items()}


def _operator(node: Node, rules: ShapeRules) -> page.OperatorData:
    schema = rules.schemas.find(node)
    domain = "" if node.domain == NHWC_DOMAIN else node.domain
    url = _PAGES.get(domain, "").format(op_type=node.op_type) if schema is not None else ""
    return {
        "since": node.version if schema is None else schema.since,
        "doc": _text(node.op_type, node.version, domain),
        "url": url,
    }


def _text(op_type: str, version: int, domain: str) -> str:
    """Return the first paragraph of the documentation, or "" if onnx does not know the operator."""
    from onnx import defs

    if not defs.has(op_type, domain):
        return ""
    try:
        text = first_paragraph(defs.get_schema(op_type, version, domain).doc or "")
    except defs.SchemaError:
        return ""
    text = text.partition(" ```")[0]
    return shorten(text, _LONG)
