"""Read and write onnxruntime's adapter files: LoRA parameters by name, in a FlatBuffer with the identifier TORT.

    table Adapter { format_version: int; adapter_version: int; model_version: int; parameters: [Parameter]; }
    table Parameter { name: string; dims: [int64]; data_type: int; raw_data: [uint8] (aligned to 8); }

`data_type` is a TensorProto.DataType. Every offset and length is checked against the file's size before it is used.
"""

import struct
from collections.abc import Mapping

import numpy as np

from ort_lite.dtypes import Array, from_numpy, from_onnx, to_numpy, to_onnx
from ort_lite.errors import InvalidArgument, InvalidParams
from ort_lite.record import Record
from ort_lite.tensors.dltensor import check_size

IDENTIFIER = b"TORT"
FORMAT_VERSION = 1
_TYPES = frozenset({*range(1, 8), *range(10, 14), *range(16, 21)})
"""Element types that onnxruntime accepts: no strings, bool, complex numbers or types below one byte."""
LARGEST = 2**31 - 1
"""The maximum size of a FlatBuffer in bytes."""
_MOST_DIMS = 64  # the limit of NumPy
_FIELDS = 4  # per table


class AdapterFile(Record):
    """The contents of an adapter file. Arrays of a file that was read share its memory and are read-only."""

    adapter_version: int
    model_version: int
    parameters: Mapping[str, Array]
    format_version: int = FORMAT_VERSION


def read_adapter_bytes(data: bytes) -> AdapterFile:
    """Parse an adapter file. O(bytes).

    Raises InvalidParams for other data, another format version, and offsets outside the data. Parameters that share bytes are
    rejected, so the result has at most twice the size of the file.
    """
    source = _AdapterReader(data)
    if data[4:8] != IDENTIFIER:
        raise InvalidParams(f"the bytes are no adapter: at byte 4 is {data[4:8]!r}, expected {IDENTIFIER!r}")
    root = source.table(source.u32(0))
    version = source.i32_field(root, 0)
    if version != FORMAT_VERSION:
        raise InvalidParams(f"the adapter has format version {version}, expected {FORMAT_VERSION}")
    parameters: dict[str, Array] = {}
    begin, count = source.vector(root, 3, 4)
    for k in range(count):
        name, array = _parameter(source, begin + 4 * k)
        if name in parameters:
            raise InvalidParams(f"the adapter has two parameters {name!r}")
        parameters[name] = array
    return AdapterFile(source.i32_field(root, 1), source.i32_field(root, 2), parameters, version)


def _parameter(source: "_AdapterReader", place: int) -> tuple[str, Array]:
    table = source.table(place + source.u32(place))
    begin, length = source.vector(table, 0, 1)
    source.spend(length)
    name = source.data[begin : begin + length].decode("utf-8", "replace")
    begin, rank = source.vector(table, 1, 8)
    if rank > _MOST_DIMS:
        raise InvalidParams(f"parameter {name[:80]!r} has {rank} dimensions, expected {_MOST_DIMS} at most")
    dims = struct.unpack_from(f"<{rank}q", source.data, begin)
    number = source.i32_field(table, 2)
    if number not in _TYPES:
        raise InvalidParams(
            f"parameter {name[:80]!r} has element type {number}, expected one of {sorted(_TYPES)} of TensorProto.DataType"
        )
    dtype = to_numpy(from_onnx(number))
    begin, nbytes = source.vector(table, 3, 1)
    try:
        expected = check_size(dims, dtype.itemsize)
    except InvalidArgument as error:
        raise InvalidParams(f"parameter {name[:80]!r}: {error}") from error
    if expected != nbytes:
        raise InvalidParams(
            f"parameter {name[:80]!r} of shape {list(dims)} and {dtype} has {nbytes} bytes, expected {expected}"
        )
    flat = np.frombuffer(source.data, np.uint8, nbytes, begin)
    if begin % 8:
        source.spend(nbytes)
        flat = flat.copy()
    return name, flat.view(dtype).reshape(dims)


