"""Parameter files: a dictionary from names to tensors, byte for byte as CVM and TVM write it.

Little-endian. u64 0xF7E58D4F05049CB7, u64 reserved; u64 count, for each name u64 length and UTF-8 bytes; u64 count, for each
tensor a record: u64 0xDD5E40F096B4A13F, u64 reserved, i32 device type, i32 device id, i32 ndim, u8 code, u8 bits, u16 lanes,
i64 for each dimension, i64 bytes, the bytes, compact. Nothing is padded, so tensors are not aligned in the file. Reserved
fields and what follows the last record are not looked at. Spec: cvm-runtime param_dict.cc, TVM file_utils.cc.
"""

import os
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from ort_lite.errors import InvalidArgument, InvalidParams, NoSuchFile
from ort_lite.serialization.spans import Backing
from ort_lite.tensors.dltensor import CPU, check_size, check_type, code_of, type_of
from ort_lite.tensors.ndarray import NDArray
from ort_lite.tensors.values import array_of

LIST_MAGIC, TENSOR_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
_MAX_NDIM = 64  # NumPy's limit; DLPack has none

Source = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO
Target = str | os.PathLike[str] | BinaryIO | None


def save_params(params: Mapping[str, Any], target: Target = None) -> bytes:
    """The file's bytes, also written to `target`: a path or a binary file. Names in the mapping's order.

    Values are arrays, NDArrays, OrtValues or what NumPy makes arrays of. Raises InvalidArgument for an element type that has
    no DLDataType and for a name that is no str.
    """
    for name in params:
        if not isinstance(name, str):
            raise InvalidArgument(f"save_params: the name {name!r} is a {type(name).__name__}, expected str")
    pieces = [struct.pack("<QQQ", LIST_MAGIC, 0, len(params))]
    for name in params:
        encoded = name.encode()
        pieces += [struct.pack("<Q", len(encoded)), encoded]
    pieces.append(struct.pack("<Q", len(params)))
    for value in params.values():
        pieces.append(record(value if isinstance(value, NDArray) else NDArray.from_numpy(array_of(value))))
    return written(b"".join(pieces), target)


def record(tensor: NDArray) -> bytes:
    """A tensor's record. Raises InvalidArgument for more lanes than one, whose size the format gets wrong."""
    if tensor.lanes != 1:
        raise InvalidArgument(f"a tensor of {tensor.lanes} lanes cannot be saved: the file would count one")
    code, bits = code_of(tensor.dtype)
    shape, data = tensor.shape, tensor.numpy()
    header = struct.pack("<QQiiiBBH", TENSOR_MAGIC, 0, CPU, 0, len(shape), code, bits, 1)
    return header + struct.pack(f"<{len(shape)}qq", *shape, data.nbytes) + data.tobytes()


def written(data: bytes, target: Target) -> bytes:
    """`data`, after writing it where it is wanted."""
    if isinstance(target, (str, os.PathLike)):
        with open(target, "wb") as file:
            file.write(data)
    elif target is not None:
        target.write(data)
    return data


def load_params(source: Source, no_copy: bool = False) -> dict[str, NDArray]:
    """The dictionary, in the file's order: bytes, a path or a binary file.

    With `no_copy` tensors lie in the caller's bytes, read-only, as far as they are aligned there. Raises InvalidParams, and
    gives nothing, where the bytes are cut short or contradict themselves; no size is believed before its bytes are there.
    NoSuchFile for a path that leads to none.
    """
    reader = _Reader(source, no_copy)
    reader.magic(LIST_MAGIC, "a parameter dictionary")
    names = [reader.name() for _ in range(reader.count("names", 8))]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise reader.error(f"the name {twice!r} comes twice")
    count = reader.count("tensors", 16)
    if count != len(names):
        raise reader.error(f"{count} tensors for {len(names)} names")
    return {name: reader.tensor(f"tensor {name!r}") for name in names}


def load_tensor(source: Source, no_copy: bool = False) -> NDArray:
    """One record; see `NDArray.load`."""
    return _Reader(source, no_copy).tensor("the tensor")


def _contents(source: Source) -> Any:
    if isinstance(source, (str, os.PathLike)):
        try:
            with open(source, "rb") as file:
                return file.read()
        except FileNotFoundError as error:
            raise NoSuchFile(f"{os.fspath(source)} cannot be loaded: {error.strerror}") from error
    return source.read() if hasattr(source, "read") else source


class _Reader:
    """Reads on from `at`; every error is an InvalidParams that says where."""

    def __init__(self, source: Source, no_copy: bool) -> None:
        data = _contents(source)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidArgument(f"parameters came as {type(source).__name__}; expected bytes, a path or a binary file")
        view = memoryview(data)
        self._data = view.cast("B") if view.contiguous else memoryview(bytes(view))
        self._backing = Backing(self._data) if no_copy else None
        self._at = 0

    def error(self, problem: str) -> InvalidParams:
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
        """The number, and the reserved field after it."""
        came = self._numbers("Q", f"the number that begins {what}")[0]
        if came != expected:
            raise self.error(f"{came:#018x} where {what} begins with {expected:#018x}")
        self._numbers("Q", "a reserved field")

    def count(self, what: str, least: int) -> int:
        """A number of things that take at least `least` bytes each."""
        count: int = self._numbers("Q", f"the number of {what}")[0]
        if count * least > len(self._data) - self._at:
            raise self.error(f"{count} {what} do not fit into what is left")
        return count

    def name(self) -> str:
        (length,) = self._numbers("Q", "the length of a name")
        raw = bytes(self._take(length, "a name"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"the name {raw!r} is not UTF-8") from error

    def tensor(self, what: str) -> NDArray:
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
        data = self._take(size, what)
        return self._made(data, begin, dtype, shape)

    def _made(self, data: memoryview, begin: int, dtype: str, shape: tuple[int, ...]) -> NDArray:
        raw = np.frombuffer(data, np.uint8)
        if dtype == "bool" and raw.size and raw.max() > 1:
            raise self.error("a bool is neither 0 nor 1")
        if self._backing is not None:
            return NDArray.over_span(self._backing.lend(begin, len(data)), dtype, shape)
        made = NDArray.empty(shape, dtype)
        made.copyfrom(raw)
        return made


__all__ = ["LIST_MAGIC", "TENSOR_MAGIC", "load_params", "load_tensor", "save_params"]
