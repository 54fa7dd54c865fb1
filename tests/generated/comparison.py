"""Comparison of results: structure, element types and shapes must be equal, floats within a tolerance of their type."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array, from_numpy


class Tolerance(NamedTuple):
    """An element may be `relative * |expected| + of_greatest * G` off, G being the greatest finite magnitude of the output."""

    relative: float
    of_greatest: float

    def times(self, factor: float) -> "Tolerance":
        return Tolerance(self.relative * factor, self.of_greatest * factor)


EXACT = Tolerance(0, 0)
EPSILON = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
    "float6_e2m3fn": 2.0**-3,
    "float6_e3m2fn": 2.0**-2,
    "float4_e2m1fn": 2.0**-1,
    "float8_e8m0fnu": 1.0,
}
"""By element type: the distance of 1 from the next number."""
_UNITS = {
    "float64": (4096, 512),
    "complex128": (4096, 512),
    "float32": (84, 16),
    "complex64": (84, 16),
    "float16": (3, 1),
    "bfloat16": (2, 1),
}
"""By element type: how many units in the last place an element may be off, of itself and of the greatest magnitude of the output.

84 units of float32 are 1e-5. float64 has more of them because its functions are polynomials of a lower relative accuracy. 16-bit
floats are computed as float32 and rounded, so that one rounding more or less is what differs. Narrower floats may be one step off.
"""


def tolerance(dtype: str) -> Tolerance:
    """Return the tolerance of an element type; integers, bools and strings must be equal."""
    if dtype not in EPSILON:
        return EXACT
    units, of_greatest = _UNITS.get(dtype, (1, 0))
    return Tolerance(units * EPSILON[dtype], of_greatest * EPSILON[dtype])


class Mismatch(NamedTuple):
    """A tensor that differs. `where` marks the elements, None where structure, element type or shape differ."""

    path: tuple[Any, ...]
    """The number of the output, then positions in sequences and keys of maps."""
    got: Any
    expected: Any
    where: Array | None

    def __str__(self) -> str:
        name = f"output {self.path[0]}" + "".join(f"[{key!r}]" for key in self.path[1:])
        if self.where is None:
            return f"{name}: {describe(self.got)}, expected {describe(self.expected)}"
        index = tuple(int(k) for k in np.argwhere(self.where)[0])
        count = int(np.count_nonzero(self.where))
        dtype = from_numpy(self.got.dtype)
        values = f"{_text(self.got[index])}, expected {_text(self.expected[index])}"
        return f"{name}: {count} of {self.where.size} elements of {dtype} differ, first at {index}: {values}"


def describe(value: Any) -> str:
    """Describe a value in a few words: its type and shape, or its beginning."""
    return f"{value.dtype.name}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{value!r:.100}"


def mismatches(got: Any, expected: Any, path: tuple[Any, ...] = ()) -> list[Mismatch]:
    """List the tensors that differ between two results. Floats of maps are float32, as those that operators put there."""
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(got) != len(expected):
            return [Mismatch(path or (0,), got, expected, None)]
        return [one for k, pair in enumerate(zip(got, expected, strict=True)) for one in mismatches(*pair, (*path, k))]
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if list(got) != list(expected):
            return [Mismatch(path, got, expected, None)]
        return [one for key in expected for one in mismatches(got[key], expected[key], (*path, key))]
    if got is None or expected is None:
        return [] if got is expected else [Mismatch(path, got, expected, None)]
    if isinstance(got, (list, Mapping)) or isinstance(expected, (list, tuple, Mapping)):
        return [Mismatch(path, got, expected, None)]
    return _tensors(_array(got), _array(expected), path)


def _array(value: Any) -> Array:
    return np.asarray(value, np.float32) if type(value) is float else np.asarray(value)


def _tensors(got: Array, expected: Array, path: tuple[Any, ...]) -> list[Mismatch]:
    types = from_numpy(got.dtype), from_numpy(expected.dtype)
    if got.shape != expected.shape or types[0] != types[1]:
        return [Mismatch(path, got, expected, None)]
    equal = close(got, expected, tolerance(types[0]))
    return [] if np.all(equal) else [Mismatch(path, got, expected, np.asarray(~equal))]


def close(got: Array, expected: Array, allowed: Tolerance) -> Array:
    """Mark the elements that are equal within the tolerance. NaN equals NaN, and infinities must be equal."""
    dtype = from_numpy(got.dtype)
    if dtype not in EPSILON:
        same: Array = np.asarray(got.astype(str) == expected.astype(str) if dtype == "string" else got == expected)
        return same
    with np.errstate(all="ignore"):
        a, b = wide(got), wide(expected)
        magnitude = np.abs(b)
        greatest = np.max(magnitude, where=np.isfinite(magnitude), initial=0.0)
        bound = allowed.relative * magnitude + allowed.of_greatest * greatest + tiny(dtype)
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= bound)
        found: Array = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return found


def wide(array: Array) -> Array:
    """The array in float64 or complex128."""
    result: Array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return result


def tiny(dtype: str) -> float:
    """The smallest normal number of a type: denormal ones may be flushed to zero."""
    exponents = {"float64": -1022, "complex128": -1022, "float16": -14}
    return 0.0 if dtype.startswith(("float8", "float6", "float4")) else 2.0 ** exponents.get(dtype, -126)


def identical(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return True if two results have the same bits."""
    return all(_same_bits(one, other) for one, other in zip(first, second, strict=True))


def _same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype != object:
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and identical(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and identical(list(one.values()), list(other.values()))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and bool(one.tolist() == other.tolist())
    return repr(one) == repr(other)


def _text(element: Any) -> str:
    return repr(element.item() if isinstance(element, np.generic) and element.dtype.kind in "fciub" else element)


def only_form(mismatch: Mismatch) -> bool:
    """Return True if structure, element type or shape differ, not elements."""
    return mismatch.where is None
