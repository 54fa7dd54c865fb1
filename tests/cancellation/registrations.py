"""The registrations of the CPU provider: an operator has one for numbers, and may have others for strings and complex numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import from_numpy
from ort_lite.graph import Node, TensorType, Value
from ort_lite_cpu.operators import COMPLEX_FAMILIES, FAMILIES, STRING_FAMILIES
from ort_lite_cpu.registry import STRING, find
from tests.fuzz.drafts import Draft

NUMBERS, STRINGS, COMPLEX = "", "strings", "complex"


class Registration(NamedTuple):
    """An operator with the kind of elements that its kernels or Python steps take."""

    domain: str
    op_type: str
    kind: str = NUMBERS

    def __str__(self) -> str:
        """Return the name as the command takes it: "TopK", "com.microsoft.Gelu", "Gather:strings"."""
        return f"{self.domain}." * bool(self.domain) + self.op_type + f":{self.kind}" * bool(self.kind)


def registrations() -> list[Registration]:
    """Return all registrations, in the order of their names."""
    kinds = {NUMBERS: FAMILIES, STRINGS: STRING_FAMILIES, COMPLEX: COMPLEX_FAMILIES}
    found = (Registration(*operator, kind) for kind, families in kinds.items() for operator in families)
    return sorted(found, key=lambda one: (one.domain, one.op_type, one.kind))


def registration_of(draft: Draft) -> Registration:
    """Return the registration that serves the draft's node."""
    domain, op_type, version = draft.key
    types = [TensorType(from_numpy(array.dtype)) for _, array in draft.arrays()]
    node = Node(
        op_type, [Value("input", type_) for type_ in types], [Value("output", _made(draft))], domain=domain, version=version
    )
    chosen = find(node)
    kind = STRINGS if chosen is None or chosen.types == STRING else COMPLEX if _is_complex(chosen.types) else NUMBERS
    return Registration(domain, op_type, kind)


def is_step(one: Registration) -> bool:
    """Return True if the registration is a Python step by itself."""
    dtype = {NUMBERS: None, STRINGS: "string", COMPLEX: "complex128"}[one.kind]
    value = Value("input", None if dtype is None else TensorType(dtype))
    chosen = find(Node(one.op_type, [value], [], domain=one.domain, version=1 << 20))
    return chosen is not None and chosen.python


def _is_complex(types: frozenset[str]) -> bool:
    return bool(types) and all(one.startswith("complex") for one in types)


def _made(draft: Draft) -> TensorType | None:
    """Return the type of outputs of strings that come from attributes alone."""
    texts = draft.attributes.get("to") == 8 or any(
        name.startswith("values_") or name == "default_tensor" for name, value in draft.attributes.items() if _is_text(value)
    )
    return TensorType("string") if texts else None


def _is_text(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype == object)
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], str)
