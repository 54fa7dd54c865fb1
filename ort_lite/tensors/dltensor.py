"""DLPack's C structures and element types. Spec: dlpack.h 1.1; CVM's `DLContext` is DLPack's DLDevice."""

import ctypes
from math import prod
from operator import index
from typing import Any

from ort_lite.dtypes import DType
from ort_lite.errors import InvalidArgument

CPU = 1  # kDLCPU
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6  # DLDataTypeCode
READ_ONLY = 1  # flag of a versioned tensor
MOST_DIMS = 64  # the limit of NumPy
ADDRESSES = 2**64


class DLContext(ctypes.Structure):
    """The device of a tensor. Spec: DLPack DLDevice."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """The element type: a code, bits and lanes. Spec: DLPack DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """A plain view. Shape and strides count elements, null strides mean compact, `byte_offset` is added to `data`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("ctx", DLContext),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """A tensor with a deleter. Spec: DLPack DLManagedTensor."""

    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    """A tensor with a version, flags and a deleter. Spec: DLPack DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


_CODES: dict[DType, tuple[int, int]] = {
    **{f"int{bits}": (INT, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (UINT, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (FLOAT, bits) for bits in (16, 32, 64)},
    "bfloat16": (BFLOAT, 16),
    "complex64": (COMPLEX, 64),
    "complex128": (COMPLEX, 128),
    "bool": (BOOL, 8),
}
_BY_CODE = {pair: name for name, pair in _CODES.items()} | {(UINT, 1): "bool"}


def check_type(code: int, bits: int, lanes: int) -> None:
    """Raise InvalidArgument unless lanes >= 1 and bits are whole bytes, a power of two; uint1 is allowed as an old bool."""
    if lanes < 1:
        raise InvalidArgument(f"DLDataType with {lanes} lanes; expected 1 or more")
    if (code, bits) != (UINT, 1) and (bits < 8 or bits & (bits - 1)):
        raise InvalidArgument(f"DLDataType with {bits} bits; expected whole bytes, a power of two of bits")


def type_of(code: int, bits: int) -> DType:
    """Return the element type. Raises InvalidArgument for an unknown one."""
    try:
        return _BY_CODE[code, bits]
    except KeyError:
        raise InvalidArgument(
            f"DLDataType of code {code} and {bits} bits is not known; known are {', '.join(_CODES)}"
        ) from None


def code_of(dtype: DType) -> tuple[int, int]:
    """Return (code, bits) of an element type. Raises InvalidArgument for strings and types narrower than a byte."""
    try:
        return _CODES[dtype]
    except KeyError:
        raise InvalidArgument(f"{dtype} has no DLDataType; those that have are {', '.join(_CODES)}") from None


def nbytes(tensor: DLTensor) -> int:
    """Return the bytes of a compact tensor's elements, all lanes. Raises InvalidArgument if they exceed any address space."""
    shape = tensor.shape[: tensor.ndim] if tensor.ndim else []
    return check_size(shape, (tensor.dtype.bits + 7) // 8 * tensor.dtype.lanes)


def check_size(shape: Any, itemsize: int) -> int:
    """Return the size of `shape` in bytes. Raises InvalidArgument as `dims_of` does, and if the product exceeds 63 bits."""
    dims = dims_of(shape)
    if prod(dim for dim in dims if dim) * itemsize >= 2**63:
        raise InvalidArgument(f"shape {dims} of {itemsize} bytes an element is larger than any memory")
    return prod(dims) * itemsize


def check_memory(address: int, size: int) -> None:
    """Raise InvalidArgument unless `size` bytes at the address lie in an address space, none of them at address 0."""
    if not (address > 0 or size == 0) or not 0 <= address <= ADDRESSES - size:
        raise InvalidArgument(f"{size:,} bytes at address {address:#x}: expected the address of the first element")


def dims_of(shape: Any) -> list[int]:
    """Return the dimensions as integers. Raises InvalidArgument unless they are at most MOST_DIMS integers of 0 or more."""
    try:
        dims = [index(dim) for dim in shape]
    except TypeError:
        raise InvalidArgument(f"shape {shape!r}: expected a sequence of integers") from None
    if len(dims) > MOST_DIMS:
        raise InvalidArgument(f"a shape of {len(dims)} dimensions; expected at most {MOST_DIMS}, as many as NumPy has")
    if min(dims, default=0) < 0:
        raise InvalidArgument(f"shape {dims} has a negative dimension; expected sizes of 0 or more")
    return dims
