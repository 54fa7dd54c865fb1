"""Conversion between TensorProto or SparseTensorProto and NumPy arrays.

The arrays are read-only. Raw bytes are in a ByteSpan (`ort_lite.load.spans`), owned or borrowed. Types narrower than a byte are
unpacked to one element per byte, owned. Sizes stated in the model are compared with the available bytes before memory is allocated.
"""

from collections.abc import Callable, Sequence, Set
from math import prod

import numpy as np

from ort_lite.dtypes import BITS, Array, DType, from_numpy, itemsize, to_numpy, to_onnx
from ort_lite.errors import InvalidGraph
from ort_lite.load.proto import MOST_DIMS, TEXT, element_type, pb, text
from ort_lite.load.spans import ByteSpan
from ort_lite.load.wire import Span
from ort_lite.memory.recipes import note_tensor

External = Callable[[Sequence[tuple[str, str]], int, str], ByteSpan]
"""A function from (entries of `external_data`, size in bytes, name for errors) to the bytes."""

_MOST_ENTRIES = 1000  # of external data: onnxruntime has one per packed piece of a weight
_DENSE_LIMIT = 2**31  # bytes of a sparse tensor once dense; a dense tensor in the file has the same limit

# The field that holds the elements without `raw_data`; int32_data for types that are not listed.
_FIELDS = {
    "float32": "float_data",
    "complex64": "float_data",
    "float64": "double_data",
    "complex128": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}
_AS_THEY_ARE = frozenset({"float32", "float64", "int32", "int64", "uint64"})
"""The types whose elements a field holds without conversion."""
_FIELD_TYPES = {"float_data": np.float32, "double_data": np.float64, "int64_data": np.int64, "uint64_data": np.uint64}


