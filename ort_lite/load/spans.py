"""The bytes of a tensor and their ownership: owned by the tensor, or borrowed from a buffer shared by many tensors.

An array created by `ByteSpan.array`, and every view of it, refers to its span (`span_of`) and keeps it alive. A model therefore
needs no table of its own: its tensors are arrays, and their spans say who owns the bytes.

No pointer can dangle. Where onnx-light's C++ lets a caller free bytes that a tensor still borrows, `bytearray.extend` and
`mmap.close` raise BufferError here, and `bytes` live as long as anything borrows them.
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

_BYTES_HEADER = bytes.__basicsize__ - 1  # size of a `bytes` object before its first byte, without the final NUL


class Backing:
    """A buffer that contains spans: a mapped file, a consolidated buffer, or an argument of the caller.

    As the `owner` of spans, it is the shared token: the buffer is released with the last span that refers to it.
    """

    __slots__ = ("__weakref__", "_kept", "address", "name", "nbytes")

    def __init__(self, buffer: Any, name: str = "") -> None:
        """Hold `buffer`, which supports the buffer protocol and cannot be closed or resized meanwhile. O(1)."""
        self._kept = kept = np.frombuffer(buffer, np.uint8)
        self.address, self.nbytes, self.name = _address(kept), kept.size, name

    def span(self, offset: int, nbytes: int) -> "ByteSpan":
        """Return a borrowed span that this buffer owns."""
        return ByteSpan(self.address + offset, nbytes, self, self, "borrowed")

    def lend(self, offset: int, nbytes: int) -> "ByteSpan":
        """Return a borrowed span without an owner. The buffer belongs to the caller, who must not change it."""
        return ByteSpan(self.address + offset, nbytes, self, None, "borrowed")

    def __repr__(self) -> str:
        return f"Backing({self.name or 'buffer'}, {self.nbytes:,} bytes)"


class ByteSpan:
    """Read-only bytes that stay in place while the span, a copy of it, or an array over it is alive.

    `mode` "owned" means that nothing else uses them. "borrowed" means that they are part of a Backing; the `owner` shares it, and
    without one the bytes belong to the caller. `copy.copy` keeps mode and owner; `copy.deepcopy` and `pickle` create an owned span.
    `read_again` reads the bytes of a large span from its file once more.
    """

    __slots__ = ("__weakref__", "_kept", "address", "mode", "nbytes", "owner", "read_again")

    def __init__(self, address: int, nbytes: int, kept: Any, owner: Backing | None, mode: Mode) -> None:
        """`kept` keeps the bytes at `address` alive. Prefer `of_bytes`, `of_buffer` and `Backing.span`."""
        self.address, self.nbytes, self._kept = address, nbytes, kept
        self.owner, self.mode = owner, mode
        self.read_again: Callable[[], ByteSpan] | None = None

    @staticmethod
    def of_bytes(data: Any) -> "ByteSpan":
        """Return an owned span with a copy of a contiguous buffer. Immutable `bytes` are not copied."""
        if type(data) is not bytes:
            return ByteSpan.of_array(np.frombuffer(data, np.uint8).copy())  # NumPy allocates huge pages
        return ByteSpan(_address_of_bytes(data), len(data), data, None, "owned")

    owned = of_bytes
    """The name in pickles of earlier releases."""

    @staticmethod
    def of_array(array: Array) -> "ByteSpan":
        """Return an owned span of the memory of a new C-contiguous array that nothing else uses."""
        data = array.reshape(-1).view(np.uint8)
        return ByteSpan(_address(data), data.size, data, None, "owned")

    @staticmethod
    def of_buffer(buffer: Any, offset: int = 0, nbytes: int | None = None) -> "ByteSpan":
        """Return a span of the caller's buffer, without an owner. Raises InvalidArgument if the buffer is too short."""
        backing = Backing(buffer)
        nbytes = backing.nbytes - offset if nbytes is None else nbytes
        if offset < 0 or nbytes < 0 or offset + nbytes > backing.nbytes:
            raise InvalidArgument(f"bytes {offset} to {offset + nbytes} of a buffer that has {backing.nbytes}")
        return backing.lend(offset, nbytes)

    def array(self, dtype: DType = "uint8", shape: tuple[int, ...] | None = None) -> Array:
        """Return a read-only array over the bytes, which must suffice. Copies nothing; the array keeps the span alive."""
        typestr, target = _typestr(dtype)
        shape = (self.nbytes,) if shape is None else shape
        described = {"version": 3, "shape": shape, "typestr": typestr, "data": (self.address, True)}
        made: Array = np.asarray(_SpanExport(described, self))
        return made if target is None else made.view(target)

    def attach_deleter(self, deleter: Callable[[], object]) -> None:
        """Call `deleter` exactly once, when the owner token is released. A span without one gets its own.

        Copies made earlier do not share that token.
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
        return ByteSpan.of_bytes(bytes(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteSpan.of_bytes, (bytes(self),)

    def __repr__(self) -> str:
        return f"ByteSpan({self.nbytes:,} bytes, {self.mode}{'' if self.owner is None else f' from {self.owner!r}'})"


class _SpanExport:
    """The object that NumPy creates an array from. It becomes the array's base and refers to the span."""

    __slots__ = ("__array_interface__", "span")

    def __init__(self, interface: dict[str, Any], span: ByteSpan) -> None:
        self.__array_interface__, self.span = interface, span


def span_of(array: Array) -> ByteSpan | None:
    """Return the span of an array or of the array that it is a view of.

    None for arrays without raw bytes: read from typed fields (`float_data`), strings, or computed. O(depth of views).
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.span if type(base) is _SpanExport else None


def copy_to_span(array: Array) -> Array:
    """Return a read-only copy in an owned span; for strings, which have no span, a plain copy."""
    return move_to_span(np.array(array, order="C"))


def move_to_span(array: Array) -> Array:
    """Move a new array, which nothing else refers to, into a read-only span. Strings have no span and only become read-only."""
    dtype = from_numpy(array.dtype)
    if dtype != "string":
        return ByteSpan.of_array(np.ascontiguousarray(array)).array(dtype, array.shape)
    array.setflags(write=False)
    return array


@cache
def _typestr(dtype: DType) -> tuple[str, np.dtype[Any] | None]:
    """Return NumPy's code for a little-endian type, and None.

    For a type that NumPy lacks, return the code of an integer of its size, and the dtype to view it as.
    """
    found = to_numpy(dtype)
    if found.isbuiltin == 1:
        return found.newbyteorder("<").str, None
    return f"<u{found.itemsize}", found


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _address_of_bytes(data: bytes) -> int:
    """Return the address of the first byte. NumPy takes a microsecond for it, which adds up over a thousand tensors."""
    return id(data) + _BYTES_HEADER if _is_plain() else _address(np.frombuffer(data, np.uint8))


@cache
def _is_plain() -> bool:
    """Return True if `bytes` have CPython's memory layout, checked against NumPy for a probe."""
    probe = b"probe"
    return sys.implementation.name == "cpython" and id(probe) + _BYTES_HEADER == _address(np.frombuffer(probe, np.uint8))
