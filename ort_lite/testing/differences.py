"""Comparison of a provider's results with the expected ones, and the description of a difference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

TWO_ULPS = {"float16": 2**-9, "bfloat16": 2**-6}
"""The tolerance beyond a test's own: expected values are rounded at every operator of a function (onnx's runner does so for
bfloat16)."""


def compare(got: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> str | None:
    """Describe the first difference, or return None. Floats may differ by the tolerance, anything else must be equal."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs, expected {len(wanted)}"
    for k, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        a, b = np.asarray(mine), np.asarray(theirs)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"output {k} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        if not _close(a, b, rtol, atol):
            return f"output {k} ({b.dtype}) differs: {_first_difference(a, b)}{_accepting(a, b)}"
    return None


def _close(a: Any, b: Any, rtol: float, atol: float) -> bool:
    if b.dtype.kind in "biuSUO":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    rtol = max(rtol, TWO_ULPS.get(b.dtype.name, 0.0))
    return bool(np.allclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan=True))


def _gaps(a: Any, b: Any) -> tuple[Any, Any]:
    """Return how far the elements are apart, infinitely where one of them alone is NaN, and the magnitudes of those of `b`."""
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    mine, theirs = a.astype(wide), b.astype(wide)
    with np.errstate(invalid="ignore"):  # inf - inf
        gaps = np.where((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)), 0, np.abs(mine - theirs))
    return np.where(np.isnan(gaps), np.inf, gaps), np.abs(theirs)


def _first_difference(a: Any, b: Any) -> str:
    gaps, _ = _gaps(a, b)
    at = np.unravel_index(int(np.argmax(gaps)), a.shape) if a.size else ()
    return f"at {tuple(int(k) for k in at)}: got {a[at]!s}, expected {b[at]!s}"


def _accepting(a: Any, b: Any) -> str:
    """Name the tolerance with which the output would be equal, if a finite one is enough."""
    if b.dtype.kind in "biuSUO":
        return ""
    gaps, sizes = _gaps(a, b)
    with np.errstate(invalid="ignore"):  # inf / inf
        greatest = float(np.where(gaps == 0, 0.0, gaps / (1 + sizes)).max(initial=0.0))
    return f" (accepted with rtol and atol of {greatest:.2g})" if np.isfinite(greatest) else ""
