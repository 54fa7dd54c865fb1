"""How much there is to do in a node: arithmetic and bytes, from its shapes. A rough estimate, where nothing was measured."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ort_lite.dtypes import itemsize
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.shapes.dims import evaluate, symbols
from ort_lite.shapes.expr import Dim, Expr

Sizes = Callable[[Dim], int]
"""A number for a dimension, free ones included."""

_VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Size", "Constant", "ConstantOfShape"})


def sizes_for(dims: Mapping[str, int], free: int) -> Sizes:
    """Free dimensions have the sizes in `dims`, others are `free`."""

    def size(dim: Dim) -> int:
        if not isinstance(dim, Expr):
            return dim
        return max(0, evaluate(dim, {symbol.name: dims.get(symbol.name, free) for symbol in symbols([dim])}))

    return size


def elements(value: Value | None, size: Sizes) -> int:
    """0 for what is no tensor, or of unknown rank."""
    if value is None or not isinstance(value.type, TensorType) or value.type.shape is None:
        return 0
    return math.prod(map(size, value.type.shape))


def nbytes(value: Value | None, size: Sizes) -> int:
    """Strings count 16 bytes each."""
    return elements(value, size) * (itemsize(value.dtype or "") or 16) if value is not None and value.dtype else 0


def work(node: Node, size: Sizes) -> tuple[float, float]:
    """Operations and bytes read or written. Bodies are not counted: their nodes are nodes of their own. O(inputs and outputs)."""
    if node.op_type in _VIEWS:
        return 0.0, 0.0
    moved = float(sum(nbytes(value, size) for value in (*node.inputs, *node.outputs)))
    made = max((elements(value, size) for value in node.outputs), default=0)
    return made * _per_element(node, size), moved


def _per_element(node: Node, size: Sizes) -> float:
    """Operations for each element of the greatest output."""
    name = node.op_type
    if name in ("Conv", "FusedConv", "ConvInteger", "QLinearConv", "DeformConv", "NhwcFusedConv"):
        return 2.0 * _product(_weights(node), 1, None, size)
    if name == "ConvTranspose":  # each input element goes to a kernel's worth of outputs
        kernel, ratio = _product(_weights(node), 1, None, size), elements(node.inputs[0], size)
        return 2.0 * kernel * ratio / max(1, elements(node.output, size))
    if "MatMul" in name or "Gemm" in name:
        transposed = "Gemm" in name and bool(node.attr("transA", 0))
        return 2.0 * _product(node.inputs[0], -2 if transposed else -1, -1 if transposed else None, size)
    if "Attention" in name:
        return 4.0 * _product(node.inputs[0], -2, None, size)
    if name in ("LSTM", "GRU", "RNN"):  # X (T, B, I), W (D, gates * H, I), R (D, gates * H, H): each weight once a step and row
        per_row = elements(node.inputs[1], size) + elements(node.inputs[2], size)
        rows = _product(node.inputs[0], 0, 2, size)
        return 2.0 * per_row * rows / max(1, *(elements(value, size) for value in node.outputs))
    if name.startswith("Reduce") or "Pool" in name or name in ("ArgMax", "ArgMin", "Einsum"):
        return max(1.0, sum(elements(v, size) for v in node.inputs) / max(1, *(elements(v, size) for v in node.outputs)))
    return 8.0


def _weights(node: Node) -> Value | None:
    """The weights of a convolution; quantised ones come after scale and zero point."""
    place = 3 if node.op_type == "QLinearConv" else 1
    return node.inputs[place] if len(node.inputs) > place else None


def _product(value: Value | None, start: int, stop: int | None, size: Sizes) -> int:
    """Of some dimensions; 1 where they are unknown."""
    shape: Any = value.shape if value is not None else None
    return math.prod(map(size, shape[start:stop])) if shape else 1
