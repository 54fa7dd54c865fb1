"""How many operations a node's definition has, by families of operators; a multiplication and an addition are two.

Any function of one element counts as one operation: a sum like an error function. What only moves elements has none.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.partition.cost.work import Sizes, elements, nbytes
from ort_lite.record import Record
from ort_lite.shapes.dims import evaluate
from ort_lite.shapes.expr import Dim

Formula = Callable[[Node, Sizes], float]

MOVING = frozenset(
    {
        "BitCast",
        "Cast",
        "CenterCropPad",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "Copy",
        "DepthToSpace",
        "Expand",
        "EyeLike",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Pad",
        "Reshape",
        "ScatterElements",
        "ScatterND",
        "Shape",
        "Size",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "TensorScatter",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
PICKING = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
"""They read as much of their first input as they write."""
PER_ELEMENT = {
    "BatchNormalization": 2,
    "Softmax": 4,
    "LogSoftmax": 4,
    "LayerNormalization": 7,
    "SkipLayerNormalization": 8,
    "GroupNormalization": 7,
    "InstanceNormalization": 7,
    "RMSNormalization": 4,
    "SimplifiedLayerNormalization": 4,
    "SkipSimplifiedLayerNormalization": 5,
    "Gelu": 5,
    "FastGelu": 8,
    "BiasGelu": 6,
    "HardSwish": 4,
    "Swish": 2,
    "QuantizeLinear": 4,
    "DequantizeLinear": 2,
    "DynamicQuantizeLinear": 6,
}
"""Operations an element of the greatest output, where it is not one."""


def sizes_of(dims: Mapping[str, int]) -> Sizes:
    """Numbers of dimensions by those of the feeds. Raises KeyError for one that only the data tells."""
    return lambda dim: dim if isinstance(dim, int) else evaluate(dim, dims)


def operations(node: Node, size: Sizes) -> float:
    """0 for what is not known. Raises KeyError as `size` does."""
    if node.op_type in MOVING:
        return 0.0
    formula = _FORMULAS.get(node.op_type)
    if formula is not None:
        return float(formula(node, size))
    if node.op_type.startswith(("Reduce", "Arg", "Global")):
        return float(elements(_input(node, 0), size))
    return float(_written(node, size) * PER_ELEMENT.get(node.op_type, 1))


class GraphWork(Record):
    """What there is to do in one run of a graph, nodes of bodies once."""

    operations: Mapping[str, int]
    """By operator, the most first; those that have some."""
    nbytes: int
    """Of what nodes compute."""
    unknown: int
    """Nodes whose sizes only the data tells, which are not counted."""


def graph_work(graph: Graph, size: Sizes) -> GraphWork:
    """O(nodes), bodies included."""
    made: Counter[str] = Counter()
    moved = unknown = 0
    for node in graph.all_nodes():
        try:
            if any(value is not None and value.shape is None for value in (*node.inputs, *node.outputs)):
                raise KeyError(node.name)
            made[node.operator] += round(operations(node, size))
            moved += sum(nbytes(value, size) for value in node.outputs)
        except KeyError:
            unknown += 1
    return GraphWork({name: count for name, count in made.most_common() if count}, moved, unknown)


def bytes_read(node: Node, place: int, size: float, written: float) -> float:
    """Of the input at a place that has so many bytes."""
    return min(size, written) if place == 0 and node.op_type in PICKING else size


def _input(node: Node, place: int) -> Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _written(node: Node, size: Sizes) -> int:
    return max((elements(value, size) for value in node.outputs), default=0)


def _shape(value: Value | None, size: Sizes) -> Sequence[int]:
    shape: Sequence[Dim] = value.shape or () if value is not None else ()
    return [size(dim) for dim in shape]


def _convolution(place: int) -> Formula:
    """Each output element takes a kernel's worth of one group's channels."""
    return lambda node, size: 2 * elements(node.outputs[0], size) * math.prod(_shape(_input(node, place), size)[1:])


def _transposed_convolution(node: Node, size: Sizes) -> float:
    """Each input element goes to a kernel's worth of one group's channels."""
    return 2 * elements(_input(node, 0), size) * math.prod(_shape(_input(node, 1), size)[1:])


def _product(node: Node, size: Sizes) -> float:
    a = _shape(_input(node, 0), size)
    depth = a[-2 if node.attr("transA", 0) and len(a) > 1 else -1] if a else 1
    return 2 * elements(node.outputs[0], size) * depth


def _recurrent(node: Node, size: Sizes) -> float:
    """X (T, B, I): each weight once a step and row; directions are in the weights."""
    weights = elements(_input(node, 1), size) + elements(_input(node, 2), size)
    return 2 * math.prod(_shape(_input(node, 0), size)[:2]) * weights


def _attention(past: int) -> Formula:
    """Queries by keys and probabilities by values, as if each query saw each key. `past`: where earlier keys come in."""

    def formula(node: Node, size: Sizes) -> float:
        query, key = (_shape(_input(node, place), size) for place in (0, 1))
        written = elements(node.outputs[0], size)
        keys = (key or query)[-2] if len(key or query) > 1 else 1
        earlier = _shape(_input(node, past), size)
        keys += earlier[-2] if len(earlier) > 1 else 0
        return 2 * keys * (math.prod(query) if key else written) + 2 * keys * written

    return formula


def _projected_attention(node: Node, size: Sizes) -> float:
    """com.microsoft's Attention: input (B, L, I) by weights (I, 3 * hidden) first."""
    x, written = _shape(_input(node, 0), size), elements(node.outputs[0], size)
    past = _shape(_input(node, 4), size)  # (2, B, heads, P, size)
    keys = x[1] + (past[3] if len(past) > 3 else 0)
    return 2 * x[0] * x[1] * elements(_input(node, 1), size) + 4 * keys * written


def _any_attention(node: Node, size: Sizes) -> float:
    return _projected_attention(node, size) if node.domain == "com.microsoft" else _attention(4)(node, size)


def _pool(node: Node, size: Sizes) -> float:
    kernel: Sequence[int] = node.attr("kernel_shape", [1])
    return elements(node.outputs[0], size) * math.prod(kernel)


def _einsum(node: Node, size: Sizes) -> float:
    """As one loop over all letters; with an ellipsis at least the elements."""
    equation = str(node.attr("equation", "")).replace(" ", "")
    sizes: dict[str, int] = {}
    for term, value in zip(equation.split("->")[0].split(","), node.inputs, strict=False):
        sizes.update(zip(term, _shape(value, size), strict=False))
    return 2 * math.prod(sizes.values()) if "." not in equation else float(_written(node, size))


_FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "DeformConv", "NhwcFusedConv"), _convolution(1)),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm", "FusedMatMul", "FusedGemm", "QGemm"), _product),
    **dict.fromkeys(("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulNBits", "GemmFloat8"), _product),
    **dict.fromkeys(("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"), _recurrent),
    "Attention": _any_attention,
    "MultiHeadAttention": _attention(6),
    "GroupQueryAttention": _attention(3),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "Einsum": _einsum,
}
