"""TensorProto and SparseTensorProto to NumPy arrays and back.

Arrays that are read are read-only and aligned. Those inside a model own their bytes, those of external data are views of a
mapped file. Types narrower than a byte are unpacked to one element a byte. A size that the model writes down is compared with
the bytes that are there before anything of that size is allocated.
"""

from collections.abc import Callable, Set
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import BITS, Array, DType, from_numpy, itemsize, to_numpy, to_onnx
from ort_lite.errors import InvalidGraph
from ort_lite.proto import TEXT, element_type, pb, text
from ort_lite.wire import Span

External = Callable[[dict[str, str], int, str], tuple[Any, int]]
"""(entries of `external_data`, bytes wanted, who asks) -> (buffer, offset of the first byte in it)."""

_DENSE_LIMIT = 2**31  # bytes of a sparse tensor once dense; a dense one in the same file could not be larger either

# The field that holds the elements when `raw_data` does not; int32_data for the types that are not listed.
_FIELDS = {
    "float32": "float_data",
    "complex64": "float_data",
    "float64": "double_data",
    "complex128": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}
_FIELD_TYPES = {"float_data": np.float32, "double_data": np.float64, "int64_data": np.int64, "uint64_data": np.uint64}


class TensorReader:
    """Reads the tensors of one model; raises InvalidGraph that names `who` asks."""

    def __init__(
        self, data: memoryview | None = None, spans: Set[Span] = frozenset(), external: External | None = None
    ) -> None:
        """`data` and `spans` are what `parse` was given and returned, `external` opens the files of external data."""
        self._data, self._spans, self._external = data, spans, external

    def __call__(self, proto: "pb.TensorProto | pb.SparseTensorProto", who: str) -> Array:
        """The array, of objects for strings; a sparse tensor is made dense."""
        array = self._dense(proto, who) if isinstance(proto, pb.TensorProto) else self._sparse(proto, who)
        array.setflags(write=False)
        return array

    def _dense(self, proto: pb.TensorProto, who: str) -> Array:
        dtype = element_type(proto.data_type, who)
        shape = tuple(proto.dims)
        if shape and min(shape) < 0:
            raise InvalidGraph(f"{who}: dimensions {list(shape)} are negative")
        if proto.data_location == pb.TensorProto.EXTERNAL:
            if self._external is None or dtype == "string":
                raise InvalidGraph(f"{who}: {dtype} in external data cannot be read here")
            entries = {text(entry.key): text(entry.value) for entry in proto.external_data}
            buffer, offset = self._external(entries, _nbytes(dtype, shape), who)
            return from_buffer(buffer, dtype, shape, offset)
        if dtype == "string":
            texts = np.empty(_counted(len(proto.string_data), prod(shape), shape, "strings", who), dtype=object)
            texts[:] = [item.decode(*TEXT) for item in proto.string_data]
            return texts.reshape(shape)
        if proto.HasField("raw_data"):
            raw = proto.raw_data
            _counted(len(raw), _nbytes(dtype, shape), shape, f"bytes of {dtype}", who)
            return from_buffer(raw, dtype, shape)
        if self._spans and (span := (proto.segment.begin, proto.segment.end)) in self._spans:
            _counted(span[1] - span[0], _nbytes(dtype, shape), shape, f"bytes of {dtype}", who)
            return from_buffer(self._data, dtype, shape, span[0], own=True)
        return _typed(proto, dtype, shape, who)

    def _sparse(self, proto: pb.SparseTensorProto, who: str) -> Array:
        values, index, shape = self(proto.values, who), self(proto.indices, who), tuple(proto.dims)
        dtype = from_numpy(values.dtype)
        if (shape and min(shape) < 0) or dtype == "string":
            raise InvalidGraph(f"{who}: a sparse tensor of {dtype}, dimensions {list(shape)}, is not supported")
        if prod(shape) * itemsize(dtype) > _DENSE_LIMIT:
            raise InvalidGraph(f"{who}: a sparse tensor of dimensions {list(shape)} is too large to make dense (2 GiB)")
        if index.dtype != np.int64 or index.shape not in ((values.size,), (values.size, len(shape))):
            raise InvalidGraph(f"{who}: {values.size} sparse values have indices {index.dtype}{list(index.shape)}")
        limits = (prod(shape),) if index.ndim == 1 else shape
        if index.size and ((index < 0).any() or (index >= np.array(limits)).any()):
            raise InvalidGraph(f"{who}: an index of the sparse tensor is outside {list(limits)}")
        dense = np.zeros(shape, values.dtype)
        if index.ndim == 1:
            dense.reshape(-1)[index] = values.reshape(-1)
        else:
            dense[tuple(index.T)] = values.reshape(-1)
        return dense


