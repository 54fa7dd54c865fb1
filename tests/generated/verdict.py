"""The result of comparing a generated model with the oracles."""

from collections.abc import Mapping
from typing import NamedTuple

SAME, EXPLAINED, DIFFERENT, INVALID = "same", "explained", "different", "invalid"


class Difference(NamedTuple):
    """An output that differs from an oracle's. `explanation` names the class of explanation; "" is a failure."""

    oracle: str
    """"onnxruntime", "float64", "unoptimized", "saved and loaded", ..."""
    text: str
    explanation: str = ""


class Verdict(NamedTuple):
    """All differences of one model. `oracles` are those that gave an answer; `refusals` say why the others did not.

    `invalid` says why the model or its feeds are not valid: a recipe is wrong, and ort-lite is right to refuse the model.
    """

    differences: tuple[Difference, ...]
    oracles: tuple[str, ...]
    refusals: Mapping[str, str]
    invalid: str = ""
    unjudged: tuple[str, ...] = ()
    """Operators, with the types of their inputs, that no other oracle than ort-lite itself computes."""

    @property
    def status(self) -> str:
        if self.invalid:
            return INVALID
        if any(not one.explanation for one in self.differences):
            return DIFFERENT
        return EXPLAINED if self.differences else SAME
