"""What comparing a generated model came to."""

from typing import NamedTuple

SAME, EXPLAINED, DIFFERENT = "same", "explained", "different"


class Difference(NamedTuple):
    """An output that differs from an oracle's. `explanation` names the class of explanation; "" is a failure."""

    oracle: str
    """"onnxruntime", "float64", "without transforms", "saved and loaded", ..."""
    text: str
    explanation: str = ""


class Verdict(NamedTuple):
    """All differences of one model. `oracles` are those that gave an answer; `refusals` say why the others did not."""

    differences: tuple[Difference, ...]
    oracles: tuple[str, ...]
    refusals: dict[str, str]

    @property
    def status(self) -> str:
        if any(not one.explanation for one in self.differences):
            return DIFFERENT
        return EXPLAINED if self.differences else SAME
