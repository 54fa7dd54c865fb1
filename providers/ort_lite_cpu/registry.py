"""The registry of operators: one decorator line per operator and version range. Families are imported when first needed.

    @operator("Gather", since=1, types=ANY)
    def gather(op: NodeLowering) -> None:
        ...

`since` is the first opset version that the function serves, up to the next registration of the same operator.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from ort_lite.dtypes import COMPLEX, FLOATS, INTEGERS, SIGNED, UNSIGNED, DType
from ort_lite.record import Record
from ort_lite_cpu.operators import COMPLEX_FAMILIES, FAMILIES, STRING_FAMILIES
from ort_lite_cpu.types import NARROW_TYPES, NATIVE_TYPES

if TYPE_CHECKING:
    from ort_lite.graph import Node, Value
    from ort_lite_cpu.lowering.op import NodeLowering

Lower = Callable[["NodeLowering"], None]
DtypeOf = Callable[["Value"], DType | None]

NATIVE = frozenset(NATIVE_TYPES)
NUMBERS = FLOATS | INTEGERS
REAL = frozenset({"float32", "float64"})
NARROW = frozenset(NARROW_TYPES)
MOVABLE = NATIVE | NARROW | {"complex64"}
"""Types whose elements are 1, 2, 4 or 8 bytes: kernels that only move data take them."""
ANY = MOVABLE | {"complex128", "string"}
STRING = frozenset({"string"})
"""For Python steps: registrations of this type, or of COMPLEX, are separate ones, see `find`."""

__all__ = [
    "ANY",
    "COMPLEX",
    "FLOATS",
    "INTEGERS",
    "MOVABLE",
    "NARROW",
    "NATIVE",
    "NUMBERS",
    "REAL",
    "SIGNED",
    "STRING",
    "UNSIGNED",
    "find",
    "find_native",
    "operator",
]


class OperatorRegistration(Record):
    """`types` are the element types allowed for input `typed_by` (the first output's where the node has no inputs)."""

    op_type: str
    domain: str
    since: int
    lower: Lower
    types: frozenset[str]
    typed_by: int
    stepwise: frozenset[str]
    """Types that it takes as well where 16-bit floats are rounded at every step; see `CPUOptions.steps`."""
    python: bool
    """Runs as a Python step: strings, sequences, maps, optionals."""
    check: Callable[["Node"], object] | None
    """Raises what lowering would, whatever the inputs are: for nodes that only a run lowers."""
    family: str
    """The module that registered it."""


_REGISTERED: dict[tuple[str, str], list[OperatorRegistration]] = {}
_FOR_STRINGS: dict[tuple[str, str], list[OperatorRegistration]] = {}
_FOR_COMPLEX: dict[tuple[str, str], list[OperatorRegistration]] = {}
_WHOLE: set[str] = set()
"""Families that were imported to their end: one that another thread imports just now has registered functions that miss names."""


def operator(
    *op_types: str,
    since: int = 1,
    domain: str = "",
    types: frozenset[str] = NUMBERS,
    typed_by: int = 0,
    stepwise: frozenset[str] = frozenset(),
    python: bool = False,
    check: Callable[["Node"], object] | None = None,
    moves: bool = False,
) -> Callable[[Lower], Lower]:
    """Registers the decorated function for the operators from opset `since` on.

    `moves`: its kernels only move elements, or sum them. They serve strings too, by numbers that stand for them, and complex
    numbers, by their parts.
    """

    def decorate(lower: Lower) -> Lower:
        family = lower.__module__
        for op_type in op_types:
            _add(OperatorRegistration(op_type, domain, since, lower, types, typed_by, stepwise, python, check, family))
            if moves:
                strings, parts = _later("strings", "move"), _later("complex_numbers", "by_parts")
                _add(OperatorRegistration(op_type, domain, since, strings, STRING, 0, frozenset(), True, None, family))
                _add(OperatorRegistration(op_type, domain, since, parts, COMPLEX, 0, frozenset(), False, None, family))
        return lower

    return decorate


def _add(registration: OperatorRegistration) -> None:
    types = registration.types
    registered = _FOR_STRINGS if types == STRING else _FOR_COMPLEX if types == COMPLEX else _REGISTERED
    found = registered.setdefault((registration.domain, registration.op_type), [])
    found.append(registration)
    found.sort(key=lambda one: -one.since)


def _later(family: str, name: str) -> Lower:
    """A function of another family, which is imported when it is first called."""

    def lower(op: "NodeLowering") -> None:
        getattr(import_module(f"ort_lite_cpu.operators.{family}"), name)(op)

    return lower


def registrations() -> dict[str, list[OperatorRegistration]]:
    """Return the registrations of imported families: for numbers, for strings, for complex numbers."""
    kinds = {"numbers": _REGISTERED, "strings": _FOR_STRINGS, "complex": _FOR_COMPLEX}
    return {kind: [one for versions in registered.values() for one in versions] for kind, registered in kinds.items()}


def find(node: "Node", dtype_of: DtypeOf = lambda value: value.dtype) -> OperatorRegistration | None:
    """The registration that serves the node; imports its family on first use.

    Of an operator with a family for strings, that one serves nodes with an input or output of strings; of one with a family
    for complex numbers, that one serves nodes with an input of them that the operator's own kernels do not take. `dtype_of`
    returns the element type of an input or output, None if it is not known: a run knows more of them than the graph.
    """
    key = (node.domain, node.op_type)
    if key in STRING_FAMILIES and any(
        value is not None and dtype_of(value) == "string" for value in (*node.inputs, *node.outputs)
    ):
        return _find_registration(_FOR_STRINGS, STRING_FAMILIES[key], key, node.version)
    found = find_native(node)
    if key in COMPLEX_FAMILIES and found is not None:
        own = found.types if found.typed_by == 0 else frozenset()
        dtypes = [dtype_of(value) for value in node.inputs if value is not None]
        if any(dtype in COMPLEX and dtype not in own for dtype in dtypes):
            return _find_registration(_FOR_COMPLEX, COMPLEX_FAMILIES[key], key, node.version)
    return found


def find_native(node: "Node") -> OperatorRegistration | None:
    """Find the node's registration regardless of types."""
    key = (node.domain, node.op_type)
    return _find_registration(_REGISTERED, FAMILIES[key], key, node.version) if key in FAMILIES else None


def _find_registration(
    registered: dict[tuple[str, str], list[OperatorRegistration]], family: str, key: tuple[str, str], version: int
) -> OperatorRegistration | None:
    if family not in _WHOLE:
        import_module(f"ort_lite_cpu.operators.{family}")
        _WHOLE.add(family)
    return next((r for r in registered.get(key, ()) if r.since <= version), None)