class TensorReader:
    """Reads the tensors of one model. Raises InvalidGraph naming `who`."""

    def __init__(
        self,
        spans: Set[Span] = frozenset(),
        read: Callable[[int, int], ByteSpan] | None = None,
        external: External | None = None,
        aligned: bool = True,
        limit: int | None = None,
    ) -> None:
        """`spans` come from `parse`; `read` returns the bytes of a span; `external` reads external data.

        `aligned` copies tensors that are not aligned. Tensors of more than `limit` bytes are rejected.
        """
        self._spans, self._read, self._external = set(spans), read, external
        self._aligned, self._limit = aligned, limit

    def __call__(self, proto: "pb.TensorProto | pb.SparseTensorProto", who: object) -> Array:
        """Return the array: objects for strings, dense for a sparse tensor."""
        array = self._dense(proto, who) if isinstance(proto, pb.TensorProto) else self._sparse(proto, who)
        array.setflags(write=False)
        return array

    def read_header(self, proto: pb.TensorProto, who: object) -> tuple[DType, tuple[int, ...], int]:
        """Return (element type, shape, bytes in the file) of a tensor, checked without reading it. Strings count 0 bytes."""
        dtype = element_type(proto.data_type, who)
        shape = tuple(proto.dims[:])
        if shape and (min(shape) <= 0 or len(shape) > MOST_DIMS):
            _check_dims(shape, dtype, who)
        nbytes = bytes_in_file(dtype, shape)
        self._check_limit(nbytes, who)
        return dtype, shape, nbytes

    def _check_limit(self, nbytes: int, who: object) -> None:
        if self._limit is not None and nbytes > self._limit:
            raise InvalidGraph(f"{who}: {nbytes:,} bytes; ParseOptions.max_tensor_size_bytes is {self._limit:,}")

    def _dense(self, proto: pb.TensorProto, who: object) -> Array:
        dtype, shape, nbytes = self.read_header(proto, who)
        if proto.data_location == pb.TensorProto.EXTERNAL:
            if self._external is None or dtype == "string":
                raise InvalidGraph(f"{who}: {dtype} in external data cannot be read here")
            if (count := len(proto.external_data)) > _MOST_ENTRIES:
                raise InvalidGraph(f"{who}: external data has {count} keys, expected {_MOST_ENTRIES} at most")
            entries = [(text(entry.key), text(entry.value)) for entry in proto.external_data]
            array = from_span(self._external(entries, nbytes, str(who)), dtype, shape, self._aligned)
            note_tensor(("external", tuple(entries), nbytes, dtype, shape), array)
            return array
        if dtype == "string":
            texts = np.empty(_check_count(len(proto.string_data), prod(shape), shape, "strings", who), dtype=object)
            texts[:] = [item.decode(*TEXT) for item in proto.string_data]
            return texts.reshape(shape)
        if proto.HasField("raw_data"):
            raw = proto.raw_data
            _check_count(len(raw), nbytes, shape, f"bytes of {dtype}", who)
            return from_span(ByteSpan.of_bytes(raw), dtype, shape)
        if self._spans and (span := (proto.segment.begin, proto.segment.end)) in self._spans:
            assert self._read is not None
            self._spans.remove(span)  # a segment in the file itself would refer to it again
            _check_count(span[1] - span[0], nbytes, shape, f"bytes of {dtype}", who)
            array = from_span(self._read(*span), dtype, shape, self._aligned)
            note_tensor(("span", span, nbytes, dtype, shape), array)
            return array
        return _read_field(proto, dtype, shape, who)

    def _sparse(self, proto: pb.SparseTensorProto, who: object) -> Array:
        values, index, shape = self(proto.values, who), self(proto.indices, who), tuple(proto.dims)
        dtype = from_numpy(values.dtype)
        if shape and min(shape) < 0:
            raise InvalidGraph(f"{who}: a sparse tensor of {dtype}, dimensions {list(shape)}, is not supported")
        nbytes = prod(shape) * (itemsize(dtype) or 8)  # for strings: 8 bytes per address
        self._check_limit(nbytes, who)
        if nbytes > _DENSE_LIMIT:
            raise InvalidGraph(f"{who}: a sparse tensor of dimensions {list(shape)} is too large to make dense (2 GiB)")
        if index.dtype != np.int64 or index.shape not in ((values.size,), (values.size, len(shape))):
            raise InvalidGraph(f"{who}: {values.size} sparse values have indices {index.dtype}{list(index.shape)}")
        limits = (prod(shape),) if index.ndim == 1 else shape
        if index.size and ((index < 0).any() or (index >= np.array(limits)).any()):
            raise InvalidGraph(f"{who}: an index of the sparse tensor is outside {list(limits)}")
        dense = np.full(shape, "", object) if dtype == "string" else np.zeros(shape, values.dtype)
        if index.ndim == 1:
            dense.reshape(-1)[index] = values.reshape(-1)
        else:
            dense[tuple(index.T)] = values.reshape(-1)
        return dense


read_tensor = TensorReader()
"""Reads a tensor that contains its bytes: (proto, who) -> array."""


def from_span(span: ByteSpan, dtype: DType, shape: tuple[int, ...], aligned: bool = True) -> Array:
    """Return the tensor of little-endian bytes, which must suffice.

    It uses the span itself, unless the bytes are packed or have to be `aligned`.
    """
    bits = BITS.get(dtype)
    if bits is not None:
        return ByteSpan.of_array(unpack(span.array(), bits, prod(shape), dtype)).array(dtype, shape)
    array = span.array("uint8" if dtype == "bool" else dtype, shape)
    if dtype == "bool":  # other bytes are true too, but break comparisons and counts
        return array.view(bool) if not array.size or array.max() <= 1 else ByteSpan.of_array(array != 0).array(dtype, shape)
    if aligned and not array.flags.aligned:
        return ByteSpan.of_bytes(span.array()).array(dtype, shape)
    return array


def unpack(packed: Array, bits: int, count: int, dtype: DType) -> Array:
    """Return one element per byte. Of the elements that share a byte, the first is in the lowest bits."""
    if 8 % bits:
        split = np.unpackbits(packed, count=count * bits, bitorder="little").reshape(count, bits)
        return np.packbits(split, axis=1, bitorder="little").reshape(count).view(to_numpy(dtype))
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    split = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return split.reshape(-1)[:count].view(to_numpy(dtype))


