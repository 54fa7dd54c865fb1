"""The binary format of parameter files: tensors and their framing.

Little-endian. u64 0xF7E58D4F05049CB7, u64 reserved; u64 count, for each name u64 length and UTF-8 bytes; u64 count, for each tensor
a record: u64 0xDD5E40F096B4A13F, u64 reserved, i32 device type, i32 device id, i32 ndim, u8 code, u8 bits, u16 lanes, i64 for each
dimension, i64 bytes, the bytes, compact. Nothing is padded, so tensors are not aligned in the file. Reserved fields and data after
the last record are ignored. Spec: cvm-runtime param_dict.cc, TVM file_utils.cc.
"""

import os
import struct
from typing import Any, BinaryIO

import numpy as np

from ort_lite.dtypes import Array, DType
from ort_lite.errors import InvalidArgument, InvalidParams
from ort_lite.load.files import read_file_for, write_file
from ort_lite.load.spans import Backing, ByteSpan
from ort_lite.record import Record
from ort_lite.tensors.dltensor import CPU, check_size, check_type, code_of, type_of

LIST_MAGIC, TENSOR_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
_MAX_NDIM = 64  # NumPy's limit; DLPack has none

ParamsSource = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO
Target = str | os.PathLike[str] | BinaryIO | None


class ParamRecord(Record, eq=False):
    """A tensor in a file. `span` covers the same bytes as `data` if the caller lets them be borrowed."""

    dtype: DType
    shape: tuple[int, ...]
    data: Array
    span: ByteSpan | None


def record_of(array: Array, dtype: DType, lanes: int = 1) -> bytes:
    """Return a tensor's record. Raises InvalidArgument for more than one lane, whose size the format gets wrong."""
    if lanes != 1:
        raise InvalidArgument(f"a tensor of {lanes} lanes cannot be saved: the file would count one")
    code, bits = code_of(dtype)
    header = struct.pack("<QQiiiBBH", TENSOR_MAGIC, 0, CPU, 0, array.ndim, code, bits, 1)
    return header + struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes) + array.tobytes()


def write_to(data: bytes, target: Target) -> bytes:
    """Write `data` to `target`, if any, and return it."""
    if isinstance(target, (str, os.PathLike)):
        write_file(target, data)
    elif target is not None:
        target.write(data)
    return data


def _contents(source: ParamsSource) -> Any:
    if isinstance(source, (str, os.PathLike)):
        return read_file_for(source, os.fspath(source))
    return source.read() if hasattr(source, "read") else source


class RecordReader:
    """Reads a file from front to back. Every error is an InvalidParams that names the position."""

    def __init__(self, source: ParamsSource, no_copy: bool) -> None:
        data = _contents(source)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidArgument(f"parameters came as {type(source).__name__}; expected bytes, a path or a binary file")
        view = memoryview(data)
        self._data = view.cast("B") if view.contiguous else memoryview(bytes(view))
        self._backing = Backing(self._data) if no_copy else None
        self._at = 0

    def error(self, problem: str) -> InvalidParams:
        """Return the error for a problem at the current position."""
        return InvalidParams(f"not a parameter file, or damaged: at byte {self._at} of {len(self._data)}, {problem}")

    def _take(self, size: int, what: str) -> memoryview:
        left = len(self._data) - self._at
        if size > left:
            raise self.error(f"{what} needs {size} bytes, {left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def _numbers(self, format_: str, what: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{format_}", self._take(struct.calcsize(f"<{format_}"), what))

    def magic(self, expected: int, what: str) -> None:
        """Read and check the magic number, and skip the reserved field after it."""
        came = self._numbers("Q", f"the number that begins {what}")[0]
        if came != expected:
            raise self.error(f"{came:#018x} where {what} begins with {expected:#018x}")
        self._numbers("Q", "a reserved field")

    def count(self, what: str, least: int) -> int:
        """Read a count of items, each of at least `least` bytes."""
        count: int = self._numbers("Q", f"the number of {what}")[0]
        if count * least > len(self._data) - self._at:
            raise self.error(f"{count} {what} do not fit into what is left")
        return count

    def name(self) -> str:
        """Read a name."""
        (length,) = self._numbers("Q", "the length of a name")
        raw = bytes(self._take(length, "a name"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"the name {raw!r} is not UTF-8") from error

    def record(self, what: str) -> ParamRecord:
        """Read one parameter."""
        self.magic(TENSOR_MAGIC, what)
        device, _, ndim, code, bits, lanes = self._numbers("iiiBBH", what)
        if device != CPU:
            raise self.error(f"{what} is on device type {device}; files hold those of the CPU, {CPU}")
        if not 0 <= ndim <= _MAX_NDIM:
            raise self.error(f"{what} has {ndim} dimensions; expected 0 to {_MAX_NDIM}")
        shape = self._numbers(f"{ndim}q", f"the shape of {what}")
        try:
            check_type(code, bits, lanes)
            dtype = type_of(code, bits)
            expected = check_size(shape, (bits + 7) // 8)
        except InvalidArgument as error:
            raise self.error(f"{what}: {error}") from error
        if lanes != 1:
            raise self.error(f"{what} has {lanes} lanes; expected 1")
        (size,) = self._numbers("q", f"the size of {what}")
        if size != expected:
            raise self.error(f"{what} says {size} bytes; {dtype}{list(shape)} has {expected}")
        begin = self._at
        data = np.frombuffer(self._take(size, what), np.uint8)
        if dtype == "bool" and data.size and data.max() > 1:
            raise self.error("a bool is neither 0 nor 1")
        return ParamRecord(dtype, shape, data, None if self._backing is None else self._backing.lend(begin, size))
