"""What stands for a constant that was given up: its type and shape without its elements."""

from typing import Any

import numpy as np

from ort_lite.errors import RuntimeException
from ort_lite.graph.graph import Value
from ort_lite.options.config_keys import KEEP_CONSTANTS


class Released:
    """Stands for a constant that compiled partitions hold in a form of their own. It is no array: whoever asks it for elements, by
    whatever way NumPy knows, gets a RuntimeException that names the constant.
    """

    __slots__ = ("_name", "dtype", "shape")

    def __init__(self, name: str, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> None:
        self._name, self.dtype, self.shape = name, dtype, shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements that it had."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that it had."""
        return self.size * self.dtype.itemsize

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise self.error("its elements")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error(name)

    def __getitem__(self, index: Any) -> Any:
        raise self.error("an element")

    def __len__(self) -> int:
        raise self.error("its length")

    def __repr__(self) -> str:
        return f"Released({self._name!r}, {self.dtype}{list(self.shape)})"

    def error(self, what: str) -> RuntimeException:
        return RuntimeException(
            f"constant {self._name!r} was given up when the session was made, and now {what} needs it; the config entry "
            f"{KEEP_CONSTANTS} = '1' keeps constants"
        )


def released(value: Value) -> Any:
    """What `value.constant` becomes."""
    assert value.constant is not None
    return Released(value.name, value.constant.dtype, value.constant.shape)


def check_there(value: Value, why: str) -> None:
    """Raises RuntimeException for a constant that was given up."""
    if isinstance(value.constant, Released):
        raise value.constant.error(why)
