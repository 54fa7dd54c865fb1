"""External data that a caller has in memory: arrays by the names of initialisers, or whole files by their names."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import Fail
from ort_lite.load.spans import Backing
from ort_lite.record import Record, field


class Supplied(Record):
    """`arrays` stand for initialisers whose data is external; `files` for files, by the location that the model gives.

    Where there are files, no other ones are read.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    def array(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Array | None:
        """Return the array supplied for the initialiser `name`, or None. Raises Fail if it has another type or shape."""
        given = self.arrays.get(name)
        if given is None:
            return None
        array: Array = given.numpy() if hasattr(given, "numpy") else np.asarray(given)
        if (from_numpy(array.dtype), array.shape) != (dtype, shape):
            came, expected = f"{array.dtype}{list(array.shape)}", f"{dtype}{list(shape)}"
            raise Fail(f"add_external_initializers: {name!r} is {came}; the model's is {expected}").about(
                expected=expected, got=came
            )
        return array

    def check_used(self, external: set[str]) -> None:
        """`external`: the initialisers whose data is. Raises Fail for arrays that stand for none of them."""
        if unknown := [name for name in self.arrays if name not in external]:
            has = ", ".join(map(repr, sorted(external))) or "none"
            raise Fail(
                f"add_external_initializers: the model has no initialiser {unknown[0]!r} with external data; it has {has}"
            )

    def backing(self, location: str, who: str) -> Backing | None:
        """The file in memory; None where there are no such files at all. Raises Fail where others are there."""
        if not self.files:
            return None
        if location not in self.files:
            raise Fail(
                f"{who}: external data file {location!r} is not among those in memory: {', '.join(map(repr, self.files))} "
                f"(add_external_initializers_from_files_in_memory)"
            )
        return Backing(self.files[location], location)
