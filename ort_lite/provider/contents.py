"""The contents and sizes of tensors that a provider knows before it computes: while claiming, and while planning a run.

    content_of(value, graph.rules)        while claiming: an array, of numbers or of sizes that the model leaves open
    sizes_of(partition, shapes)           while planning: shapes and contents for the shapes of one run

Contents are those of constants, and of small integer tensors that follow from constants and shapes: the target of a Reshape,
for example, that Shape, Gather and Concat compute.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import CONTENT_TYPES, CONTENTS_LIMIT, Info, ShapeRules, constant_info
from ort_lite.provider.provider import Partition
from ort_lite.shapes.dims import as_symbol, evaluate
from ort_lite.shapes.expr import Dim


def content_of(value: Value, rules: ShapeRules) -> Array | None:
    """Return the content of a value if it follows from constants and shapes; None if only a run tells it.

    A size that the model leaves open is a `Dim`, in an array of type object. `rules` are those of the GraphView. O(integer
    nodes before the value).
    """
    if value.constant is not None:
        return value.constant
    if not _may_have_contents(value):
        return None
    inference = Inference(rules, inferred=True, certain=False)
    for node in _before(value):
        inference.node(node)
    found = inference.of(value)
    depends_on_data = any(inference.is_newer(dim, 0) for dim in found.contents or ())
    return None if depends_on_data else _content(found)


def sizes_of(
    partition: Partition, shapes: Sequence[Sequence[int] | None], contents: Mapping[Value, Array] | None = None
) -> "PartitionSizes":
    """Return the sizes of a partition's values if its inputs have these shapes.

    `shapes` has a shape for each of `partition.inputs`, or None for a value that is no tensor; `contents` are the contents of
    inputs that are known, such as host values. Raises ShapeInferenceError if the shapes do not fit. O(nodes).
    """
    return PartitionSizes(partition, shapes, contents or {})


class PartitionSizes:
    """The shapes and contents of a partition's values, for one set of input shapes."""

    def __init__(self, partition: Partition, shapes: Sequence[Sequence[int] | None], contents: Mapping[Value, Array]) -> None:
        pairs = list(zip(partition.inputs, shapes, strict=True))
        infos = {value: _info(value, shape, contents.get(value)) for value, shape in pairs}
        self._inference = Inference(partition.rules, infos, certain=not partition.nested)
        for node in partition.nodes:
            self._inference.node(node)
        self._sizes: dict[str, int] = {}
        for value, shape in pairs:
            for dim, size in zip(value.shape or (), shape or (), strict=False):
                if (found := as_symbol(dim)) is not None:
                    self._sizes.setdefault(found.name, size)

    def shape(self, value: Value) -> tuple[int, ...] | None:
        """Return the shape of a value that the nodes read or compute; None if only the run tells it."""
        for found in (self._inference.of(value).shape, value.shape):
            sizes = None if found is None else tuple(self._size(dim) for dim in found)
            if sizes is not None and None not in sizes:
                return tuple(size for size in sizes if size is not None)
        return None

    def content(self, value: Value) -> Array | None:
        """Return the content of a value; None if only the run tells it."""
        if value.constant is not None:
            return value.constant
        found = _content(self._inference.of(value))
        return None if found is None or found.dtype == object else found

    def _size(self, dim: Dim) -> int | None:
        try:
            return evaluate(dim, self._sizes)
        except (KeyError, ArithmeticError):
            return None


def _info(value: Value, shape: Sequence[int] | None, content: Array | None) -> Info:
    """Return what is known of an input of a partition."""
    if content is not None:
        return constant_info(content)
    if shape is None or not isinstance(value.type, TensorType):
        return Info(value.type)
    return Info(value.type.replace(shape=tuple(map(int, shape))))


def _may_have_contents(value: Value) -> bool:
    """Return True unless the value is known to be no small integer tensor."""
    if value.dtype not in CONTENT_TYPES or value.shape is None:
        return False
    numbers = [dim for dim in value.shape if isinstance(dim, int)]
    return len(numbers) == len(value.shape) and prod(numbers) <= CONTENTS_LIMIT


def _before(value: Value) -> list[Node]:
    """Return the nodes that compute small integer tensors on which the value may depend, and its own, in topological order."""
    order: dict[Node, None] = {}
    stack = [value.producer]
    while stack:
        node = stack[-1]
        waiting = [] if node is None or node in order else [n for n in _makers(node) if n not in order]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if node is not None:
            order.setdefault(node)
    return list(order)


def _makers(node: Node) -> Iterable[Node]:
    operands = (value for value in node.inputs if value is not None and value.constant is None)
    return [value.producer for value in operands if value.producer is not None and _may_have_contents(value)]


def _content(info: Info) -> Array | None:
    """Return the content of an Info as an array; None if there is none."""
    if info.constant is not None:
        return info.constant
    shape = info.shape
    if info.contents is None or shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    closed = all(isinstance(dim, int) for dim in info.contents)
    made = np.empty(len(info.contents), to_numpy(info.dtype or "") if closed else object)
    made[:] = info.contents
    return made.reshape(tuple(dim for dim in shape if isinstance(dim, int)))
