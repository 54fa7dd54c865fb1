"""The operators of the sample, computed with NumPy: for each, its first opset version and its function."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Node

Function = Callable[..., Array]


def _gemm(node: Node) -> Function:
    """Return alpha * A * B + beta * C as a function, with A and B transposed as the attributes say. Spec: ONNX Gemm-13."""
    alpha, beta = np.float32(node.attr("alpha", 1.0)), np.float32(node.attr("beta", 1.0))

    def gemm(a: Array, b: Array, c: Array | None = None) -> Array:
        product: Array = alpha * ((a.T if node.attr("transA", 0) else a) @ (b.T if node.attr("transB", 0) else b))
        return product if c is None else product + beta * c

    return gemm


def _plain(function: Callable[..., Any]) -> Callable[[Node], Function]:
    return lambda node: function


OPERATORS: Mapping[str, tuple[int, Callable[[Node], Function]]] = {
    "Abs": (6, _plain(np.abs)),
    "Add": (7, _plain(np.add)),
    "Div": (7, _plain(np.divide)),
    "Exp": (6, _plain(np.exp)),
    "Gemm": (7, _gemm),
    "MatMul": (1, _plain(np.matmul)),
    "Mul": (7, _plain(np.multiply)),
    "Neg": (6, _plain(np.negative)),
    "Relu": (6, _plain(lambda x: np.maximum(x, np.float32(0)))),
    "Sigmoid": (6, _plain(lambda x: 1 / (1 + np.exp(-x)))),
    "Sqrt": (6, _plain(np.sqrt)),
    "Sub": (7, _plain(np.subtract)),
    "Tanh": (6, _plain(np.tanh)),
}
"""Operator -> its first opset version, and its function. Earlier versions broadcast by attributes or have other types."""
