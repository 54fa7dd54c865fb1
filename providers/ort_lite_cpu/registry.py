"""Which function lowers an operator. One decorator line an operator and version range; families are imported when first needed.

    @operator("Gather", since=1, types=ANY)
    def gather(op: Op) -> None:
        ...

`since` is the first opset version that the function serves, up to the next registration of the same operator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ort_lite.dtypes import FLOATS, INTEGERS, SIGNED, UNSIGNED
from ort_lite_cpu.operators import FAMILIES
from ort_lite_cpu.tensor import NATIVE_TYPES

if TYPE_CHECKING:
    from ort_lite.graph import Node
    from ort_lite_cpu.op import Op

Lower = Callable[["Op"], None]

NATIVE = frozenset(NATIVE_TYPES)
NUMBERS = FLOATS | INTEGERS
REAL = frozenset({"float32", "float64"})
ANY = NATIVE | {"complex64", "complex128", "string"}
MOVABLE = NATIVE | {"complex64"}
"""Types whose elements are 1, 2, 4 or 8 bytes: kernels that only move data take them."""

__all__ = ["ANY", "FLOATS", "INTEGERS", "MOVABLE", "NATIVE", "NUMBERS", "REAL", "SIGNED", "UNSIGNED", "find", "operator"]


@dataclass(frozen=True, slots=True)
class Registration:
    """`types` are the element types allowed for input `typed_by` (the first output's where the node has no inputs)."""

    op_type: str
    domain: str
    since: int
    lower: Lower
    types: frozenset[str]
    typed_by: int
    python: bool
    """Runs as a Python step: strings, sequences, maps, optionals, or sizes that depend on data."""


_REGISTERED: dict[tuple[str, str], list[Registration]] = {}


def operator(
    *op_types: str, since: int = 1, domain: str = "", types: frozenset[str] = NUMBERS, typed_by: int = 0, python: bool = False
) -> Callable[[Lower], Lower]:
    """Registers the decorated function for the operators from opset `since` on."""

    def decorate(lower: Lower) -> Lower:
        for op_type in op_types:
            found = _REGISTERED.setdefault((domain, op_type), [])
            found.append(Registration(op_type, domain, since, lower, types, typed_by, python))
            found.sort(key=lambda registration: -registration.since)
        return lower

    return decorate


def find(node: "Node") -> Registration | None:
    """The registration that serves the node; imports its family on first use."""
    key = (node.domain, node.op_type)
    family = FAMILIES.get(key)
    if family is None:
        return None
    if key not in _REGISTERED:
        import_module(f"ort_lite_cpu.operators.{family}")
    return next((r for r in _REGISTERED.get(key, ()) if r.since <= node.version), None)
