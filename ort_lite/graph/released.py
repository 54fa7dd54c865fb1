"""The stand-in for a dropped constant: its type and shape without its elements."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import RuntimeException
from ort_lite.graph.graph import Value
from ort_lite.options.config_keys import KEEP_CONSTANTS


class DroppedConstant:
    """Stands for a constant that compiled partitions hold in a form of their own. It is no array: whoever asks it for elements, by
    whatever way NumPy knows, gets those of `restore`, anew each time, or a RuntimeException that names the constant.
    """

    __slots__ = ("dtype", "name", "restore", "shape")

    def __init__(
        self, name: str, dtype: "np.dtype[Any]", shape: tuple[int, ...], restore: Callable[[], Array] | None = None
    ) -> None:
        self.name, self.dtype, self.shape, self.restore = name, dtype, shape, restore

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements that it had."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that it had."""
        return self.size * self.dtype.itemsize

    def array(self, why: str) -> Array:
        """The elements, read-only. Raises RuntimeException where nobody has them."""
        if self.restore is None:
            raise self.error(why)
        made = self.restore()
        made.setflags(write=False)
        return made

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        return self.array("its elements").__array__(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.array(name), name)

    def __getitem__(self, index: Any) -> Any:
        return self.array("an element")[index]

    def __len__(self) -> int:
        return len(self.array("its length"))

    def __repr__(self) -> str:
        return f"DroppedConstant({self.name!r}, {self.dtype}{list(self.shape)})"

    def error(self, what: str) -> RuntimeException:
        """Return the error for a use that needs the elements."""
        return RuntimeException(
            f"constant {self.name!r} was given up when the session was made, and now {what} needs it; the config entry "
            f"{KEEP_CONSTANTS} = '1' keeps constants"
        )


def drop_constant(value: Value, restore: Callable[[], Array] | None = None) -> Any:
    """Return the stand-in for `value.constant`; `restore` rebuilds its array."""
    assert value.constant is not None
    return DroppedConstant(value.name, value.constant.dtype, value.constant.shape, restore)


def check_there(value: Value, why: str) -> None:
    """A constant that was given up is there again. Raises RuntimeException where nobody can restore it."""
    given_up: Any = value.constant
    if type(given_up) is DroppedConstant:
        value.constant = given_up.array(why)
