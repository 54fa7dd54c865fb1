"""Tensors of onnxruntime as NumPy arrays, and results as tensors of onnxruntime.

A tensor of numbers becomes an array over its memory, without a copy. Strings are copied, and so are elements of 4 and 2 bits, which
onnxruntime packs into bytes and NumPy does not.
"""

import ctypes
import sys
from collections.abc import Sequence
from ctypes import byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_void_p
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import BITS, Array, DType, from_onnx, to_numpy, to_onnx
from ort_lite.load.tensor_proto import pack, unpack
from ort_lite_ep.c_api import CApi

STRING = 8
"""onnxruntime's code of strings."""
_OWN_CODES = {24: "uint2", 25: "int2", 26: "float8_e8m0fnu"}
"""The codes that mean another type in onnxruntime's C API than in ONNX. Spec: ONNXTensorElementDataType."""
_TO_OWN = {name: code for code, name in _OWN_CODES.items()}


def from_host(code: int) -> DType:
    """Convert a code of onnxruntime's C API to an element type. Raises KeyError for unknown ones."""
    return _OWN_CODES.get(code) or from_onnx(code)


def to_host(dtype: DType) -> int:
    """Return the code of an element type in onnxruntime's C API."""
    return _TO_OWN.get(dtype) or to_onnx(dtype)


_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype, _view.argtypes = ctypes.py_object, [c_void_p, ctypes.c_ssize_t, c_int]
_READ, _WRITE = 0x100, 0x200
_FIRST = 1
_MEMORY, _WRITEABLE_MEMORY = (_view(_FIRST, sys.maxsize - _FIRST, flags) for flags in (_READ, _WRITE))
"""All memory of the process from address 1 on, as buffers: an array over an address lies at an offset."""


class Dtypes(dict[int, "np.dtype[Any] | None"]):
    """The types of arrays over tensors, by element type of ONNX.

    None for types whose elements are no whole bytes, and for strings.
    """

    def __missing__(self, code: int) -> "np.dtype[Any] | None":
        name = from_host(code)
        self[code] = found = None if name == "string" or name in BITS else to_numpy(name)
        return found


DTYPES = Dtypes()


def array_at(address: int, code: int, shape: Sequence[int], writeable: bool = False) -> Array:
    """Return the array over the memory of a tensor. The code must be one of `DTYPES` that is not None."""
    found = DTYPES[code]
    assert found is not None, "the caller has looked"
    if not address:
        return np.empty(shape, found)  # without elements
    return np.ndarray(shape, found, _WRITEABLE_MEMORY if writeable else _MEMORY, address - _FIRST)


def read_value(api: CApi, value: int) -> Array:
    """Return a tensor of onnxruntime on the CPU as an array: over its memory if it has numbers of whole bytes, else a copy."""
    code, dims, rank = c_int(), c_void_p(), c_size_t()
    api.call("GetTensorElementTypeAndShapeDataReference", value, byref(code), byref(dims), byref(rank))
    shape = tuple((c_int64 * rank.value).from_address(dims.value or 0)) if rank.value else ()
    if code.value == STRING:
        return read_strings(api, value, shape)
    address = api.read("GetTensorMutableData", value) or 0
    return array_at(address, code.value, shape) if DTYPES[code.value] is not None else unpack_array(address, code.value, shape)


def read_strings(api: CApi, value: int, shape: tuple[int, ...]) -> Array:
    """Return a tensor of strings as an array of objects."""
    count, nbytes = prod(shape), api.read("GetStringTensorDataLength", value, kind=c_size_t)
    content, offsets = (c_char * max(nbytes, 1))(), (c_size_t * max(count, 1))()
    if count:
        api.call("GetStringTensorContent", value, content, nbytes, offsets, count)
    ends = [*offsets[1:count], nbytes]
    texts = np.empty(count, object)
    texts[:] = [content.raw[begin:end].decode() for begin, end in zip(offsets[:count], ends, strict=False)]
    return texts.reshape(shape)


def write_strings(api: CApi, value: int, result: Array) -> None:
    """Write an array of texts into a tensor of strings of as many elements."""
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in result.reshape(-1)]
    if texts:
        api.call("FillStringTensor", value, (c_char_p * len(texts))(*texts), len(texts))


def unpack_array(address: int, code: int, shape: Sequence[int]) -> Array:
    """Return a tensor of elements of 4 or 2 bits as an array of one byte each."""
    name, count = from_host(code), prod(shape)
    if not count:
        return np.empty(shape, to_numpy(name))
    nbytes = -(-count * BITS[name] // 8)
    bytes_ = np.ndarray((nbytes,), np.uint8, _MEMORY, address - _FIRST)
    return unpack(bytes_, BITS[name], count, name).reshape(shape)


def contents(result: Array, code: int) -> Array:
    """Return an array whose memory is that of a tensor of onnxruntime: contiguous, small elements packed into bytes."""
    name = from_host(code)
    if name in BITS:
        return np.frombuffer(pack(np.ascontiguousarray(result), BITS[name]), np.uint8)
    return result if result.flags.c_contiguous else np.ascontiguousarray(result)
