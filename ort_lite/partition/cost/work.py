"""The work in a node: arithmetic and bytes, from its shapes and the traits of its operator.

`operations` counts what the definition of an operator says; a multiplication and an addition are two, and any function of one element
counts as one: a sum like an error function. `arithmetic` is the element type in which a CPU can compute them. `work` is the rough
estimate for costs that nobody measured.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from ort_lite.dtypes import itemsize
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.plugins.plugins import traits
from ort_lite.shapes.dims import evaluate, symbols
from ort_lite.shapes.expr import Dim, Expr

Sizes = Callable[[Dim], int]
"""A number for a dimension, free ones included."""
Formula = Callable[[Node, Sizes, int], float]
"""Operations of a node. The number is the one behind the formula's name in a trait: the place of an input."""

_ABSENT = 1 << 30
"""The place of an input that no node has."""
_BYTES = {"int8", "uint8"}
_LEVEL_OF_INT8 = 4
_USUAL = 8.0
"""Operations for each element, where `work` knows no better."""


def sizes_for(dims: Mapping[str, int], free: int) -> Sizes:
    """Free dimensions have the sizes in `dims`, others are `free`."""

    def size(dim: Dim) -> int:
        if not isinstance(dim, Expr):
            return dim
        return max(0, evaluate(dim, {symbol.name: dims.get(symbol.name, free) for symbol in symbols([dim])}))

    return size


def sizes_of(dims: Mapping[str, int]) -> Sizes:
    """Numbers of dimensions by those of the feeds. Raises KeyError for one that only the data tells."""
    return lambda dim: dim if isinstance(dim, int) else evaluate(dim, dims)


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
    known = traits(node)
    if known.free:
        return 0.0, 0.0
    moved = float(sum(nbytes(value, size) for value in (*node.inputs, *node.outputs)))
    name, written = known.operations.partition("(")[0], _output_elements(node, size)
    if name in _EXACT:
        return _count(known.operations, node, size), moved
    if name in _ATTENTIONS:
        return 4.0 * written * math.prod(_shape(_input(node, 0), size)[-2:]), moved
    if name in _READING:
        read = sum(elements(value, size) for value in node.inputs)
        return written * max(1.0, read / max(1, written)), moved
    return written * _USUAL, moved


def operations(node: Node, size: Sizes) -> float:
    """Operations by the definition of the operator. Raises KeyError as `size` does."""
    known = traits(node)
    return 0.0 if known.moves else _count(known.operations, node, size)


def arithmetic(node: Node) -> str:
    """Return the narrowest element type in which the products of a node can be computed: "int8", "bfloat16" or "float32".

    Operands count as what they are behind a Cast or a DequantizeLinear. The float operand of a product by blocks of few bits may be
    rounded to int8 if its accuracy level says so.
    """
    if traits(node).operations.partition("(")[0] not in _EXACT:
        return "float32"
    types = {_type_behind(value) for value in node.inputs[:2]}
    if types & _BYTES and (not node.attr("block_size", 0) or node.attr("accuracy_level", 0) == _LEVEL_OF_INT8):
        return "int8"
    return "bfloat16" if types == {"bfloat16"} else "float32"


def _type_behind(value: Value | None) -> str | None:
    producer = value.producer if value is not None else None
    known = traits(producer) if producer is not None else None
    if producer is not None and known is not None and (known.dequantizes or (known.moves and known.elementwise)):
        value = producer.inputs[0]
    return value.dtype if value is not None else None


def bytes_read(node: Node, place: int, size: float, written: float) -> float:
    """Bytes that the node reads of the input at `place`, which has `size` bytes."""
    return min(size, written) if place == 0 and traits(node).picks else size


# Formulas


def _count(text: str, node: Node, size: Sizes) -> float:
    """Evaluate the trait `operations`: "4", "product", "convolution(1)"."""
    if text.isdigit():
        return float(_output_elements(node, size) * int(text))
    name, _, place = text.rstrip(")").partition("(")
    return float(_FORMULAS[name](node, size, int(place or _ABSENT)))


def _input(node: Node, place: int) -> Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _output_elements(node: Node, size: Sizes) -> int:
    """Elements of the greatest output."""
    return max((elements(value, size) for value in node.outputs), default=0)


