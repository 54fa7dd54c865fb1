"""The settings of `verify=`: how much results may differ."""

from collections.abc import Mapping

from ort_lite.dtypes import is_dtype
from ort_lite.errors import InvalidArgument
from ort_lite.record import Record, field
from ort_lite.tools.verify.compare import DEFAULTS, Tolerance

PARTITION = "partition"


class Verification(Record):
    """The tolerances: `rtol` and `atol` for all floating-point and complex tensors, and `tolerances` for single element types.

    The defaults are `ort_lite.tools.verify.compare.DEFAULTS`; integers, bools and text must be equal. With `bisect`, the first bad
    node of a partition that differs is searched for, which compiles parts of it.
    """

    rtol: float | None = None
    atol: float | None = None
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    bisect: bool = True

    def tolerance(self, dtype: str) -> Tolerance:
        """Return the tolerance for tensors of an element type."""
        if dtype in self.tolerances:
            return self.tolerances[dtype]
        if dtype not in DEFAULTS or (self.rtol is None and self.atol is None):
            return DEFAULTS.get(dtype, Tolerance())
        return Tolerance(self.rtol or 0.0, self.atol or 0.0)


def settings(verify: object, default: str = PARTITION) -> Verification:
    """Return the settings that a value of `verify=` stands for: a Verification, or the word for the default settings.

    Raises InvalidArgument for any other value.
    """
    if verify == default:
        return Verification()
    if not isinstance(verify, Verification):
        raise InvalidArgument(f"verify={verify!r}: expected {default!r} or an ort_lite.Verification")
    for name in verify.tolerances:
        if not is_dtype(name):
            raise InvalidArgument(f"Verification: no element type is called {name!r}")
    return verify
