"""Defects of others: where onnxruntime or onnx.reference is wrong, so that a difference to it is not ours.

Each has a proof in tests/generated/defects.md: the smallest model, and the numbers.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import onnx

from tests.generated.comparison import Mismatch
from tests.generated.walk import Site, sites

Predicate = Callable[[Site], bool]


class Defect(NamedTuple):
    """A wrong operator of an oracle. `applies` says of a node in which cases; `since` and `until` bound its opset."""

    name: str
    oracle: str
    operators: tuple[str, ...]
    applies: Predicate
    reason: str


def defect(model: onnx.ModelProto, oracle: str, mismatch: Mismatch) -> str:
    """Name the defect of the oracle that explains the difference, "" for none: a node that the output depends on has it."""
    return next((one.name for one in _present(model, oracle, mismatch.path[0])), "")


def _present(model: onnx.ModelProto, oracle: str, output: int) -> Iterator[Defect]:
    for site in sites(model, model.graph.output[output].name):
        for one in DEFECTS:
            if one.oracle == oracle and site.operator in one.operators and one.applies(site):
                yield one


def _is_linear(site: Site) -> bool:
    return bool(site.attribute("mode", "nearest") == "linear")


DEFECTS: tuple[Defect, ...] = (
    Defect(
        "onnxruntime: Resize, linear",
        "onnxruntime",
        ("Resize", "Upsample"),
        _is_linear,
        "computes coordinates in float32, so that weights are 1e-4 off",
    ),
)