def _shape(value: Value | None, size: Sizes) -> Sequence[int]:
    shape: Sequence[Dim] = value.shape or () if value is not None else ()
    return [size(dim) for dim in shape]


def _convolution(node: Node, size: Sizes, weights: int) -> float:
    """Each output element takes a kernel's worth of one group's channels."""
    return 2 * _output_elements(node, size) * math.prod(_shape(_input(node, weights), size)[1:])


def _conv_transpose(node: Node, size: Sizes, _: int) -> float:
    """Each input element goes to a kernel's worth of one group's channels."""
    return 2 * elements(_input(node, 0), size) * math.prod(_shape(_input(node, 1), size)[1:])


def _product(node: Node, size: Sizes, _: int) -> float:
    a = _shape(_input(node, 0), size)
    depth = a[-2 if node.attr("transA", 0) and len(a) > 1 else -1] if a else 1
    return 2 * _output_elements(node, size) * depth


def _recurrent(node: Node, size: Sizes, _: int) -> float:
    """X (T, B, I): each weight once a step and row; directions are in the weights."""
    weights = elements(_input(node, 1), size) + elements(_input(node, 2), size)
    return 2 * math.prod(_shape(_input(node, 0), size)[:2]) * weights


def _attention(node: Node, size: Sizes, past: int) -> float:
    """Queries by keys and probabilities by values, as if each query saw each key. `past`: where earlier keys come in."""
    query, key = (_shape(_input(node, place), size) for place in (0, 1))
    written = elements(node.outputs[0], size)
    keys = (key or query)[-2] if len(key or query) > 1 else 1
    earlier = _shape(_input(node, past), size)
    keys += earlier[-2] if len(earlier) > 1 else 0
    return 2 * keys * (math.prod(query) if key else written) + 2 * keys * written


def _attention_with_projection(node: Node, size: Sizes, past: int) -> float:
    """Input (B, L, I) by weights (I, 3 * hidden) first; the past is (2, B, heads, P, size)."""
    x, written = _shape(_input(node, 0), size), elements(node.outputs[0], size)
    earlier = _shape(_input(node, past), size)
    keys = x[1] + (earlier[3] if len(earlier) > 3 else 0)
    return 2 * x[0] * x[1] * elements(_input(node, 1), size) + 4 * keys * written


def _linear_attention(node: Node, size: Sizes, _: int) -> float:
    """Each token adds a product of its key and value to the state of a head, and multiplies the state by its query."""
    query = _shape(_input(node, 0), size)
    return 4 * elements(node.outputs[0], size) * (query[-1] // node.attr("q_num_heads", 1) if query else 1)


def _window(node: Node, size: Sizes, _: int) -> float:
    kernel: Sequence[int] = node.attr("kernel_shape", [1])
    return _output_elements(node, size) * math.prod(kernel)


def _fold(node: Node, size: Sizes, _: int) -> float:
    """Each element of the input once."""
    return elements(_input(node, 0), size)


def _einsum(node: Node, size: Sizes, _: int) -> float:
    """Count Einsum as one loop over all letters; with an ellipsis, at least the elements."""
    equation = str(node.attr("equation", "")).replace(" ", "")
    sizes: dict[str, int] = {}
    for term, value in zip(equation.split("->")[0].split(","), node.inputs, strict=False):
        sizes.update(zip(term, _shape(value, size), strict=False))
    return 2 * math.prod(sizes.values()) if "." not in equation else float(_output_elements(node, size))


_EXACT: Mapping[str, Formula] = {
    "convolution": _convolution,
    "transposed_convolution": _conv_transpose,
    "product": _product,
    "recurrent": _recurrent,
}
_ATTENTIONS: Mapping[str, Formula] = {
    "attention": _attention,
    "projected_attention": _attention_with_projection,
    "linear_attention": _linear_attention,
}
_READING: Mapping[str, Formula] = {"window": _window, "fold": _fold, "einsum": _einsum}
"""`work` estimates that they do something with each element that they read."""
_FORMULAS: Mapping[str, Formula] = {**_EXACT, **_ATTENTIONS, **_READING}
