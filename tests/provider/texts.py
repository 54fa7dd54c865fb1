"""Graphs and sessions of ONNX text, for tests of providers."""

from collections.abc import Callable
from typing import Any

import onnx
import onnx.parser

import ort_lite
from ort_lite.graph import Graph, Node
from ort_lite.load.load import load


def proto(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')


def graph(text: str, opset: int = 17) -> Graph:
    return load(proto(text, opset)).graph


def named(*names: str) -> Callable[[Node], bool]:
    """Nodes by the name of their first output."""
    return lambda node: node.output.name in names


def plain(**config: str) -> ort_lite.SessionOptions:
    """Options without optimizations, with entries `ort_lite.KEY`."""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in config.items():
        options.add_session_config_entry(f"ort_lite.{key}", value)
    return options


def session(text: str, *providers: Any, **more: Any) -> ort_lite.InferenceSession:
    """Without optimizations."""
    return ort_lite.InferenceSession(proto(text), plain(), providers=list(providers), **more)


def owners(made: ort_lite.InferenceSession | ort_lite.Explanation) -> str:
    """The provider of each node, in the order of the graph."""
    found = made.explain() if isinstance(made, ort_lite.InferenceSession) else made
    return " ".join(place.provider.removesuffix("ExecutionProvider") for place in found.assignment.placements.values())
