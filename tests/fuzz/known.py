"""Known differences between results and onnx.reference, whose nodes compute in float64, with their reasons; also of mutants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto

from tests.fuzz.drafts import Draft
from tests.generated.comparison import mismatches
from tests.generated.known import REFERENCE, find_defect
from tests.generated.walk import constants


class Known(NamedTuple):
    """A difference from onnx.reference that valid models do not show: of which operators, of which of their mutants, and why."""

    operators: str
    applies: Callable[[Draft], bool]
    reason: str


def difference(model: onnx.ModelProto, feeds: Mapping[str, Any], got: Sequence[Any], expected: Sequence[Any]) -> str:
    """Describe the first difference that no defect of onnx.reference explains, "" for none."""
    values = {**constants(model), **feeds}
    found = (one for one in mismatches(got, expected) if not find_defect(model, values, REFERENCE, one))
    return next(map(str, found), "")


def known_difference(draft: Draft) -> str:
    """Say why onnx.reference is wrong about a mutant, "" where it is right."""
    found = (one for one in KNOWN if draft.key[1] in one.operators.split())
    return next((one.reason for one in found if one.applies(draft)), "")


def _has_infinite_attribute(draft: Draft) -> bool:
    return any(isinstance(value, float) and not math.isfinite(value) for value in draft.attributes.values())


def _has_integer_precision(draft: Draft) -> bool:
    return draft.attributes.get("precision", 0) not in (
        0,
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
    )


def _has_no_positive_scale(draft: Draft) -> bool:
    scale = draft.attributes.get("scale")
    return isinstance(scale, float) and scale <= 0


KNOWN = (
    Known(
        "Celu Elu HardSigmoid LeakyRelu PRelu Selu Shrink ThresholdedRelu",
        _has_infinite_attribute,
        "computes both sides of a condition and multiplies by its truth: infinity and NaN spoil the side that does not apply",
    ),
    Known(
        "Ceil Floor Round Sign Equal Cast Hardmax ArgMax ArgMin TopK Unique",
        lambda draft: draft.before in ("Tanh", "Sigmoid"),
        "rounds the operator before in another way, and a step is all it takes to come out elsewhere",
    ),
    Known("Attention", _has_infinite_attribute, "subtracts infinity from infinity in its softmax"),
    Known("QuantizeLinear", _has_integer_precision, "divides integers where `precision` names a type of them"),
    Known("Attention", _has_no_positive_scale, "takes the square root of a negative scale, and a scale of 0 for none"),
)
