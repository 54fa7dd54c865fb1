"""The registry of lowerings. A lowering is a function of a node and its operands:

    @lowering("Softmax", since=13, types=FLOATS, along=except_axis(-1, fill="lowest"))
    def softmax(op: XlaOp, x: Array) -> Array:
        return jax.nn.softmax(x, op.attr("axis", -1))

Operands are tracers of JAX, or NumPy arrays where their contents are known while tracing; one that is left out is None.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite import dtypes
from ort_lite.graph import Graph, Node
from ort_lite.record import Record

Array = Any
"""A tracer of JAX or a NumPy array."""
Function = Callable[..., Any]
Check = Callable[[Node], str | None]
"""A check of a node: describes the attribute that the lowering does not support, or returns None."""

FLOATS = frozenset(dtypes.FLOATS)
INTEGERS = frozenset(dtypes.INTEGERS)
NUMBERS = FLOATS | INTEGERS
ALL = NUMBERS | {"bool"}
BOOL = frozenset({"bool"})
INDICES = frozenset({"int32", "int64"})
BYTES = frozenset({"int8", "uint8"})
SHORT = frozenset({"int8", "uint8", "int16", "uint16"})


class PaddingMask(NamedTuple):
    """A condition for running a node: an operand is `fill` past the true size of its dimension `axis`."""

    operand: int
    axis: int
    fill: str


class XlaLowering(Record, eq=False):
    """The lowering of one operator from an opset version on.

    `types` has the element types of each operand; the last one stands for those that follow. The contents of operands in
    `contents` must be known while tracing. A `host` lowering uses only `op.xp`, so that it can compute known contents too.
    `along` is the rule by which the node may run on padded dimensions (see `padding`).
    """

    op_type: str
    since: int
    domain: str
    function: Function
    types: tuple[frozenset[str], ...]
    contents: tuple[int, ...]
    host: bool
    check: Check | None
    along: Any

    def types_of(self, index: int) -> frozenset[str]:
        """Return the element types of operand `index`."""
        return self.types[min(index, len(self.types) - 1)]


TABLE: dict[tuple[str, str], list[XlaLowering]] = {}
"""The lowerings of each operator, newest version first. Filled when the modules of `ort_lite_xla.operators` are imported."""


def lowering(
    *op_types: str,
    since: int = 1,
    domain: str = "",
    types: frozenset[str] | Sequence[frozenset[str]] = ALL,
    contents: Sequence[int] = (),
    host: bool = False,
    check: Check | None = None,
    along: Any = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as the lowering of the operators from opset `since` on."""
    allowed = (types,) if isinstance(types, frozenset) else tuple(types)

    def register(function: Function) -> Function:
        for op_type in op_types:
            made = XlaLowering(op_type, since, domain, function, allowed, tuple(contents), host, check, along)
            TABLE.setdefault((domain, op_type), []).append(made)
            TABLE[domain, op_type].sort(key=lambda found: -found.since)
        return function

    return register


def find(node: Node) -> XlaLowering | None:
    """Return the newest lowering that is not newer than the node, or None."""
    return next((found for found in TABLE.get((node.domain, node.op_type), ()) if found.since <= node.version), None)


def has_input(node: Node, index: int) -> bool:
    """Return True if the node has input `index`."""
    return index < len(node.inputs) and node.inputs[index] is not None


class XlaOp:
    """A node while it is lowered. `xp` is NumPy if all operands are known, `jax.numpy` otherwise.

    With `vendor`, the lowering may call a kernel of the device's vendor, and may ask the device which ones there are. `compute`
    computes a body of the node.
    """

    __slots__ = ("_compute", "_known", "node", "vendor", "xp")

    def __init__(
        self,
        node: Node,
        known: Mapping[int, np.ndarray[Any, Any]],
        xp: Any,
        vendor: bool = False,
        compute: Callable[[Graph], list[Array]] | None = None,
    ) -> None:
        self.node, self._known, self.xp, self.vendor, self._compute = node, known, xp, vendor, compute

    @property
    def version(self) -> int:
        """The opset version of the node."""
        return self.node.version

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the node, or the default."""
        return self.node.attr(name, default)

    def body(self, name: str) -> list[Array]:
        """Compute the body in an attribute, and return its results."""
        assert self._compute is not None, "a node with bodies is lowered by trace"
        return self._compute(self.node.attr(name))

    def wants(self, index: int) -> bool:
        """Return True if output `index` may be read."""
        return index < len(self.node.outputs) and self.node.outputs[index] is not None

    def contents(self, index: int) -> Any:
        """Return the contents of an operand that the lowering lists in `contents`; None if it is omitted."""
        return self._known.get(index)

    def numbers(self, index: int) -> list[int] | None:
        """Return the contents as a flat list of integers."""
        found = self._known.get(index)
        return None if found is None else [int(x) for x in np.ravel(found)]

    def dtype(self, index: int = 0) -> np.dtype[Any]:
        """Return the inferred element type of output `index`."""
        value = self.node.outputs[index]
        assert value is not None and value.dtype is not None, "get_capability declines outputs of unknown type"
        return dtypes.to_numpy(value.dtype)
