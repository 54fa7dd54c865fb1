"""Changes of the order in which images lie, around a convolution or a pool: what they cost with each of its kernels."""

from __future__ import annotations

from typing import Protocol

from ort_lite.graph import Node, Value
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import channels_last, storage_order
from ort_lite_cpu.operators.convolutions import family_of, takes_channels_last
from ort_lite_cpu.operators.rounded import result_of

FEW_OUTPUTS = 8
"""The number of outputs that, channels last, fill at most half a vector of the widest."""
MOVED = 0.4
"""Nanoseconds to move an element to another layout."""
AHEAD = 4
"""The number of nodes in a chain that are searched for the order in which a result will be read."""
CONVOLUTIONS = frozenset(("Conv", "FusedConv"))
"""Operators that `conv` computes in any of its layouts."""


class ImageNumbers(Protocol):
    """The sizes of a convolution or of a pool as numbers."""

    @property
    def images(self) -> int:
        """The elements of the images."""

    @property
    def results(self) -> int:
        """The elements of the result."""


def moves_of_channels(op: NodeLowering, n: ImageNumbers) -> float:
    """Return the nanoseconds of changes of layout around a kernel that reads and writes channels last."""
    x, value = op.raw(0), result_of(op)
    last = channels_last(len(x.shape))
    cost = 0.0 if storage_order(x) == last or last in x.layouts else _before(n)
    if value is not None:
        readers = _readers(value)
        if not any(_wants_channels_last(node) or _is_at_home_in_both(node) for node in readers):
            cost += _behind(n)
    return cost


def moves_of_pixels(op: NodeLowering, n: ImageNumbers) -> float:
    """Return the nanoseconds of changes of layout around a kernel of vectors of pixels, which reads and writes ONNX's own order."""
    value = result_of(op)
    cost = 0.0 if storage_order(op.raw(0)) is None else _before(n)
    if value is not None and any(_wants_channels_last(node) for node in _readers(value)):
        cost += _behind(n)
    return cost


def moves_of_planes(op: NodeLowering, n: ImageNumbers) -> float:
    """Return the nanoseconds of changes of layout around a kernel of planes.

    Where images lie channels last already, most of a model does: the result is moved back.
    """
    images = [op.raw(index) for index in (0, 3) if op.has(index)]
    last, value = channels_last(len(images[0].shape)), result_of(op)
    if not all(storage_order(image) is None and last not in image.layouts for image in images):
        return _before(n) + _behind(n)
    return _behind(n) if value is not None and any(_reads_channels_last(node, value) for node in value.readers) else 0.0


def _before(n: ImageNumbers) -> float:
    return MOVED * n.images


def _behind(n: ImageNumbers) -> float:
    return MOVED * n.results


def _readers(value: Value) -> set[Node]:
    """Return the readers of a value, and of the results of those that keep any order, AHEAD nodes deep. O(graph) at most."""
    seen: set[Node] = set()
    values: list[Value | None] = [value]
    for _ in range(AHEAD):
        readers = {node for v in values if v is not None for node in v.readers} - seen
        seen |= readers
        values = [v for node in readers if _takes_any_order(node) for v in node.outputs]
    return seen


def _wants_channels_last(node: Node) -> bool:
    """Return True if the node reads images channels last. A Conv with few outputs may run by pixels as well."""
    if node.op_type not in CONVOLUTIONS:
        return takes_channels_last(node)
    weight = node.inputs[1]
    return weight is None or weight.shape is None or weight.shape[0] not in range(1, FEW_OUTPUTS + 1)


def _reads_channels_last(node: Node, value: Value) -> bool:
    """Return True if the node reads channels last. Conv reads planes if it is pointwise or depthwise."""
    if node.op_type not in CONVOLUTIONS:
        return takes_channels_last(node)
    weight = node.inputs[1]
    shape = None if weight is None or node.inputs[0] is not value else weight.shape
    if shape is None:
        return True
    alone = node.attr("group", 1) > 1 and shape[1] == 1
    return not alone and any(dim != 1 for dim in shape[2:])


def _is_at_home_in_both(node: Node) -> bool:
    """Return True for Reshape and Transpose, which often move nothing in one order or the other."""
    return family_of(node) == "reshape"


def _takes_any_order(node: Node) -> bool:
    """Return True if the result of the node has the order of its input."""
    return family_of(node) == "elementwise" or node.op_type in ("BatchNormalization", "Concat")
