"""The bytes of one tensor and who keeps them: owned by the tensor, or borrowed from a buffer that many tensors lie in.

An array that was made by `ByteSpan.array`, and every view of it, leads back to its span (`span_of`) and keeps it alive. So a
model needs no table of its own: its tensors are arrays, and their spans say to whom the bytes belong.

Python cannot be made to dangle. Where onnx-light's C++ lets the caller free bytes that a tensor still borrows, the caller here
gets a BufferError from `bytearray.extend` or `mmap.close`; `bytes` stay as long as anything borrows them.
"""

import ctypes
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy, to_numpy
from ort_lite.errors import InvalidArgument

Mode = Literal["owned", "borrowed"]

_BYTES_HEADER = bytes.__basicsize__ - 1  # of a `bytes` object, before its first byte; the last one counted is the final NUL


class Backing:
    """A buffer that spans lie in: a mapped file, a consolidated buffer, what a caller passed in.

    As a span's `owner` it is the shared token: the buffer is let go when the last span that has it, or a copy of one, is gone.
    """

    __slots__ = ("__weakref__", "_kept", "address", "name", "nbytes")

    def __init__(self, buffer: Any, name: str = "") -> None:
        """`buffer` has the buffer protocol; it is held, and cannot be closed or resized meanwhile. O(1)."""
        self._kept = kept = np.frombuffer(buffer, np.uint8)
        self.address, self.nbytes, self.name = _address(kept), kept.size, name

    def span(self, offset: int, nbytes: int) -> "ByteSpan":
        """Borrowed, with this as its owner."""
        return ByteSpan(self.address + offset, nbytes, self, self, "borrowed")

    def lend(self, offset: int, nbytes: int) -> "ByteSpan":
        """Borrowed, without an owner: the buffer is the caller's, who must not change what is in it."""
        return ByteSpan(self.address + offset, nbytes, self, None, "borrowed")

    def __repr__(self) -> str:
        return f"Backing({self.name or 'buffer'}, {self.nbytes:,} bytes)"


class ByteSpan:
    """Bytes that do not move or go while the span, a copy of it, or an array over it lives. Read-only.

    `mode` "owned": nobody else has them. "borrowed": they lie in a Backing; with an `owner` that is shared, without one the
    bytes are the caller's. `copy.copy` keeps mode and owner, `copy.deepcopy` and `pickle` give an owned span.
    """

    __slots__ = ("__weakref__", "_kept", "address", "mode", "nbytes", "owner")

    def __init__(self, address: int, nbytes: int, kept: Any, owner: Backing | None, mode: Mode) -> None:
        """`kept` is the object that has the bytes at `address`; use `owned`, `borrowed` and `Backing.span`."""
        self.address, self.nbytes, self._kept = address, nbytes, kept
        self.owner, self.mode = owner, mode

    @staticmethod
    def owned(data: Any) -> "ByteSpan":
        """A copy of a contiguous buffer; of `bytes`, which cannot change, the object itself."""
        if type(data) is not bytes:
            return ByteSpan.of_array(np.frombuffer(data, np.uint8).copy())  # NumPy's memory comes in huge pages
        return ByteSpan(_address_of_bytes(data), len(data), data, None, "owned")

    @staticmethod
    def of_array(array: Array) -> "ByteSpan":
        """Owned: the memory of a C-contiguous array that was just made and that nobody else has."""
        data = array.reshape(-1).view(np.uint8)
        return ByteSpan(_address(data), data.size, data, None, "owned")

    @staticmethod
    def borrowed(buffer: Any, offset: int = 0, nbytes: int | None = None) -> "ByteSpan":
        """Bytes of the caller's buffer, without an owner token. Raises InvalidArgument where it has fewer."""
        backing = Backing(buffer)
        nbytes = backing.nbytes - offset if nbytes is None else nbytes
        if offset < 0 or nbytes < 0 or offset + nbytes > backing.nbytes:
            raise InvalidArgument(f"bytes {offset} to {offset + nbytes} of a buffer that has {backing.nbytes}")
        return backing.lend(offset, nbytes)

    def array(self, dtype: DType = "uint8", shape: tuple[int, ...] | None = None) -> Array:
        """A read-only array over the bytes, which the caller knows to suffice. No copy; the array keeps the span alive."""
        typestr, target = _typestr(dtype)
        shape = (self.nbytes,) if shape is None else shape
        described = {"version": 3, "shape": shape, "typestr": typestr, "data": (self.address, True)}
        made: Array = np.asarray(_Exported(described, self))
        return made if target is None else made.view(target)

    def attach_deleter(self, deleter: Callable[[], object]) -> None:
        """Calls `deleter` exactly once, when the owner token goes; a span that has none gets one of its own.

        Copies that were made before do not share that one.
        """
        if self.owner is None:
            kept = self._kept
            self._kept = self.owner = Backing(kept._kept if isinstance(kept, Backing) else kept, self.mode)
        weakref.finalize(self.owner, deleter)

    def __len__(self) -> int:
        return self.nbytes

    def __bytes__(self) -> bytes:
        return ctypes.string_at(self.address, self.nbytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array(), dtype, copy=copy)

    def __copy__(self) -> "ByteSpan":
        return ByteSpan(self.address, self.nbytes, self._kept, self.owner, self.mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ByteSpan":
        return ByteSpan.owned(bytes(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteSpan.owned, (bytes(self),)

    def __repr__(self) -> str:
        return f"ByteSpan({self.nbytes:,} bytes, {self.mode}{'' if self.owner is None else f' from {self.owner!r}'})"


class _Exported:
    """The object that NumPy makes an array from; it becomes the array's base, and leads from it to the span."""

    __slots__ = ("__array_interface__", "span")

    def __init__(self, interface: dict[str, Any], span: ByteSpan) -> None:
        self.__array_interface__, self.span = interface, span


def span_of(array: Array) -> ByteSpan | None:
    """The span that an array, or the one it is a view of, lies in.

    None for arrays without raw bytes: made of typed fields (`float_data`), strings, or computed. O(views of views).
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.span if type(base) is _Exported else None


def owned_array(array: Array) -> Array:
    """A read-only copy in an owned span; of strings, which have none, a copy."""
    dtype = from_numpy(array.dtype)
    if dtype != "string":
        return ByteSpan.of_array(np.array(array, order="C")).array(dtype, array.shape)
    copy = array.copy()
    copy.setflags(write=False)
    return copy


@cache
def _typestr(dtype: DType) -> tuple[str, np.dtype[Any] | None]:
    """NumPy's spelling for little-endian bytes; for the types it lacks that of their bits, and what to view them as."""
    found = to_numpy(dtype)
    if found.isbuiltin == 1:
        return found.newbyteorder("<").str, None
    return f"<u{found.itemsize}", found


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _address_of_bytes(data: bytes) -> int:
    """NumPy needs a microsecond to say it, which counts when a model has a thousand tensors."""
    return id(data) + _BYTES_HEADER if _is_plain() else _address(np.frombuffer(data, np.uint8))


@cache
def _is_plain() -> bool:
    """Return True if `bytes` lie in memory as CPython has them, checked against NumPy's answer for a probe."""
    probe = b"probe"
    return sys.implementation.name == "cpython" and id(probe) + _BYTES_HEADER == _address(np.frombuffer(probe, np.uint8))
