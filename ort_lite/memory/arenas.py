"""The memory behind a plan: growing scratch arenas, persistent bytes that start as zeros, constants that are filled once."""

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory import locks

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CACHE_LINE, PAGE, HUGE_PAGE = 64, 4096, 1 << 21
_MADV_HUGEPAGE = 14
_CHUNK = 1 << 20
_UINT8 = np.dtype(np.uint8)


class MemorySource(Protocol):
    """A source of memory for arenas: an allocator whose handles support the buffer protocol."""

    def allocate(self, nbytes: int) -> Any:
        """Allocate `nbytes` bytes and return the handle."""

    def free(self, handle: Any) -> None:
        """Free what `allocate` returned."""


class Growth(StrEnum):
    """The growth of an arena: by half, to a power of two, or exactly as requested.

    The last two are onnxruntime's strategies, by its names.
    """

    half = "half"
    next_power_of_two = "kNextPowerOfTwo"
    same_as_requested = "kSameAsRequested"

    @classmethod
    def parse(cls, name: object) -> "Growth":
        """Return a Growth by its name or by onnxruntime's number: 0 or -1 for kNextPowerOfTwo, 1 for kSameAsRequested.

        Raises InvalidArgument for anything else.
        """
        found = {"-1": "kNextPowerOfTwo", "0": "kNextPowerOfTwo", "1": "kSameAsRequested"}.get(str(name), str(name))
        if found not in list(cls):
            raise InvalidArgument(f"arena_extend_strategy {name!r}: expected one of {', '.join(cls)}")
        return cls(found)

    def next(self, held: int, asked: int, enough: int | None = None) -> int:
        """Return how many bytes to allocate if `asked` are needed and `held` are too few.

        `half` allocates at most `enough` bytes in advance.
        """
        if self is Growth.half:
            ahead = held + held // 2
            return max(asked, ahead if enough is None else min(ahead, enough))
        return asked if self is Growth.same_as_requested else 1 << (asked - 1).bit_length()