def pack(array: Array, bits: int) -> bytes:
    """Pack elements: the inverse of `unpack`. The last byte is padded with zeros."""
    if 8 % bits:
        split = np.unpackbits(array.reshape(-1, 1).view(np.uint8), axis=1, count=bits, bitorder="little")
        return np.packbits(split, bitorder="little").tobytes()
    share = 8 // bits
    elements = np.zeros(-(-array.size // share) * share, np.uint8)
    elements[: array.size] = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    shifted = elements.reshape(-1, share) << np.arange(0, 8, bits, dtype=np.uint8)
    return bytes(np.bitwise_or.reduce(shifted, axis=1))


def _check_dims(shape: tuple[int, ...], dtype: DType, who: object) -> None:
    if len(shape) > MOST_DIMS:
        raise InvalidGraph(f"{who}: it has {len(shape)} dimensions, {MOST_DIMS} at most")
    if min(shape) < 0:
        raise InvalidGraph(f"{who}: dimensions {list(shape)} are negative")
    if 0 in shape and prod(dim for dim in shape if dim) * max(itemsize(dtype), 1) >= 2**63:  # NumPy computes the product
        raise InvalidGraph(f"{who}: dimensions {list(shape)} are 2**63 bytes and more, but for the 0")


def _read_field(proto: pb.TensorProto, dtype: DType, shape: tuple[int, ...], who: object) -> Array:
    field = _FIELDS.get(dtype, "int32_data")
    values = getattr(proto, field)
    if dtype in _AS_THEY_ARE:
        return np.fromiter(values, to_numpy(dtype), _check_count(len(values), prod(shape), shape, field, who)).reshape(shape)
    bits, target = BITS.get(dtype), to_numpy(dtype)
    wanted = bytes_in_file(dtype, shape) if bits and 8 % bits == 0 else prod(shape) * (2 if dtype.startswith("complex") else 1)
    array = np.fromiter(values, _FIELD_TYPES.get(field, np.int32), _check_count(len(values), wanted, shape, field, who))
    if bits and 8 % bits == 0:
        return unpack(array.astype(np.uint8), bits, prod(shape), dtype).reshape(shape)
    if dtype.startswith("complex"):
        return array.view(target).reshape(shape)
    if field != "int32_data" or dtype in ("bool", "int32", "int16", "int8", "uint16", "uint8"):
        return array.astype(target, copy=False).reshape(shape)
    return array.astype(f"uint{8 * itemsize(dtype)}").view(target).reshape(shape)  # the bits of a small float


def bytes_in_file(dtype: DType, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor in a file. Strings count 0."""
    return -(-prod(shape) * BITS[dtype] // 8) if dtype in BITS else prod(shape) * itemsize(dtype)


def _check_count(got: int, wanted: int, shape: tuple[int, ...], what: str, who: object) -> int:
    if got != wanted:
        raise InvalidGraph(f"{who}: dimensions {list(shape)} need {wanted} {what}, there are {got}")
    return got


def write_tensor(array: Array, proto: pb.TensorProto, name: str = "") -> None:
    """Fill `proto`: `raw_data`, or `string_data` for strings. Raises KeyError for a dtype that ONNX lacks."""
    describe(array, proto, name)
    if proto.data_type == pb.TensorProto.STRING:
        items = array.reshape(-1).tolist()
        proto.string_data.extend(item if isinstance(item, bytes) else str(item).encode(*TEXT) for item in items)
    else:
        proto.raw_data = to_bytes(array)


def describe(array: Array, proto: pb.TensorProto, name: str = "") -> None:
    """Write the name, element type and dimensions to `proto`."""
    proto.data_type = to_onnx(from_numpy(array.dtype))
    proto.dims.extend(array.shape)
    if name:
        proto.name = name


def nbytes_of(array: Array) -> int | None:
    """Return the size in bytes of the result of `to_bytes`; None for strings."""
    dtype = from_numpy(array.dtype)
    return None if dtype == "string" else bytes_in_file(dtype, array.shape)


def to_bytes(array: Array) -> bytes:
    """Return the elements in row-major order as in `raw_data`: little-endian, packed if narrower than a byte."""
    bits = BITS.get(from_numpy(array.dtype))
    if bits is not None:
        return pack(np.ascontiguousarray(array), bits)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
