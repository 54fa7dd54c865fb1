"""What a case is: one spelling of a node, the range of schema versions it is valid for, and who knows the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ort_lite.dtypes import Array

Oracle = str | Callable[..., Any]
NEWEST = 1 << 30


@dataclass(frozen=True)
class Maybe:
    """An input of type optional: `value` or nothing. `like` shows the type of what it holds."""

    value: Any
    like: Any


@dataclass(frozen=True)
class Right:
    """In the place of an output of which several values are right: those that `test` accepts. `like` shows the type."""

    like: Any
    test: Callable[[Any], Any]


Input = Array | list[Any] | dict[Any, Any] | Maybe | None
"""A tensor, a sequence, a map, an optional, or an input that is left out."""


@dataclass(frozen=True)
class Case:
    """See `case`."""

    op_type: str
    inputs: tuple[Input, ...]
    since: int
    until: int
    domain: str
    oracle: Oracle
    outputs: tuple[bool, ...]
    constants: tuple[int, ...]
    types: tuple[str, ...] | None
    rtol: float
    atol: float
    attributes: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.op_type}({', '.join(map(_brief, self.inputs))}) {dict(self.attributes) or ''}"


def case(
    op_type: str | Any,
    *inputs: Input,
    since: int | Any = 1,
    until: int | Any = NEWEST,
    domain: str | Any = "",
    oracle: Oracle | Any = "reference",
    outputs: int | Sequence[bool] | Any = 1,
    constants: Sequence[int] | Any = (),
    types: Sequence[str] | Any = None,
    rtol: float | Any = 1e-5,
    atol: float | Any = 1e-6,
    **attributes: Any,
) -> Case:
    """A node `op_type(*inputs, **attributes)`, valid in schema versions `since` to `until`.

    - A version whose schema refuses the element type of the inputs has no such case: an int16 Add begins with Add-14.
    - `oracle`: "reference" (onnx.reference), "onnxruntime", both at the opset of the version, "onnxruntime-7" for its opset 7
      where it lacks a version that says the same, or a function of the inputs and attributes (floats rounded to float32, as in
      a model). It returns the outputs, several of them as a tuple; in the place of one may stand a `Right`.
    - `outputs`: how many, or for each whether the node names it.
    - `constants`: positions of inputs that are initialisers in half of the variants.
    - `types`: element types to run it in besides its own, where the schema allows them: inputs of the main type variable are
      converted (`models.convert`). None: all that the schema allows, if it is the first case of the operator's version.
    - NumPy arrays among the attributes are tensors. Options are typed "or Any", see tests/cpu/check.py.
    """
    present = (True,) * outputs if isinstance(outputs, int) else tuple(outputs)
    kinds = None if types is None else tuple(types)
    return Case(op_type, inputs, since, until, domain, oracle, present, tuple(constants), kinds, rtol, atol, attributes)


def _brief(value: Input) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return "-" if value is None else type(value).__name__