def allocate_bytes(nbytes: int, alignment: int = CACHE_LINE, zeroed: bool = False) -> Bytes:
    """Return uninitialized or zeroed bytes, shape (nbytes,), starting at a multiple of `alignment`. Raises OutOfMemory.

    The operating system commits pages on first use.
    """
    try:
        raw = (np.zeros if zeroed else np.empty)(nbytes + alignment - 1, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise OutOfMemory(f"{nbytes:,} bytes asked of the system, which refused: {error}") from error
    return _align(raw, nbytes, alignment)


class Sole(np.ndarray[Any, Any]):
    """The memory of a single array, which owns it."""

    __slots__ = ()


def allocate_array(shape: Sequence[int], dtype: np.dtype[Any], nbytes: int | None = None) -> Array:
    """Return an uninitialized array, like np.empty but aligned to a cache line. `nbytes` is its size, if the caller knows it.

    An unaligned vector of a cache line's length touches two lines. Takes half a microsecond longer than np.empty and raises the same
    errors.
    """
    if nbytes is None:
        nbytes = math.prod(shape) * dtype.itemsize
    raw = Sole(nbytes + CACHE_LINE - 1, _UINT8)
    return np.ndarray(shape, dtype, raw, -address_of(raw) % CACHE_LINE)


def allocate_in_huge_pages(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array like `allocate_array`, in huge pages as far as it fills them, if the system has them.

    Filling an array of 2.5 MB for the first time takes a third of the time. NumPy asks for huge pages from 4 MB on.
    """
    nbytes, advise = math.prod(shape) * dtype.itemsize, _advise()
    if nbytes < HUGE_PAGE or advise is None:
        return allocate_array(shape, dtype)
    raw = Sole(nbytes + HUGE_PAGE - 1, np.uint8)
    address = address_of(raw)
    skip = -address % HUGE_PAGE
    advise(address + skip, nbytes // HUGE_PAGE * HUGE_PAGE, _MADV_HUGEPAGE)
    return np.ndarray(shape, dtype, raw, skip)


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return Linux's `madvise`, whose failure changes nothing."""
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def owns_bytes(array: Array) -> bool:
    """Return True if no other array reads its bytes, except its own views."""
    return array.flags.owndata or type(array.base) is Sole


def equal(a: Array, b: Array) -> bool:
    """Return True if two arrays hold the same bytes. Compares in pieces, because NumPy creates a mask as large as its operands."""
    return all(np.array_equal(a[at : at + _CHUNK], b[at : at + _CHUNK]) for at in range(0, len(a), _CHUNK))


def _align(raw: Bytes, nbytes: int, alignment: int) -> Bytes:
    skip = -address_of(raw) % alignment
    return raw[skip : skip + nbytes]


def address_of(array: Array) -> int:
    """Return the address of the first byte, also for an empty array.

    A PyArrayObject begins with the object header and then its data pointer; NumPy's C API promises that. NumPy's own answer takes a
    microsecond longer. It is used where that does not hold, in another implementation of Python.
    """
    address: int = (read_pointer(id(array) + OBJECT_HEADER).value or 0) if PLAIN else array.__array_interface__["data"][0]
    return address


OBJECT_HEADER = object.__basicsize__
read_pointer: Callable[[int], Any] = ctypes.c_void_p.from_address


def _is_plain() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probe = np.arange(3)[1:]
    return bool(read_pointer(id(probe) + OBJECT_HEADER).value == probe.__array_interface__["data"][0])


PLAIN = _is_plain()
"""True if an array's data pointer follows its object header, as NumPy confirms once for a probe."""


class Arena:
    """A buffer that grows, and shrinks only by `trim`. Growing allocates fresh memory and discards the contents.

    The first touch of memory costs more than most kernels, so growth is geometric by default: a sequence that gets one longer with
    each run reallocates a logarithmic number of times. For one thread at a time; a `ScratchPool` gives each run its own.
    """

    __slots__ = ("_growth", "_handle", "_source", "address", "alignment", "buffer", "leased", "leases", "nbytes")

    def __init__(
        self, nbytes: int = 0, alignment: int = CACHE_LINE, growth: Growth = Growth.half, source: MemorySource | None = None
    ) -> None:
        """`source` None means system memory."""
        self.alignment, self._growth, self._source = alignment, growth, source
        self.nbytes, self.leases, self.leased = 0, 0, False
        self._handle: Any = None
        self.trim()
        self.reserve(nbytes)

    def reserve(self, nbytes: int, limit: int | None = None, enough: int | None = None) -> int:
        """Return the address of at least `nbytes` bytes, valid until a call requests more than there are.

        Allocates at most `limit` bytes, even if the growth strategy would take more; `Growth.next` explains `enough`. Raises
        OutOfMemory and then keeps the buffer.
        """
        if nbytes > self.nbytes:
            wanted = self._growth.next(self.nbytes, nbytes, enough)
            if limit is not None and wanted > limit:
                wanted = nbytes
            if limit is not None and nbytes > limit:
                raise OutOfMemory(f"arena of {self.nbytes:,} bytes: {nbytes:,} asked for, at most {limit:,} are allowed")
            self._grow(wanted, nbytes)
        return self.address

    def trim(self) -> None:
        """Free the memory; the next `reserve` allocates again."""
        self._replace(allocate_bytes(0, self.alignment), None)

    def view(self, offset: int, nbytes: int) -> Bytes:
        """Return a view of the buffer, shape (nbytes,). Raises InvalidArgument if it is out of bounds."""
        if not 0 <= offset <= offset + nbytes <= self.nbytes:
            raise InvalidArgument(f"bytes [{offset}, {offset + nbytes}) of an arena that has [0, {self.nbytes})")
        return self.buffer[offset : offset + nbytes]

    def _grow(self, wanted: int, needed: int) -> None:
        try:
            taken = self._take(wanted)
        except OutOfMemory:
            if wanted == needed:
                raise
            taken = self._take(needed)
        self._replace(*taken)

    def _take(self, nbytes: int) -> tuple[Bytes, Any]:
        """Allocate a buffer, and return it with the handle to free it by."""
        if self._source is None:
            return allocate_bytes(nbytes, self.alignment), None
        handle = self._source.allocate(nbytes + self.alignment - 1)
        raw = np.frombuffer(handle, np.uint8)
        if len(raw) < nbytes + self.alignment - 1:
            raise OutOfMemory(f"{self._source!r} gave {len(raw):,} bytes for {nbytes + self.alignment - 1:,}")
        return _align(raw, nbytes, self.alignment), handle

    def _replace(self, buffer: Bytes, handle: Any) -> None:
        before, self._handle = self._handle, handle
        self.buffer, self.nbytes, self.address = buffer, len(buffer), address_of(buffer)
        if before is not None and self._source is not None:
            self._source.free(before)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and self._source is not None:
            self._source.free(handle)


class PersistentArena:
    """Writable bytes, shape (nbytes,), that keep their contents between runs. They are zero at first and after `clear`."""

    def __init__(self, nbytes: int, alignment: int = CACHE_LINE) -> None:
        self.buffer = allocate_bytes(nbytes, alignment, zeroed=True)
        self.nbytes, self.address = nbytes, address_of(self.buffer)

    def clear(self) -> None:
        """Set every byte to zero."""
        self.buffer[:] = 0


class ConstantArena:
    """Read-only bytes. Cold ones are read where they are stored; staged ones are copied by `hydrate` on first use.

    `hydrate` gets writable bytes and fills them, while other threads wait. If it raises, the next use of `buffer` tries again.
    """

    def __init__(self, nbytes: int, hydrate: Callable[[Bytes], None], alignment: int = CACHE_LINE) -> None:
        self.nbytes = nbytes
        self._hydrate, self._alignment = hydrate, alignment
        self._hydrating = locks.lock()
        self._buffer: Bytes | None = None

    @classmethod
    def cold(cls, stored: Bytes) -> "ConstantArena":
        """Return an arena over bytes that are already stored, for example in a mapped file. Copies nothing."""
        arena = cls(len(stored), lambda _: None)
        arena._buffer = _read_only(stored)
        return arena

    @property
    def buffer(self) -> Bytes:
        """The bytes, shape (nbytes,), read-only. Raises OutOfMemory and the errors of `hydrate`."""
        if self._buffer is None:
            with self._hydrating:
                if self._buffer is None:
                    filled = allocate_bytes(self.nbytes, self._alignment)
                    self._hydrate(filled)
                    self._buffer = _read_only(filled)
        return self._buffer

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return address_of(self.buffer)


def _read_only(data: Bytes) -> Bytes:
    view = data.view()
    view.flags.writeable = False
    return view
