"""Defects of others: where onnxruntime or onnx.reference is wrong, so that a difference to it is not ours.

Each has a proof in tests/generated/defects.md: the smallest model, and the numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

import onnx

from tests.generated.walk import Site, Values, sites

ONNXRUNTIME, REFERENCE = "onnxruntime", "float64"


class Defect(NamedTuple):
    """A wrong operator of an oracle. `applies` says of a node with its operands whether it is such a case."""

    oracle: str
    operators: str
    applies: Callable[[Site], bool]
    reason: str

    @property
    def name(self) -> str:
        return f"{self.oracle}: {self.operators}: {self.reason}"


def find_defect(model: onnx.ModelProto, values: Values, oracle: str) -> str:
    """Name the defect of the oracle that a node of the model has, "" for none."""
    for site in sites(model, values):
        for one in DEFECTS:
            if oracle.startswith(one.oracle) and site.operator in one.operators.split() and one.applies(site):
                return one.name
    return ""


def _is_linear(site: Site) -> bool:
    return bool(site.attribute("mode", "nearest") == "linear")


DEFECTS: tuple[Defect, ...] = (
    Defect(
        ONNXRUNTIME,
        "Resize Upsample",
        _is_linear,
        "computes coordinates of linear interpolation in float32: weights are 1e-4 off",
    ),
)
