"""Quantized operands: which operands of a product are bytes by DequantizeLinear and QuantizeLinear, and what they stand for.

Sums of products of bytes are exact in 32 bits, up to some ten thousand terms: a product that is known to be deeper stays in floating
point. A depth that is open, the length of a text, is taken to be none of those.
"""

from collections.abc import Sequence

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph, Node, Value
from ort_lite.record import Record
from ort_lite.shapes import product
from ort_lite.transform import Rewriter

_RESHAPES = frozenset({"Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
MOVES = _RESHAPES | {"DepthToSpace", "Gather", "MaxPool", "Slice", "SpaceToDepth", "Tile", "Transpose"}
"""Operators that only move or choose elements of their first input."""
_TAKES_BYTES_FROM = {"Flatten": 9, "MaxPool": 12}
"""The first versions for bytes, of operators that take floats alone before."""
PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_BYTES = ("int8", "uint8")


class Quantized(Record, eq=False):
    """Integers x that stand for (x - zero) * scale; both are constant, one number or one for each index of `axis`."""

    x: Value
    scale: Value
    zero: Value | None
    axis: int | None
    steps: Array
    points: Array
    """The elements of scale and zero."""

    @property
    def farthest(self) -> int:
        """The largest |x - zero|."""
        limits = np.iinfo(self.points.dtype)
        low, high = (int(found) for found in (self.points.min(initial=0), self.points.max(initial=0)))
        return max(int(limits.max) - low, high - int(limits.min))

    def like(self, other: "Quantized") -> bool:
        """Return True if the same integers stand for the same numbers."""
        if self.axis is not None or other.axis is not None or self.x.dtype != other.x.dtype:
            return False
        return bool(self.steps.item() == other.steps.item() and self.points.item() == other.points.item())


class Factors(Record, eq=False):
    """The operands of a product: `a` has one scale, `b` one, or one for each column or output channel."""

    a: Quantized
    b: Quantized


def find_quantized_input(
    rewriter: Rewriter, value: Value | None, graph: Graph | None, types: tuple[str, ...] = _BYTES, moved: bool = False
) -> Quantized | str:
    """Return the input from which a DequantizeLinear makes `value`, or why it is not to be read as integers.

    moved: what stands between the two may be operators that could as well move the integers.
    """
    node = None if value is None else value.producer
    if value is None or node is None or node.graph is not graph:
        return f"{'nothing' if value is None else value.name} is not dequantised"
    if moved and (moves(node) or node.op_type == "Concat"):
        parts = [
            find_quantized_input(rewriter, part, graph, types, moved)
            for part in node.inputs[: None if node.op_type == "Concat" else 1]
        ]
        return alike(parts) if node.op_type == "Concat" else behind(node, parts[0])
    if node.op_type != "DequantizeLinear":
        return f"{value.name} is not dequantised"
    return _read(rewriter, node, node.inputs[0], types)


def find_quantized_output(rewriter: Rewriter, node: Node) -> Quantized | str:
    """The bytes that a QuantizeLinear makes, or why they are none."""
    return _read(rewriter, node, node.output, _BYTES)


def moves(node: Node) -> bool:
    """Return True if the operator does to bytes what it does to floats."""
    return (
        node.op_type in MOVES
        and not node.domain
        and len(node.outputs) == 1
        and node.version >= _TAKES_BYTES_FROM.get(node.op_type, 1)
    )


def alike(parts: Sequence[Quantized | str]) -> Quantized | str:
    """The first of several, where the integers of all stand for the same numbers."""
    known = [part for part in parts if isinstance(part, Quantized)]
    if len(known) < len(parts) or not known or not all(part.like(known[0]) for part in known):
        return "they have not all the same scale and zero point"
    return known[0]


def behind(node: Node, before: Quantized | str) -> Quantized | str:
    """Return the operand behind an operator that moves elements, `before` in front of it; x stays the integers in front."""
    if isinstance(before, str) or before.axis is None:
        return before
    rank = 0 if before.x.shape is None else len(before.x.shape)
    if node.op_type != "Transpose":
        return f"{before.x.name} has scales along an axis, which {node} may move"
    perm = node.attr("perm") or tuple(reversed(range(rank)))
    return before.replace(axis=list(perm).index(before.axis))


def factors(rewriter: Rewriter, node: Node, moved: bool = False) -> Factors | str:
    """The operands of a product as integers, or why it stays in floating point. moved: as in `find_quantized_input`."""
    if node.op_type not in PRODUCTS or node.domain or node.version < 10 or node.output.dtype != "float32":
        return f"{node} is no product of float32"
    left, right = node.inputs[:2]
    a, b = (find_quantized_input(rewriter, value, node.graph, moved=moved) for value in (left, right))
    if isinstance(a, str):
        return a
    if isinstance(b, str):
        return b
    assert left is not None and right is not None
    if left.shape is None or right.shape is None or min(len(left.shape), len(right.shape)) < 2:
        return f"{left.name} and {right.name} are not known to be matrices"
    if a.axis is not None:
        return f"{left.name} has scales along an axis"
    columns = {"Conv": 0, "Gemm": 0 if node.attr("transB", 0) else 1}.get(node.op_type, len(right.shape) - 1)
    if b.axis is not None and b.axis != columns:
        return f"{right.name} has scales along axis {b.axis}, which is summed over"
    depth = product(right.shape[1:]) if node.op_type == "Conv" else right.shape[len(right.shape) - 2 if columns else 1]
    if isinstance(depth, int) and depth * a.farthest * b.farthest >= 1 << 30:
        return f"sums of {depth} products may not fit into 32 bits"
    if rewriter.array(a.x) is not None and rewriter.array(b.x) is not None:
        return "it is constant"
    return Factors(a, b)


def serves_integer_products(rewriter: Rewriter, node: Node) -> bool:
    """Return True if a DequantizeLinear of a constant serves integer products alone: its bytes, or their bias."""
    value = node.output
    if not value.uses or value.is_graph_output():
        return False
    return all(reader.graph is node.graph and _wants(rewriter, reader, index) for reader, index in value.uses)


def _wants(rewriter: Rewriter, reader: Node, index: int) -> bool:
    if moves(reader):
        return index == 0 and serves_integer_products(rewriter, reader)
    return isinstance(factors(rewriter, reader, moved=True), Factors)


def _read(rewriter: Rewriter, node: Node, x: Value | None, types: tuple[str, ...]) -> Quantized | str:
    """Scale and zero point of QuantizeLinear or DequantizeLinear, whose integers are x."""
    scale, zero = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    steps, points = rewriter.array(scale), rewriter.array(zero)
    if x is None or x.dtype is None or x.dtype not in types or x.shape is None:
        return f"{node} is not known to be of {' or '.join(types)}"
    if scale is None or steps is None or steps.dtype != np.float32 or not _ordinary(steps):
        return f"the scale of {node} is no constant float32 above 0"
    if points is None and zero is not None:
        return f"the zero point of {node} is computed"
    if points is None:
        points = np.zeros(steps.shape, to_numpy(x.dtype))
    if node.attr("block_size", 0) or steps.ndim > 1 or points.size != steps.size:
        return f"{node} has scales of blocks"
    axis = None if steps.size == 1 else node.attr("axis", 1) % len(x.shape)
    return Quantized(x, scale, zero, axis, steps, points)


def _ordinary(steps: Array) -> bool:
    """Scales for which quantising what was dequantised gives the same integers."""
    return bool(np.all((steps > 1e-30) & (steps < 1e30)))
