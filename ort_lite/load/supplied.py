"""External data that a caller has in memory: arrays by the names of initialisers, or whole files by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import Fail
from ort_lite.load.spans import Backing
from ort_lite.record import Record, field


class Supplied(Record):
    """External data in memory: `arrays` for initialisers, and `files` by the location in the model.

    If there are any files, none are read from disk.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    def array(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Array | None:
        """Return the array supplied for the initialiser `name`, or None. Raises Fail if its type or shape differs."""
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

    def check_names(self, external: set[str]) -> None:
        """Raise Fail for arrays that are not in `external`, the initialisers with external data."""
        if unknown := [name for name in self.arrays if name not in external]:
            has = ", ".join(map(repr, sorted(external))) or "none"
            raise Fail(
                f"add_external_initializers: the model has no initialiser {unknown[0]!r} with external data; it has {has}"
            )

    def backing(self, location: str, who: str) -> Backing | None:
        """Return a file in memory; None without any files. Raises Fail if only other files were supplied."""
        if not self.files:
            return None
        if location not in self.files:
            raise Fail(
                f"{who}: external data file {location!r} is not among those in memory: {', '.join(map(repr, self.files))} "
                f"(add_external_initializers_from_files_in_memory)"
            )
        return Backing(self.files[location], location)
