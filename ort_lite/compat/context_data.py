"""Hooks that exchange compiled contexts with a program instead of files."""

from collections.abc import Callable

from ort_lite.errors import InvalidArgument


class OrtEpContextData:
    """A compiled context for the program to store."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self._data)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Return a copy of `length` bytes from `offset` on (None: to the end). Raises InvalidArgument out of range."""
        end = len(self._data) if length is None else offset + length
        if not 0 <= offset <= end <= len(self._data):
            raise InvalidArgument(f"bytes {offset} to {end} of a context that has {len(self._data)}")
        return self._data[offset:end]


class OrtEpContextDataBuffer:
    """A buffer that the program fills with a requested context: call `allocate` once, then `write`."""

    def __init__(self, max_size: int) -> None:
        self._most, self._data = max_size, bytearray()
        self._allocated = False

    @property
    def size(self) -> int:
        """The number of allocated bytes."""
        return len(self._data)

    @property
    def max_size(self) -> int:
        """The maximum number of bytes."""
        return self._most

    @property
    def is_allocated(self) -> bool:
        """True after `allocate`."""
        return self._allocated

    def allocate(self, size: int) -> None:
        """Allocate the buffer. Raises InvalidArgument for a second call and for more than `max_size` bytes."""
        if self._allocated:
            raise InvalidArgument("the buffer of a context is allocated already")
        if not 0 <= size <= self._most:
            raise InvalidArgument(f"a context of {size} bytes; expected 0 to {self._most}, what max_data_size allows")
        self._data, self._allocated = bytearray(size), True

    def write(self, data: bytes, offset: int = 0) -> None:
        """Write bytes at an offset. Raises InvalidArgument outside the allocated range."""
        given = memoryview(data).cast("B")
        if not 0 <= offset <= offset + len(given) <= len(self._data):
            raise InvalidArgument(f"bytes {offset} to {offset + len(given)} of a buffer that has {len(self._data)}")
        self._data[offset : offset + len(given)] = given

    def contents(self) -> bytes:
        """Return the bytes written so far."""
        return bytes(self._data)


ReadContext = Callable[[str, OrtEpContextDataBuffer], None]
WriteContext = Callable[[str, OrtEpContextData], None]
