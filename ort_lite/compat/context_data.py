"""Hooks that pass compiled contexts to a program, or take them from it, instead of files."""

from collections.abc import Callable

from ort_lite.errors import InvalidArgument


class OrtEpContextData:
    """A context that a program is to put somewhere."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._data)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """A copy of `length` bytes from `offset` on, to the end for None. Raises InvalidArgument for more than there are."""
        end = len(self._data) if length is None else offset + length
        if not 0 <= offset <= end <= len(self._data):
            raise InvalidArgument(f"bytes {offset} to {end} of a context that has {len(self._data)}")
        return self._data[offset:end]


class OrtEpContextDataBuffer:
    """The buffer for a context that a program asked for: `allocate` once, and then `write`."""

    def __init__(self, max_size: int) -> None:
        self._most, self._data = max_size, bytearray()
        self._allocated = False

    @property
    def size(self) -> int:
        """Bytes that were allocated."""
        return len(self._data)

    @property
    def max_size(self) -> int:
        """Bytes that may be allocated."""
        return self._most

    @property
    def is_allocated(self) -> bool:
        return self._allocated

    def allocate(self, size: int) -> None:
        """Raises InvalidArgument the second time, and for more than `max_size` bytes."""
        if self._allocated:
            raise InvalidArgument("the buffer of a context is allocated already")
        if not 0 <= size <= self._most:
            raise InvalidArgument(f"a context of {size} bytes; expected 0 to {self._most}, what max_data_size allows")
        self._data, self._allocated = bytearray(size), True

    def write(self, data: bytes, offset: int = 0) -> None:
        """Raises InvalidArgument for bytes outside of what was allocated."""
        given = memoryview(data).cast("B")
        if not 0 <= offset <= offset + len(given) <= len(self._data):
            raise InvalidArgument(f"bytes {offset} to {offset + len(given)} of a buffer that has {len(self._data)}")
        self._data[offset : offset + len(given)] = given

    def taken(self) -> bytes:
        """Return the bytes written so far."""
        return bytes(self._data)


ReadContext = Callable[[str, OrtEpContextDataBuffer], None]
WriteContext = Callable[[str, OrtEpContextData], None]
