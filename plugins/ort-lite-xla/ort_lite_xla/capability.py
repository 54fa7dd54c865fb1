"""The nodes that the provider claims, and the reasons why it rejects the others."""

from ort_lite import dtypes
from ort_lite.graph import Node, TensorType, Value
from ort_lite.provider import Capability, Rejection
from ort_lite_xla.contents import content_operands, open_value
from ort_lite_xla.registry import ALL, TABLE, XlaLowering, find

SIZED_BY_DATA = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose result size depends on the elements. XLA needs sizes before it runs."""


def answer(node: Node, minimum: int, seen: dict[Value, Value | None]) -> Capability | Rejection:
    """Return the claim of a node in a partition of at least `minimum` nodes, or the first reason against the node.

    A node with bodies is claimed with them. If the elements of an input decide between its branches, it has a partition of its
    own, which gets the condition from outside. `seen` is that of `contents.open_value`.
    """
    if not node.subgraphs():
        return misfit(node, seen) or Capability([node], minimum=minimum)
    reason = _misfit_of_one(node) or _misfit_inside(node, seen)
    return reason or Capability([node], merge=_open_contents(node, seen) is None, minimum=minimum, whole=True)


def misfit(node: Node, seen: dict[Value, Value | None]) -> Rejection | None:
    """Return the first reason against a node as a part of a larger program, or None if it is supported."""
    return _misfit_of_one(node) or _misfit_inside(node, seen) or _open_contents(node, seen)


def _misfit_of_one(node: Node) -> Rejection | None:
    found = find(node)
    return _unknown(node) if found is None else _wrong_type(node, found) or _wrong_attribute(node, found)


def _misfit_inside(node: Node, seen: dict[Value, Value | None]) -> Rejection | None:
    for body in node.subgraphs():
        for inner in body:
            reason = misfit(inner, seen)
            if reason is not None:
                return Rejection(node, reason.code, f"{inner} in its body: {reason.detail}")
    return None


def _unknown(node: Node) -> Rejection:
    if not node.domain and node.op_type in SIZED_BY_DATA:
        return Rejection(node, "shape", f"the size of {node.op_type}'s result depends on the elements of its operands")
    name = node.operator
    since = [one.since for one in TABLE.get((node.domain, node.op_type), ())]
    if since:
        return Rejection(node, "opset", f"{name} of opset {node.version}, takes {min(since)} and newer")
    return Rejection(node, "operator", f"there is no lowering of {name}")


def _wrong_type(node: Node, found: XlaLowering) -> Rejection | None:
    for k, value in enumerate(node.inputs):
        if value is not None and value.dtype not in found.types_of(k):
            takes = ", ".join(sorted(found.types_of(k)))
            return Rejection(node, "type", f"{value.name!r} is {_describe(value)}, takes {takes}")
    for value in node.outputs:
        if value is not None and value.dtype not in ALL:
            return Rejection(node, "type", f"{value.name!r} is {_describe(value)}, which XLA programs here do not compute")
    return None


def _describe(value: Value) -> str:
    if isinstance(value.type, TensorType):
        return value.type.dtype
    return "of unknown type" if value.type is None else str(value.type)


def _wrong_attribute(node: Node, found: XlaLowering) -> Rejection | None:
    wrong = found.check(node) if found.check is not None else None
    return None if wrong is None else Rejection(node, "attribute", wrong)


def _open_contents(node: Node, seen: dict[Value, Value | None]) -> Rejection | None:
    for value in content_operands(node):
        source = open_value(value, seen)
        if source is not None:
            detail = f"the contents of {value.name!r} must follow from constants and shapes"
            whence = "" if source is value else f"; they depend on {source.name!r}"
            return Rejection(node, "contents", detail + whence)
    return None


def takes_type(node: Node, dtype: str) -> bool:
    """Return True if the node's lowering accepts a float element type for its first operand."""
    found = find(node)
    return found is not None and dtype in found.types_of(0) and dtype in dtypes.FLOATS
