"""Rules for running a node on padded dimensions, which are longer than the true ones.

A padded dimension holds the true elements first and arbitrary values after them. A rule is given a node whose operands or
results have such dimensions. It returns the Masks that keep the true part of the results correct, or raises Mixed if the
operator mixes elements along the dimension in a way that no mask undoes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ort_lite.graph import Node, Value
from ort_lite_xla.registry import Array, PaddingMask

Sizes = tuple[int | str, ...]
"""The dimensions of a tensor: a number, or the name of the padded symbol."""


class Mixed(Exception):
    """An error: the node mixes elements along a padded dimension."""


class PaddedDims(NamedTuple):
    """The dimensions of a node's tensors. The contents of the operands in `tainted` depend on the padded sizes."""

    node: Node
    operands: tuple[Sizes | None, ...]
    results: tuple[Sizes | None, ...]
    tainted: frozenset[int]

    def operand(self, index: int) -> Sizes:
        """Return the dimensions of an operand; none if it is omitted."""
        found = self.operands[index] if index < len(self.operands) else None
        return () if found is None else found

    def refuse_taint(self, *allowed: int) -> None:
        """Raise Mixed if the contents of an operand other than `allowed` depend on the padded sizes."""
        if self.tainted.difference(allowed):
            raise Mixed("it computes with the size itself")


Rule = Callable[[PaddedDims], list[PaddingMask]]


def pointwise(dims: PaddedDims) -> list[PaddingMask]:
    """Check that elements of the results depend only on elements at the same position of the broadcast operands."""
    dims.refuse_taint()
    for operand in dims.operands:
        _broadcast(operand or (), dims.results[0] or ())
    return []


def _broadcast(operand: Sizes, to: Sizes) -> None:
    for size, there in zip(reversed(operand), reversed(to), strict=False):
        if size not in (1, there):
            raise Mixed(f"{size} does not broadcast to {there}")


def move_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Accept operators that move whole dimensions, together with elements of operands that are not padded where it matters."""
    dims.refuse_taint()
    return []


def shape_only(dims: PaddedDims) -> list[PaddingMask]:
    """Accept operators whose result is sizes: the analysis follows its contents."""
    return []


def regroup_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Require as many elements in front of each padded dimension as before, since the row-major order is kept."""
    dims.refuse_taint(1)
    if _before(dims.operand(0)) != _before(dims.results[0] or ()):
        raise Mixed("a padded dimension becomes part of another one")
    return []


def _before(sizes: Sizes) -> list[tuple[str, int, tuple[str, ...]]]:
    """Return, for each symbol, the product of the dimensions in front of it: a number and sorted symbols."""
    found, number, names = [], 1, list[str]()
    for size in sizes:
        if isinstance(size, str):
            found.append((size, number, tuple(sorted(names))))
            names.append(size)
        else:
            number *= size
    return found


def expand_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Apply `pointwise` to operand 0, which is broadcast to a shape that may depend on the sizes."""
    dims.refuse_taint(1)
    return pointwise(dims._replace(operands=dims.operands[:1], tainted=frozenset()))


def fill_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Accept operators whose result has one value in every element."""
    return []


