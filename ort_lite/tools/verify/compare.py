"""Comparison of two results for one tensor: how far apart they are, where, and whether the difference is allowed."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ort_lite.dtypes import BITS, COMPLEX, Array, from_numpy
from ort_lite.record import Record, asdict


class Tolerance(Record):
    """The allowed difference of an element: `atol + rtol * |expected| + of_greatest * G`, where G is the largest finite expected
    magnitude.
    """

    rtol: float = 0.0
    atol: float = 0.0
    of_greatest: float = 0.0


_SINGLE, _DOUBLE = Tolerance(1e-3, 1e-5, 1e-5), Tolerance(1e-7, 1e-10, 1e-10)
DEFAULTS: Mapping[str, Tolerance] = {
    "float64": _DOUBLE,
    "complex128": _DOUBLE,
    "float32": _SINGLE,
    "complex64": _SINGLE,
    "float16": Tolerance(1e-2, 1e-4, 2e-3),
    "bfloat16": Tolerance(4e-2, 1e-4, 1e-2),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float6_e2m3fn"), Tolerance(0.13, 2e-3)),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz", "float6_e3m2fn"), Tolerance(0.26, 2e-3)),
}
"""Sums in another order stay within them; a wrong operator hardly does. What is not listed must be equal."""

_SIGN_MAGNITUDE = frozenset(
    {"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
)


class TensorReport(Record):
    """The worst comparison of a tensor over all calls of a partition. `greatest_*` cover elements that are finite on both sides.

    `index`, `got` and `expected` belong to the worst element, and are None if nothing differs. `nans` and `infs` count elements
    that are NaN or infinite where the CPU's are not. `wrong` counts elements beyond the tolerance. `mismatch` describes what cannot
    be compared at all: another type, shape or length. A complex element counts as two, which the last index tells apart.
    """

    name: str
    type: str
    shape: tuple[int, ...] = ()
    greatest_difference: float = 0.0
    greatest_relative: float = 0.0
    greatest_ulps: int = 0
    index: tuple[int, ...] | None = None
    got: Any = None
    expected: Any = None
    elements: int = 0
    wrong: int = 0
    nans: int = 0
    infs: int = 0
    mismatch: str = ""

    @property
    def ok(self) -> bool:
        """True if no element differs and type and shape match."""
        return not self.wrong and not self.mismatch

    def merge(self, later: "TensorReport") -> "TensorReport":
        """Merge the comparisons of two calls: worst element and shape of the larger difference, the first of equal ones."""
        worse = later if _badness(later) > _badness(self) else self
        return worse.replace(
            greatest_difference=max(self.greatest_difference, later.greatest_difference),
            greatest_relative=max(self.greatest_relative, later.greatest_relative),
            greatest_ulps=max(self.greatest_ulps, later.greatest_ulps),
            elements=self.elements + later.elements,
            wrong=self.wrong + later.wrong,
            nans=self.nans + later.nans,
            infs=self.infs + later.infs,
            mismatch=self.mismatch or later.mismatch,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {name: _plain(value) for name, value in asdict(self).items()} | {"ok": self.ok}

    def __str__(self) -> str:
        if self.mismatch:
            return f"{self.name!r} {self.mismatch}"
        text = f"{self.name!r} {self.type}{list(self.shape)}"
        if self.index is None:
            return f"{text} equal"
        worst = f"worst at {list(self.index)}: got {self.got}, the CPU {self.expected}"
        apart = f"{self.greatest_difference:.3g} apart, {self.greatest_relative:.3g} relative, {self.greatest_ulps} ulps"
        special = "".join(f", {n} {what} of its own" for n, what in ((self.nans, "NaN"), (self.infs, "Inf")) if n)
        wrong = f"{self.wrong} of {self.elements} elements off" if self.wrong else "within tolerance"
        return f"{text} {wrong}, {worst}, {apart}{special}"


def _badness(report: TensorReport) -> tuple[bool, bool, float]:
    return bool(report.mismatch), bool(report.wrong), report.greatest_difference


def _plain(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def compare(name: str, got: Any, expected: Any, tolerance_of: Any) -> list[TensorReport]:
    """Return a report for a tensor, or one for each tensor of a sequence or map ("name[2]"). `tolerance_of(dtype)` returns a
    Tolerance.
    """
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(got) != len(expected):
            return [TensorReport(name, "sequence", mismatch=f"has {len(got)} elements, the CPU's {len(expected)}")]
        pairs = enumerate(zip(got, expected, strict=True))
        return [one for k, pair in pairs for one in compare(f"{name}[{k}]", *pair, tolerance_of)]
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if got.keys() != expected.keys():
            return [TensorReport(name, "map", mismatch=f"has keys {list(got)[:5]}, the CPU's {list(expected)[:5]}")]
        return [one for k in expected for one in compare(f"{name}[{k!r}]", got[k], expected[k], tolerance_of)]
    if got is None and expected is None:
        return []
    if got is None or expected is None:
        return [TensorReport(name, "optional", mismatch="is None on one side alone")]
    return [_tensors(name, np.asarray(got), np.asarray(expected), tolerance_of)]


def compare_all(names: Iterable[str], got: Iterable[Any], expected: Iterable[Any], tolerance_of: Any) -> list[TensorReport]:
    """Return the reports on several tensors, each as `compare` returns them."""
    trios = zip(names, got, expected, strict=True)
    return [report for trio in trios for report in compare(*trio, tolerance_of)]


def _tensors(name: str, got: Array, expected: Array, tolerance_of: Any) -> TensorReport:
    types = from_numpy(got.dtype), from_numpy(expected.dtype)
    if types[0] != types[1] or got.shape != expected.shape:
        came, wanted = (f"{dtype}{list(a.shape)}" for dtype, a in zip(types, (got, expected), strict=True))
        return TensorReport(name, types[0], got.shape, mismatch=f"is {came}, the CPU's {wanted}")
    dtype, shape = types[0], got.shape
    if dtype in COMPLEX:
        part = np.dtype(f"float{got.dtype.itemsize * 4}")
        got, expected = (np.ascontiguousarray(a)[..., None].view(part) for a in (got, expected))
    if dtype == "string":
        difference, ulps = (got != expected).astype(np.float64), np.zeros(got.shape, np.uint64)
        bad = difference != 0
    elif dtype == "bool" or "int" in dtype:
        ulps = _apart(got, expected)
        difference = ulps.astype(np.float64)
        bad = difference > _allowance(expected.astype(np.float64), tolerance_of(dtype))
    else:
        return _floats(name, dtype, shape, got, expected, tolerance_of(dtype))
    return _report(name, dtype, shape, got, expected, difference, ulps, bad)


def _floats(name: str, dtype: str, shape: tuple[int, ...], got: Array, expected: Array, tolerance: Tolerance) -> TensorReport:
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), expected.astype(np.float64)
        finite, same = np.isfinite(a) & np.isfinite(b), (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(finite, np.abs(a - b), np.where(same, 0.0, np.inf))
        bad = ~same & ~(finite & (difference <= _allowance(b, tolerance)))
    ulps = np.where(finite, _ulps(dtype, got, expected), np.uint64(0))
    nans, infs = np.isnan(a) & ~np.isnan(b), np.isinf(a) & ~np.isinf(b)
    report = _report(name, dtype, shape, got, expected, difference, ulps, bad)
    return report.replace(nans=int(nans.sum()), infs=int(infs.sum()))


def _report(
    name: str, dtype: str, shape: tuple[int, ...], got: Array, expected: Array, difference: Array, ulps: Array, bad: Array
) -> TensorReport:
    found = TensorReport(name, dtype, shape, elements=got.size, wrong=int(bad.sum()))
    if not difference.any():
        return found
    finite = difference[np.isfinite(difference)]
    worst = int(np.argmax(np.where(bad, difference, -1.0) if found.wrong else difference))
    index = tuple(int(k) for k in np.unravel_index(worst, difference.shape))
    relative = 0.0
    if dtype != "string":
        with np.errstate(all="ignore"):
            shares = difference / np.abs(expected.astype(np.float64))
        relative = float(np.max(shares, where=np.isfinite(shares), initial=0.0))
    return found.replace(
        greatest_difference=float(finite.max(initial=0.0)),
        greatest_relative=relative,
        greatest_ulps=int(ulps.max()),
        index=index,
        got=_number(got[index]),
        expected=_number(expected[index]),
    )


def _allowance(expected: Array, tolerance: Tolerance) -> Array:
    size = np.abs(expected)
    greatest = float(np.max(size, where=np.isfinite(size), initial=0.0)) if tolerance.of_greatest else 0.0
    allowed: Array = tolerance.atol + tolerance.of_greatest * greatest + tolerance.rtol * size
    return allowed


def _apart(a: Array, b: Array) -> Array:
    """Return |a - b| of integers as uint64, which is exact even if they are 2**63 or more apart."""
    a, b = ((x.astype(np.uint64) if x.dtype == np.uint64 else x.astype(np.int64)) for x in (a, b))
    apart: Array = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)  # modulo 2**64
    return apart


def _ulps(dtype: str, a: Array, b: Array) -> Array:
    """Count the numbers of the type between two values, plus one; 0 for types without a sign and those below a byte.

    Bits without the sign, read as an integer, count the numbers from zero.
    """
    name = from_numpy(a.dtype) if dtype in COMPLEX else dtype
    if name not in _SIGN_MAGNITUDE or name in BITS:
        return np.zeros(a.shape, np.uint64)
    bits = a.dtype.itemsize * 8
    words = [np.ascontiguousarray(x).view(f"u{bits // 8}").reshape(x.shape).astype(np.uint64) for x in (a, b)]
    sign, rest = np.uint64(bits - 1), np.uint64(2 ** (bits - 1) - 1)
    (sa, ma), (sb, mb) = ((word >> sign, word & rest) for word in words)
    apart: Array = np.where(sa == sb, np.maximum(ma, mb) - np.minimum(ma, mb), ma + mb)
    return apart


def _number(element: Any) -> Any:
    return element if isinstance(element, str) else float(element) if "float" in str(element.dtype) else element.item()