read_tensor = TensorReader()
"""Reads a tensor that has its bytes inside: (proto, who) -> array."""


def from_buffer(buffer: Any, dtype: DType, shape: tuple[int, ...], offset: int = 0, own: bool = False) -> Array:
    """A view of little-endian bytes that are known to suffice; a copy where they are not aligned, are packed, or `own`."""
    bits = BITS.get(dtype)
    count = prod(shape)
    if bits is not None:
        return unpack(np.frombuffer(buffer, np.uint8, _nbytes(dtype, shape), offset), bits, count, dtype).reshape(shape)
    array = np.frombuffer(buffer, to_numpy(dtype) if dtype != "bool" else np.uint8, count, offset)
    if own or not array.flags.aligned:
        array = array.copy()
    if dtype == "bool":  # any other byte than 0 and 1 is true as well, but not for those who compare or count
        array = array.view(bool) if not count or array.max() <= 1 else array != 0
    return array.reshape(shape)


def unpack(packed: Array, bits: int, count: int, dtype: DType) -> Array:
    """One element a byte; the first of those that share a byte is in its lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    split = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return split.reshape(-1)[:count].view(to_numpy(dtype))


def pack(array: Array, bits: int) -> bytes:
    """The inverse of `unpack`; the last byte is filled up with zeros."""
    share = 8 // bits
    elements = np.zeros(-(-array.size // share) * share, np.uint8)
    elements[: array.size] = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    shifted = elements.reshape(-1, share) << np.arange(0, 8, bits, dtype=np.uint8)
    return bytes(np.bitwise_or.reduce(shifted, axis=1))


def _typed(proto: pb.TensorProto, dtype: DType, shape: tuple[int, ...], who: str) -> Array:
    field = _FIELDS.get(dtype, "int32_data")
    values, bits, target = getattr(proto, field), BITS.get(dtype), to_numpy(dtype)
    wanted = _nbytes(dtype, shape) if bits else prod(shape) * (2 if dtype.startswith("complex") else 1)
    array = np.fromiter(values, _FIELD_TYPES.get(field, np.int32), _counted(len(values), wanted, shape, field, who))
    if bits:
        return unpack(array.astype(np.uint8), bits, prod(shape), dtype).reshape(shape)
    if dtype.startswith("complex"):
        return array.view(target).reshape(shape)
    if field != "int32_data" or dtype in ("bool", "int32", "int16", "int8", "uint16", "uint8"):
        return array.astype(target, copy=False).reshape(shape)
    return array.astype(f"uint{8 * itemsize(dtype)}").view(target).reshape(shape)  # the bits of a small float


def _nbytes(dtype: DType, shape: tuple[int, ...]) -> int:
    return -(-prod(shape) * BITS[dtype] // 8) if dtype in BITS else prod(shape) * itemsize(dtype)


def _counted(got: int, wanted: int, shape: tuple[int, ...], what: str, who: str) -> int:
    if got != wanted:
        raise InvalidGraph(f"{who}: dimensions {list(shape)} need {wanted} {what}, there are {got}")
    return got


def write_tensor(array: Array, proto: pb.TensorProto, name: str = "") -> None:
    """Fills `proto`: `raw_data`, or `string_data` for strings. Raises KeyError for a dtype that ONNX lacks."""
    describe(array, proto, name)
    if proto.data_type == pb.TensorProto.STRING:
        items = array.reshape(-1).tolist()
        proto.string_data.extend(item if isinstance(item, bytes) else str(item).encode(*TEXT) for item in items)
    else:
        proto.raw_data = to_bytes(array)


def describe(array: Array, proto: pb.TensorProto, name: str = "") -> None:
    """Name, element type and dimensions."""
    proto.data_type = to_onnx(from_numpy(array.dtype))
    proto.dims.extend(array.shape)
    if name:
        proto.name = name


def to_bytes(array: Array) -> bytes:
    """Elements in row-major order as `raw_data` holds them: little-endian, packed where narrower than a byte."""
    bits = BITS.get(from_numpy(array.dtype))
    if bits is not None:
        return pack(np.ascontiguousarray(array), bits)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