def range_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Accept a range start, start + delta, ...: a longer range begins with the shorter one."""
    dims.refuse_taint(1)
    return []


def by_axes(dims: PaddedDims, axes: Sequence[int], fill: str | None) -> list[PaddingMask]:
    """Mask operand 0, which is combined along `axes`, with `fill`, the neutral element; None if there is none."""
    dims.refuse_taint()
    sizes = dims.operand(0)
    padded = sorted({axis % len(sizes) for axis in axes if isinstance(sizes[axis], str)}) if sizes else []
    if padded and fill is None:
        raise Mixed(f"it combines elements along dimension {padded[0]}")
    return [PaddingMask(0, axis, fill) for axis in padded if fill is not None]


def except_axis(default: int, fill: str | None = None, before: int = 0) -> Rule:
    """Return a rule: operand 0 is combined along the attribute `axis`; before opset `before`, along all dimensions from it on."""

    def rule(dims: PaddedDims) -> list[PaddingMask]:
        axis = int(dims.node.attr("axis", 1 if dims.node.version < before else default))
        rank = len(dims.operand(0))
        whole = dims.node.version < before
        return by_axes(dims, range(axis % max(rank, 1), rank) if whole else [axis], fill)

    return rule


def from_axis(default: int) -> Rule:
    """Return a rule: operand 0 is combined along the dimensions from the attribute `axis` on."""

    def rule(dims: PaddedDims) -> list[PaddingMask]:
        rank = len(dims.operand(0))
        return by_axes(dims, range(int(dims.node.attr("axis", default)) % max(rank, 1), rank), None)

    return rule


def only_first(count: int = 1) -> Rule:
    """Return a rule: only the first `count` dimensions of operand 0 may be padded, and no other operand."""

    def rule(dims: PaddedDims) -> list[PaddingMask]:
        dims.refuse_taint()
        if any(isinstance(size, str) for size in dims.operand(0)[count:]):
            raise Mixed("it combines elements along a padded dimension")
        if any(isinstance(size, str) for sizes in dims.operands[1:] for size in sizes or ()):
            raise Mixed("another operand than the first is padded")
        return []

    return rule


def rows_of_heads(sizes: Sizes) -> int | str:
    """Return the rows of (batch, heads, rows, size) or (batch, rows, heads * size). Raise Mixed if heads or sizes are padded."""
    if any(isinstance(size, str) for size in (*sizes[1:-2], sizes[-1])):
        raise Mixed("heads are padded")
    return sizes[-2]


def matmul(dims: PaddedDims) -> list[PaddingMask]:
    """Mask (..., m, k) x (..., k, n) with zeros if k is padded."""
    dims.refuse_taint()
    a, b = dims.operand(0), dims.operand(1)
    if len(a) < 2 or len(b) < 2:
        raise Mixed("an operand has one dimension")
    if isinstance(a[-1], str) or isinstance(b[-2], str):
        return [PaddingMask(0, len(a) - 1, "zero"), PaddingMask(1, len(b) - 2, "zero")]
    return []


def left_rows(dims: PaddedDims) -> list[PaddingMask]:
    """Allow any number of rows of a left operand, but none of its columns, and no other padded operand."""
    dims.refuse_taint()
    if any(isinstance(size, str) for sizes in (dims.operand(0)[-1:], *dims.operands[1:]) for size in sizes or ()):
        raise Mixed("it adds up a padded dimension, or another operand is padded")
    return []


def gemm(dims: PaddedDims) -> list[PaddingMask]:
    """Mask a product with transposed operands with zeros. C is broadcast."""
    dims.refuse_taint()
    _broadcast(dims.operand(2), dims.results[0] or ())
    k_a, k_b = (0 if dims.node.attr("transA", 0) else 1), (1 if dims.node.attr("transB", 0) else 0)
    if isinstance(dims.operand(0)[k_a], str) or isinstance(dims.operand(1)[k_b], str):
        return [PaddingMask(0, k_a, "zero"), PaddingMask(1, k_b, "zero")]
    return []


def gather_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Make indices from the end count from the true end."""
    dims.refuse_taint()
    axis = int(dims.node.attr("axis", 0))
    sizes = dims.operand(0)
    return [PaddingMask(1, axis % len(sizes), "from end")] if isinstance(sizes[axis], str) else []


def gather_nd_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Make indices of GatherND from the end count from the true end: column k of the indices belongs to dimension k."""
    dims.refuse_taint()
    data, index = dims.operand(0), dims.operand(1)
    if dims.node.attr("batch_dims", 0) or not isinstance(index[-1], int):
        raise Mixed("its first dimensions go along with the indices")
    return [PaddingMask(1, axis, "column from end") for axis in range(index[-1]) if isinstance(data[axis], str)]


def slice_rule(dims: PaddedDims) -> list[PaddingMask]:
    """Require padded dimensions to be kept whole, or to be the first elements of one."""
    dims.refuse_taint(2)
    before, after = dims.operand(0), dims.results[0] or ()
    if any(isinstance(b, str) and b != a for b, a in zip(before, after, strict=True)):
        raise Mixed("it takes a part of a padded dimension")
    pairs = enumerate(zip(before, after, strict=True))
    touched = {axis for axis, (b, a) in pairs if isinstance(b, str) or (b != a and isinstance(a, str))}
    if touched and not _from_zero(dims.node, touched, len(before)):
        raise Mixed("it does not begin at 0")
    return []


def _from_zero(node: Node, axes: set[int], rank: int) -> bool:
    """Return True if constants show that the slices along `axes` begin at 0 with step 1."""
    starts, which, steps = (_constant(node, k) for k in (1, 3, 4))
    if starts is None or any(
        k < len(node.inputs) and node.inputs[k] is not None and _constant(node, k) is None for k in (3, 4)
    ):
        return False
    listed = range(len(starts)) if which is None else which
    ones = [1] * len(starts) if steps is None else steps
    return all(start == 0 and step == 1 for start, axis, step in zip(starts, listed, ones, strict=True) if axis % rank in axes)


def _constant(node: Node, index: int) -> list[int] | None:
    found = constant_of(node.inputs[index]) if index < len(node.inputs) else None
    return None if found is None else [int(x) for x in found.ravel()]


def constant_of(value: Value | None) -> Array | None:
    """Return the contents of a constant; those of a Constant node too, which stays one where the model declares another shape."""
    node = None if value is None else value.producer
    if node is not None and not node.domain and node.op_type == "Constant":
        return node.attr("value")
    return None if value is None else value.constant
