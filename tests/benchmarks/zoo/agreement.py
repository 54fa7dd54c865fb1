"""Comparison of a model's outputs with those of onnxruntime, relative to the largest element of each output."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ort_lite.dtypes import Array

Outputs = Sequence[Array]


def load_outputs(path: Path) -> Outputs:
    """Read outputs that a worker saved."""
    with np.load(path) as held:
        return [held[name] for name in held.files]


def difference(found: Outputs, expected: Outputs) -> float:
    """Return the largest difference of two sets of outputs, as a share of the largest element of its output.

    It is infinite for outputs of other shapes or types, other integers, and NaNs at other places.
    """
    if len(found) != len(expected):
        return np.inf
    return max((_difference(*pair) for pair in zip(found, expected, strict=True)), default=0.0)


def _difference(found: Array, expected: Array) -> float:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.inf
    if not expected.size:
        return 0.0
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else np.inf
    got, want = found.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return np.inf
    with np.errstate(invalid="ignore"):
        distance = np.where(got == want, 0.0, np.abs(got - want))  # infinities may be equal
    largest = float(np.max(np.abs(want), where=np.isfinite(want), initial=0.0))
    return float(np.nanmax(distance, initial=0.0)) / (largest or 1.0)
