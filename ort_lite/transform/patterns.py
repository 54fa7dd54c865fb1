"""Patterns of nodes: what `op(...)` describes, and the search for it.

Patterns are trees that grow from a node towards its inputs. The search is complete: where a pattern is commutative in several
places, every combination is tried. It costs a few comparisons of operators for a node that does not match.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph.graph import Node, Value
from ort_lite.record import Record

Arrays = Callable[[Value | None], Array | None]
"""The array of a constant, None for other values."""


class ConstantOperand(Record):
    name: str


class Pattern(Record):
    """A node of one of `op_types` ("*": any) in `domain` whose version is in [since, until)."""

    op_types: frozenset[str]
    operands: tuple["Operand", ...]
    name: str
    domain: str
    since: int
    until: int
    orders: tuple["Order", ...]
    depth: int
    """Nodes on the longest way from the root."""


class Order(Record):
    """The operands in one of the orders to try, and what the operators before a node must be for it to be worth trying."""

    operands: tuple["Operand", ...]
    screen: tuple[tuple[int, frozenset[str]], ...]
    least: int
    """Inputs that the node must have at least."""


Operand = Pattern | ConstantOperand | str | float | EllipsisType | None


def op(
    op_type: str | Iterable[str],
    *operands: Operand,
    name: str = "",
    domain: str = "",
    since: int = 1,
    until: int = 1 << 30,
    commutative: bool = False,
) -> Pattern:
    """A pattern. `name` captures the node; `commutative` also tries the first two operands exchanged."""
    types = frozenset((op_type,) if isinstance(op_type, str) else op_type)
    orders = (operands, (operands[1], operands[0], *operands[2:])) if commutative else (operands,)
    depth = 1 + max((operand.depth for operand in operands if isinstance(operand, Pattern)), default=0)
    return Pattern(types, operands, name, domain, since, until, tuple(map(_order, orders)), depth)


def _order(operands: tuple["Operand", ...]) -> Order:
    screen = tuple((index, operand.op_types) for index, operand in enumerate(operands) if isinstance(operand, Pattern))
    needed = [index + 1 for index, operand in enumerate(operands) if operand is not None and operand is not ...]
    return Order(operands, screen, max(needed, default=0))


def constant(name: str) -> ConstantOperand:
    """An operand that is constant, captured as a Value."""
    return ConstantOperand(name)


class Match(Record):
    """Nodes that a pattern covers, its root first, and what it captured."""

    nodes: tuple[Node, ...]
    captured: Mapping[str, Node | Value]


def operators_before(node: Node) -> list[str]:
    """The operator that computes each input, "" where none does or it is in another graph."""
    graph = node.graph
    return [
        "" if value is None or (producer := value.producer) is None or producer.graph is not graph else producer.op_type
        for value in node.inputs
    ]


def promising(order: Order, before: Sequence[str]) -> bool:
    """A look at the neighbours' operators (`operators_before`), before captures are tried one by one."""
    if len(before) < order.least:
        return False
    for index, op_types in order.screen:  # noqa: SIM110  # asked of every pattern and node: no generator
        if before[index] not in op_types and (not before[index] or "*" not in op_types):
            return False
    return True


def find(pattern: Pattern, node: Node, arrays: Arrays, before: Sequence[str] | None = None) -> Match | None:
    """The first way in which the pattern fits with its root on the node. `before` is `operators_before(node)`, if known."""
    before = operators_before(node) if before is None else before
    for order in pattern.orders:
        if promising(order, before):
            for nodes, captured in _match(pattern, node, (), {}, arrays):
                return Match(nodes, captured)
            return None
    return None


Found = tuple[tuple[Node, ...], dict[str, Node | Value]]


def _match(
    pattern: Pattern, node: Node, nodes: tuple[Node, ...], captured: dict[str, Node | Value], arrays: Arrays
) -> Iterator[Found]:
    if not _fits(pattern, node):
        return
    if pattern.name:
        if captured.get(pattern.name, node) is not node:
            return
        captured = {**captured, pattern.name: node}
    before = operators_before(node)
    for order in pattern.orders:
        if promising(order, before):
            yield from _operands(order.operands, 0, node, (*nodes, node), captured, arrays)


def _fits(pattern: Pattern, node: Node) -> bool:
    if "*" in pattern.op_types:
        return True
    return node.op_type in pattern.op_types and node.domain == pattern.domain and pattern.since <= node.version < pattern.until


def _operands(
    operands: Sequence[Operand],
    index: int,
    node: Node,
    nodes: tuple[Node, ...],
    captured: dict[str, Node | Value],
    arrays: Arrays,
) -> Iterator[Found]:
    """All ways in which operands from `index` on fit."""
    if index == len(operands):
        yield nodes, captured
        return
    operand = operands[index]
    value = node.inputs[index] if index < len(node.inputs) else None
    if isinstance(operand, Pattern):
        if value is not None and value.producer is not None and value.producer.graph is node.graph:
            for inner, known in _match(operand, value.producer, nodes, captured, arrays):
                yield from _operands(operands, index + 1, node, inner, known, arrays)
        return
    if operand is ...:
        fits = True
    elif operand is None:
        fits = value is None
    elif isinstance(operand, str):
        fits = value is not None and captured.get(operand, value) is value
    elif isinstance(operand, ConstantOperand):
        fits = arrays(value) is not None and captured.get(operand.name, value) is value
    else:
        array = arrays(value)
        fits = _is_number(array, operand) and not _adds_axes(node, index, array)
    if fits:
        key = operand.name if isinstance(operand, ConstantOperand) else operand
        if isinstance(key, str) and value is not None:
            captured = {**captured, key: value}
        yield from _operands(operands, index + 1, node, nodes, captured, arrays)


def _adds_axes(node: Node, index: int, array: Array | None) -> bool:
    """Return True if the constant at `index` may add axes to an operand of unknown rank: it is no mere number then. Where ranks are
    known, a rewrite that changes the shape is refused.
    """
    if array is None or not array.ndim:
        return False
    return all(value is None or value.shape is None for place, value in enumerate(node.inputs) if place != index)


def _is_number(array: Array | None, number: float) -> bool:
    """Return True if a constant of one element is the number, as far as its element type can hold it."""
    if array is None or array.size != 1 or array.dtype.kind not in "fiub":
        return False
    slack = 4 * float(np.finfo(array.dtype).eps) * abs(number) if array.dtype.kind == "f" else 0.0
    return bool(abs(float(array.item()) - number) <= slack)
