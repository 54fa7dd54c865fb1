"""Parameter files: dictionaries from names to tensors, byte-identical to those of CVM and TVM (see `param_records`)."""

import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ort_lite.dtypes import Array, DType
from ort_lite.errors import InvalidArgument
from ort_lite.params.param_records import LIST_MAGIC, ParamRecord, ParamsSource, RecordReader, Target, record_of, write_to
from ort_lite.tensors.conversion import array_of
from ort_lite.tensors.ndarray import NDArray


def save_params(params: Mapping[str, Any], target: Target = None) -> bytes:
    """Return the bytes of the file, also written to `target` (a path or a binary file). Keeps the order of names.

    Values are arrays, NDArrays, OrtValues or anything NumPy converts to an array. Raises InvalidArgument for an element type
    without a DLDataType, and for a name that is not a str.
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
        pieces.append((value if isinstance(value, NDArray) else NDArray.from_numpy(array_of(value))).save())
    return write_to(b"".join(pieces), target)


def load_params(source: ParamsSource, no_copy: bool = False) -> dict[str, NDArray]:
    """Load a dictionary, in the file's order, from bytes, a path or a binary file.

    With `no_copy`, tensors that are aligned in the caller's bytes use them directly, read-only. Raises InvalidParams if the bytes
    are truncated or inconsistent; every size is checked before memory is allocated. Raises NoSuchFile if the path does not exist.
    """
    reader = RecordReader(source, no_copy)
    reader.magic(LIST_MAGIC, "a parameter dictionary")
    names = [reader.name() for _ in range(reader.count("names", 8))]
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise reader.error(f"the name {twice!r} comes twice")
    count = reader.count("tensors", 16)
    if count != len(names):
        raise reader.error(f"{count} tensors for {len(names)} names")
    return {name: _tensor_of(reader.record(f"tensor {name!r}")) for name in names}


def save_tensor(array: Array, dtype: DType, lanes: int, target: Target = None) -> bytes:
    """Return the bytes of a tensor's record, also written to `target`. `NDArray.save` calls it by its hook."""
    return write_to(record_of(array, dtype, lanes), target)


def load_tensor(source: ParamsSource, no_copy: bool = False) -> NDArray:
    """Read a tensor that `save_tensor` wrote. `NDArray.load` calls it by its hook."""
    return _tensor_of(RecordReader(source, no_copy).record("the tensor"))


def _tensor_of(record: ParamRecord) -> NDArray:
    """Return the tensor of a record: over its bytes if they may be borrowed, else a copy."""
    if record.span is not None:
        return NDArray.over_span(record.span, record.dtype, record.shape)
    tensor = NDArray.empty(record.shape, record.dtype)
    tensor.copyfrom(record.data)
    return tensor
