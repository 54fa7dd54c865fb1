"""Defects of others: where onnxruntime or onnx.reference is wrong, so that a difference to it is not ours.

`defects/` lists them. A defect names the operators, says for which nodes and operands it applies, and what the oracle does.
tests/data/generated/ holds a node that shows it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx

from ort_lite.dtypes import from_numpy
from tests.generated.comparison import Mismatch, Tolerance, close, tolerance
from tests.generated.walk import Site, Values, sites

ONNXRUNTIME, REFERENCE = "onnxruntime", "float64"
Applies = Callable[[Site, Mismatch], bool]


def always(site: Site, mismatch: Mismatch) -> bool:
    return True


class Defect(NamedTuple):
    """A wrong operator of an oracle. `applies` says of a node with its operands, and of what differs, whether it is such a case."""

    oracle: str
    operators: str
    reason: str
    applies: Applies

    @property
    def name(self) -> str:
        return f"{self.oracle}: {self.operators}: {self.reason}"


def find_defect(model: onnx.ModelProto, values: Values, oracle: str, mismatch: Mismatch) -> str:
    """Name the defect of the oracle that a node of the model has, "" for none."""
    return next((name for site in sites(model, values) if (name := defect_of(site, oracle, mismatch))), "")


def defect_of(site: Site, oracle: str, mismatch: Mismatch) -> str:
    """Name the defect of the oracle that a node has, "" for none."""
    from tests.generated.defects import DEFECTS

    wrong = (one for one in DEFECTS if oracle.startswith(one.oracle) and site.operator in one.operators.split())
    return next((one.name for one in wrong if one.applies(site, mismatch)), "")


# --- Conditions
def attribute(name: str, *wanted: object, default: object = None) -> Applies:
    """The attribute has one of these values."""
    return lambda site, mismatch: site.attribute(name, default) in wanted


def has_attribute(*names: str) -> Applies:
    return lambda site, mismatch: any(site.attribute(name) is not None for name in names)


def has_input(index: int) -> Applies:
    return lambda site, mismatch: index < len(site.node.input) and bool(site.node.input[index])


def has_single_size(site: Site, mismatch: Mismatch) -> bool:
    """The second input, a size, has an axis of 1, and corners are aligned."""
    size = site.operand(1)
    return bool(site.attribute("align_corners", 0)) and isinstance(size, np.ndarray) and 1 in size[2:]


def dtype(index: int, *wanted: str) -> Applies:
    """The input has one of these element types."""
    return lambda site, mismatch: site.dtype(index).startswith(wanted)


def form(site: Site, mismatch: Mismatch) -> bool:
    """Another shape, type or structure."""
    return mismatch.where is None


def backward_slices(site: Site) -> list[tuple[int, int, int]]:
    """List (start, end, size) of the axes along which a Slice steps backward."""
    data, starts, ends, axes, steps = map(site.operand, range(5))
    if not all(isinstance(one, np.ndarray) for one in (data, starts, ends, steps)):
        return []
    sizes = np.array(data.shape)[axes if isinstance(axes, np.ndarray) else slice(len(starts))]
    rows = np.stack([starts, ends, sizes], -1)[steps < 0]
    return [(int(start), int(end), int(size)) for start, end, size in rows]


def expects_nan(site: Site, mismatch: Mismatch) -> bool:
    """The oracle has NaN where ort-lite differs."""
    if mismatch.where is None or mismatch.expected.dtype.kind not in "fV":
        return False
    return bool(np.all(np.isnan(mismatch.expected[mismatch.where])))


def gives_nan(site: Site, mismatch: Mismatch) -> bool:
    """ort-lite has NaN where the oracle differs."""
    if mismatch.where is None or mismatch.got.dtype.kind not in "fV":
        return False
    return bool(np.all(np.isnan(mismatch.got[mismatch.where])))


def has_nan(site: Site, mismatch: Mismatch) -> bool:
    """The first input holds NaN."""
    value = site.operand(0)
    return isinstance(value, np.ndarray) and value.dtype != object and bool(np.any(value != value))


def seeks_nan(site: Site, mismatch: Mismatch) -> bool:
    """A key is NaN, and elements of the first input that are NaN alone, where they are known, have other results."""
    keys, value = site.attribute("keys_tensor", site.attribute("keys_floats")), site.operand(0)
    found = np.array(() if keys is None else keys)
    if mismatch.where is None or found.dtype.kind != "f" or not np.any(np.isnan(found)):
        return False
    known = isinstance(value, np.ndarray) and value.shape == mismatch.where.shape
    return not known or bool(np.all(np.isnan(value[mismatch.where])))


def is_integer(site: Site, mismatch: Mismatch) -> bool:
    """The output holds integers."""
    return mismatch.where is not None and mismatch.got.dtype.kind in "iu"


def is_rare(site: Site, mismatch: Mismatch) -> bool:
    """One element in three differs at most."""
    return mismatch.where is not None and 3 * int(np.count_nonzero(mismatch.where)) <= mismatch.where.size


def is_unsigned(site: Site, mismatch: Mismatch) -> bool:
    """The output holds unsigned integers."""
    return mismatch.where is not None and mismatch.got.dtype.kind == "u"


def like_float32(site: Site, mismatch: Mismatch) -> bool:
    """float64 that is as near as float32 would be."""
    if mismatch.where is None or from_numpy(mismatch.got.dtype) not in ("float64", "complex128"):
        return False
    return bool(np.all(close(mismatch.got, mismatch.expected, tolerance("float32"))))


def nearly_float32(site: Site, mismatch: Mismatch) -> bool:
    """float64 that differs by as much as float32 would, cancellation included."""
    return site.dtype(0) == "float64" and nearly(1e-5)(site, mismatch)


def nearly(relative: float) -> Applies:
    """Floats that are not far off: by this share of the element or of the greatest magnitude."""

    def near(site: Site, mismatch: Mismatch) -> bool:
        return mismatch.where is not None and bool(
            np.all(close(mismatch.got, mismatch.expected, Tolerance(relative, relative)))
        )

    return near


def below(most: float) -> Applies:
    """Floats that are this far off at most."""

    def near(site: Site, mismatch: Mismatch) -> bool:
        if mismatch.where is None or mismatch.got.dtype.kind not in "fV":
            return False
        got, expected = mismatch.got.astype(np.float64), mismatch.expected.astype(np.float64)
        return bool(np.all(np.abs(got - expected)[mismatch.where] <= most))

    return near


def within(steps: int) -> Applies:
    """Integers that are a few steps off."""

    def near(site: Site, mismatch: Mismatch) -> bool:
        if mismatch.where is None or mismatch.got.dtype.kind not in "iu":
            return False
        return bool(np.max(np.abs(mismatch.got.astype(np.int64) - mismatch.expected.astype(np.int64))) <= steps)

    return near


def both(*conditions: Applies) -> Applies:
    return lambda site, mismatch: all(one(site, mismatch) for one in conditions)


def either(*conditions: Applies) -> Applies:
    return lambda site, mismatch: any(one(site, mismatch) for one in conditions)


def exceeds_int64(site: Site, mismatch: Mismatch) -> bool:
    """The first input has numbers that int64 does not hold, or NaN."""
    value = site.operand(0)
    if not isinstance(value, np.ndarray) or value.dtype == object or "float" not in from_numpy(value.dtype):
        return False
    return not bool(np.all(np.abs(value.astype(np.float64)) < 2.0**63))


def exceeds(digits: int) -> Applies:
    """All integers of the first input that differ have more binary digits than that."""

    def large(site: Site, mismatch: Mismatch) -> bool:
        value = site.operand(0)
        if mismatch.where is None or not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            return False
        if value.shape != mismatch.where.shape:  # the operand of a node in a body
            return False
        return bool(np.all(np.abs(value[mismatch.where].astype(np.float64)) > 2**digits))

    return large


def special(site: Site, mismatch: Mismatch) -> bool:
    """An operand is NaN, infinite or huge."""
    for index in range(len(site.node.input)):
        value = site.operand(index)
        if isinstance(value, np.ndarray) and value.dtype != object and "float" in from_numpy(value.dtype):
            with np.errstate(all="ignore"):
                if not np.all(np.abs(value.astype(np.float64)) < 1e29):
                    return True
    return False
