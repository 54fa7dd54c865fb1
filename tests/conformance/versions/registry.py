"""Where the cases come from."""

from collections import defaultdict
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from tests.conformance.versions.cases import Case
from tests.conformance.versions.schemas import Key

FAMILIES = (
    "math", "logic", "reductions", "shaping", "selection", "matrices", "convolution", "pooling", "normalization", "recurrent",
    "quantization", "casting", "generation", "images", "signal", "attention",
    "ml", "text", "sequences", "control_flow", "random", "training", "decoding",
)  # fmt: skip
"""Modules of this package; each has CASES. The first case of an operator's version is the one that runs in all types."""


@cache
def cases() -> dict[tuple[str, str], list[Case]]:
    """The cases of each (domain, operator)."""
    found: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for family in FAMILIES:
        name = f"tests.conformance.versions.{family}"
        if find_spec(name) is not None:
            for one in import_module(name).CASES:
                found[one.domain, one.op_type].append(one)
    return found


def matching(key: Key) -> list[Case]:
    """The cases whose spelling is valid in that version of the operator."""
    domain, op_type, version = key
    return [one for one in cases()[domain, op_type] if one.since <= version <= one.until]


EXCEPTIONS: dict[Key, str] = {
    ("", "GroupNormalization", 18): "deprecated: the schema forbids its use, version 21 took its place",
    ("", "Scatter", 11): "deprecated: the schema forbids its use, ScatterElements took its place",
    ("", "Upsample", 10): "deprecated: the schema forbids its use, Resize took its place",
    ("ai.onnx.ml", "TreeEnsembleClassifier", 5): "deprecated: the schema forbids its use, TreeEnsemble took its place",
    ("ai.onnx.ml", "TreeEnsembleRegressor", 5): "deprecated: the schema forbids its use, TreeEnsemble took its place",
    ("ai.onnx.preview.training", "Gradient", 1): "needs a graph to differentiate: training only, no runtime has it",
}
"""Versions without cases."""
