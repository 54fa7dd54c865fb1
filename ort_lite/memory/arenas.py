"""The bytes behind a plan: arenas that grow for scratch, persistent bytes that start as zeros, constants filled once."""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory import locks

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CACHE_LINE, PAGE = 64, 4096
_CHUNK = 1 << 20


class MemorySource(Protocol):
    """The source of memory for arenas: an allocator whose handles have the buffer protocol."""

    def allocate(self, nbytes: int) -> Any:
        """Return a handle of so many bytes."""

    def free(self, handle: Any) -> None:
        """Free what `allocate` returned."""


class Growth(StrEnum):
    """The growth of an arena: half as much again, a power of two, or exactly what was requested.

    The last two are onnxruntime's strategies, by its names.
    """

    half = "half"
    next_power_of_two = "kNextPowerOfTwo"
    same_as_requested = "kSameAsRequested"

    @classmethod
    def named(cls, name: object) -> "Growth":
        """Return a Growth by its name or onnxruntime's number: 0 (-1) the power of two, 1 as requested. Raises InvalidArgument."""
        found = {"-1": "kNextPowerOfTwo", "0": "kNextPowerOfTwo", "1": "kSameAsRequested"}.get(str(name), str(name))
        if found not in list(cls):
            raise InvalidArgument(f"arena_extend_strategy {name!r}: expected one of {', '.join(cls)}")
        return cls(found)

    def next(self, held: int, asked: int, enough: int | None = None) -> int:
        """Bytes to take for `asked` ones where `held` are too few; `half` takes no more than `enough` in advance."""
        if self is Growth.half:
            ahead = held + held // 2
            return max(asked, ahead if enough is None else min(ahead, enough))
        return asked if self is Growth.same_as_requested else 1 << (asked - 1).bit_length()


def aligned_bytes(nbytes: int, alignment: int = CACHE_LINE, zeroed: bool = False) -> Bytes:
    """(nbytes,), the first byte at a multiple of `alignment`. Pages are touched when used. Raises OutOfMemory."""
    try:
        raw = (np.zeros if zeroed else np.empty)(nbytes + alignment - 1, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise OutOfMemory(f"{nbytes:,} bytes asked of the system, which refused: {error}") from error
    return _aligned(raw, nbytes, alignment)


class Sole(np.ndarray[Any, Any]):
    """Bytes that a single array looks at, and owns through them."""


def allocate_aligned(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array as np.empty does, but aligned to a cache line.

    Vectors of a cache line's length that begin elsewhere touch two. A microsecond more than np.empty; raises what that raises.
    """
    raw = Sole(math.prod(shape) * dtype.itemsize + CACHE_LINE - 1, np.uint8)
    return np.ndarray(shape, dtype, raw, -address_of(raw) % CACHE_LINE)


def owns_bytes(array: Array) -> bool:
    """Return True if no other array reads its bytes, except its own views."""
    return array.flags.owndata or type(array.base) is Sole


def equal(a: Array, b: Array) -> bool:
    """Return True if two arrays hold the same bytes. Compares in pieces: NumPy makes a mask as large as what it compares."""
    return all(np.array_equal(a[at : at + _CHUNK], b[at : at + _CHUNK]) for at in range(0, len(a), _CHUNK))


def _aligned(raw: Bytes, nbytes: int, alignment: int) -> Bytes:
    skip = -address_of(raw) % alignment
    return raw[skip : skip + nbytes]


def address_of(array: Bytes) -> int:
    """Return the address of the first byte, also for an empty array."""
    address: int = array.__array_interface__["data"][0]
    return address


class Arena:
    """A buffer that grows and never shrinks, until `trim`. Growing takes fresh memory and forgets the contents.

    First touch costs more than most kernels, so growth is geometric by default: a sequence that gets longer by one with each
    run takes fresh memory a logarithmic number of times. One thread at a time; a `ScratchPool` gives each run its own.
    """

    __slots__ = ("_growth", "_handle", "_source", "address", "alignment", "buffer", "leased", "leases", "nbytes")

    def __init__(
        self, nbytes: int = 0, alignment: int = CACHE_LINE, growth: Growth = Growth.half, source: MemorySource | None = None
    ) -> None:
        """`source` None: the system's memory."""
        self.alignment, self._growth, self._source = alignment, growth, source
        self.nbytes, self.leases, self.leased = 0, 0, False
        self._handle: Any = None
        self.trim()
        self.reserve(nbytes)

    def reserve(self, nbytes: int, limit: int | None = None, enough: int | None = None) -> int:
        """The address of at least `nbytes` bytes, which stay until the next call that asks for more than there are.

        Keeps to `limit` bytes where its way of growing would exceed it; `enough`: see `Growth.next`. Raises OutOfMemory, and
        keeps what there is.
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
        """Gives the memory back to where it came from; the next `reserve` takes fresh one."""
        self._replace(aligned_bytes(0, self.alignment), None)

    def view(self, offset: int, nbytes: int) -> Bytes:
        """(nbytes,) of the buffer itself. Raises InvalidArgument where that is not inside."""
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
        """A buffer, and the handle to free with it."""
        if self._source is None:
            return aligned_bytes(nbytes, self.alignment), None
        handle = self._source.allocate(nbytes + self.alignment - 1)
        raw = np.frombuffer(handle, np.uint8)
        if len(raw) < nbytes + self.alignment - 1:
            raise OutOfMemory(f"{self._source!r} gave {len(raw):,} bytes for {nbytes + self.alignment - 1:,}")
        return _aligned(raw, nbytes, self.alignment), handle

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
    """(nbytes,) writable bytes that keep their contents from run to run, zero at first and after `clear`."""

    def __init__(self, nbytes: int, alignment: int = CACHE_LINE) -> None:
        self.buffer = aligned_bytes(nbytes, alignment, zeroed=True)
        self.nbytes, self.address = nbytes, address_of(self.buffer)

    def clear(self) -> None:
        """Set every byte to zero."""
        self.buffer[:] = 0


class ConstantArena:
    """Read-only bytes. Cold ones are read where they are; staged ones are copied by `hydrate`, once, when first needed.

    `hydrate` gets the writable bytes and fills them. Threads that come meanwhile wait; if it raises, the next call of
    `buffer` tries again.
    """

    def __init__(self, nbytes: int, hydrate: Callable[[Bytes], None], alignment: int = CACHE_LINE) -> None:
        self.nbytes = nbytes
        self._hydrate, self._alignment = hydrate, alignment
        self._hydrating = locks.lock()
        self._buffer: Bytes | None = None

    @classmethod
    def cold(cls, stored: Bytes) -> "ConstantArena":
        """Over bytes that are stored already, say in a mapped file: nothing is copied."""
        arena = cls(len(stored), lambda _: None)
        arena._buffer = _read_only(stored)
        return arena

    @property
    def buffer(self) -> Bytes:
        """(nbytes,), read-only. Raises OutOfMemory, and what `hydrate` raises."""
        if self._buffer is None:
            with self._hydrating:
                if self._buffer is None:
                    filled = aligned_bytes(self.nbytes, self._alignment)
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