class _AdapterReader:
    """A bounds-checked reader of a FlatBuffer. A table is a pair of its position and its field offsets."""

    def __init__(self, data: bytes) -> None:
        self.data, self._left = data, len(data)

    def spend(self, nbytes: int) -> None:
        """Count bytes of names and data. Raises InvalidParams if they exceed the file, which means that they overlap."""
        self._left -= nbytes
        if self._left < 0:
            raise InvalidParams(
                f"the parameters overlap: their names and data have more bytes than the adapter, {len(self.data)}"
            )

    def _at(self, form: str, place: int) -> int:
        if not 0 <= place <= len(self.data) - struct.calcsize(form):
            raise InvalidParams(f"the adapter refers to byte {place} of {len(self.data)}: cut short?")
        return int(struct.unpack_from(form, self.data, place)[0])

    def u32(self, place: int) -> int:
        return self._at("<I", place)

    def table(self, place: int) -> tuple[int, list[int]]:
        fields = place - self._at("<i", place)
        size = min(self._at("<H", fields), 4 + 2 * _FIELDS)
        return place, [self._at("<H", fields + k) for k in range(4, size - 1, 2)]

    def _field(self, table: tuple[int, list[int]], k: int) -> int:
        """Return the position of a field; 0 if it is absent."""
        place, fields = table
        return place + fields[k] if k < len(fields) and fields[k] else 0

    def i32_field(self, table: tuple[int, list[int]], k: int) -> int:
        place = self._field(table, k)
        return self._at("<i", place) if place else 0

    def vector(self, table: tuple[int, list[int]], k: int, itemsize: int) -> tuple[int, int]:
        """Return the position of a vector's first element and the number of elements."""
        place = self._field(table, k)
        if not place:
            return 0, 0
        begin = place + self.u32(place)
        count = self.u32(begin)
        if begin + 4 + count * itemsize > len(self.data):
            raise InvalidParams(f"the adapter has {count} elements at byte {begin} of {len(self.data)}: cut short?")
        return begin + 4, count


def adapter_bytes(adapter: AdapterFile) -> bytes:
    """Serialize an adapter file. O(bytes). Raises InvalidArgument for an unsupported element type and above 2 GiB."""
    names = sorted(adapter.parameters)
    made = _AdapterWriter()
    root = made.table([adapter.format_version, adapter.adapter_version, adapter.model_version, None])
    struct.pack_into("<I4s", made.data, 0, root, IDENTIFIER)
    made.refer(root + 16)
    made.data += struct.pack("<I", len(names))
    slots = len(made.data)
    made.data += bytes(4 * len(names))
    for k, name in enumerate(names):
        _put(made, slots + 4 * k, name, np.asarray(adapter.parameters[name]))
        if len(made.data) > LARGEST:
            raise InvalidArgument(f"the adapter is larger than {LARGEST} bytes, which its format allows; make several of it")
    return bytes(made.data)


def _put(made: "_AdapterWriter", slot: int, name: str, array: Array) -> None:
    dtype = from_numpy(array.dtype)
    number = to_onnx(dtype)
    if number not in _TYPES:
        raise InvalidArgument(
            f"parameter {name!r} is of {dtype.upper()}, which adapter files cannot hold; convert it to another type"
        )
    if not array.ndim:
        raise InvalidArgument(f"parameter {name!r} is a scalar, which adapter files cannot hold; reshape it to [1]")
    table = made.table([None, None, number, None])
    struct.pack_into("<I", made.data, slot, table - slot)
    text = name.encode()
    made.vector(table + 4, len(text), text + b"\0", 4)
    made.vector(table + 8, array.ndim, struct.pack(f"<{array.ndim}q", *array.shape), 8)
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    made.vector(table + 16, array.nbytes, little.tobytes(), 8)


class _AdapterWriter:
    """A writer of tables with four 4-byte fields each, followed by the data that they refer to."""

    def __init__(self) -> None:
        self.data = bytearray(8)

    def table(self, fields: "list[int | None]") -> int:
        """Append a table and return its position. None stands for a reference that is set later."""
        self.data += bytes(-len(self.data) % 4)
        self.data += struct.pack(
            "<6H", 12, 20, 4, 8, 12, 16
        )  # sizes of this entry and of the table, then the offsets of the fields
        self.data += struct.pack("<5i", 12, *(field or 0 for field in fields))
        return len(self.data) - 20

    def refer(self, place: int) -> None:
        """Point the field at `place` to the current end of the data."""
        struct.pack_into("<I", self.data, place, len(self.data) - place)

    def vector(self, place: int, count: int, elements: bytes, alignment: int) -> None:
        self.data += bytes(-(len(self.data) + 4) % alignment)
        self.refer(place)
        self.data += struct.pack("<I", count) + elements
        self.data += bytes(-len(self.data) % 4)
