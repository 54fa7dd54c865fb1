"""Import and export of DLPack capsules. Spec: DLPack's Python specification, versions 0 and 1."""

import ctypes
from functools import partial
from typing import Any

from ort_lite.dtypes import Array, DType, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.tensors.container import Container
from ort_lite.tensors.dltensor import (
    CPU,
    MOST_DIMS,
    READ_ONLY,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
    check_memory,
    check_type,
    code_of,
    nbytes,
    type_of,
)

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {
    _PLAIN: b"used_dltensor",
    _VERSIONED: b"used_dltensor_versioned",
}  # capsules point to their names, so these must stay alive
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))

_Managed = DLManagedTensor | DLManagedTensorVersioned


def from_dlpack(source: Any) -> Container:
    """Return a container over the tensor of a producer or a capsule, which is consumed; see `NDArray.from_dlpack`."""
    capsule = source
    if hasattr(source, "__dlpack__"):
        device = source.__dlpack_device__()
        if _device_type(device) != CPU:
            raise InvalidArgument(f"the tensor is on DLPack device {device!r}; expected the CPU, device type 1")
        try:
            capsule = source.__dlpack__(max_version=(1, 1))
        except TypeError:  # a producer older than version 1
            capsule = source.__dlpack__()
    name = next((name for name in (_VERSIONED, _PLAIN) if _is_valid(capsule, name)), None)
    if name is None:
        raise InvalidArgument(f"{type(source).__name__} gives no DLPack capsule, or one that somebody used already")
    address = _pointer(capsule, name)
    managed: _Managed
    if name == _PLAIN:
        managed, writeable = DLManagedTensor.from_address(address), True
    else:
        managed = DLManagedTensorVersioned.from_address(address)
        if managed.major > 1:
            raise InvalidArgument(f"a DLPack tensor of version {managed.major}.{managed.minor}; expected at most 1")
        writeable = not managed.flags & READ_ONLY
    tensor = managed.dl_tensor
    _check(tensor)
    _set_name(capsule, _USED[name])
    shape = list(tensor.shape[: tensor.ndim]) if tensor.ndim else []
    dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    begin = (tensor.data or 0) + tensor.byte_offset
    return Container.over(begin, shape, dtype, managed, writeable, partial(_release, address, managed.deleter))


def _device_type(device: Any) -> int:
    try:
        return int(device[0])
    except (TypeError, ValueError, LookupError):
        raise InvalidArgument(f"__dlpack_device__ gave {device!r}; expected a device type and a device id") from None


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Return True if a capsule, which stays usable, holds uint8. Such a tensor may have been bool originally."""
    name = next((name for name in (_VERSIONED, _PLAIN) if _is_valid(capsule, name)), None)
    if name is None:
        raise InvalidArgument(f"a {type(capsule).__name__} is no DLPack capsule, or one that somebody used already")
    kind = DLManagedTensor if name == _PLAIN else DLManagedTensorVersioned
    managed: _Managed = kind.from_address(_pointer(capsule, name))
    return (managed.dl_tensor.dtype.code, managed.dl_tensor.dtype.bits) == code_of("uint8")


def _release(address: int, deleter: int | None) -> None:
    if deleter:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)


def _check(tensor: DLTensor) -> None:
    """Raise InvalidArgument for tensors that a Container cannot hold."""
    if tensor.ctx.device_type != CPU:
        raise InvalidArgument(f"the tensor is on DLPack device type {tensor.ctx.device_type}; expected the CPU, 1")
    check_type(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    type_of(tensor.dtype.code, tensor.dtype.bits)
    if tensor.dtype.lanes != 1:
        raise InvalidArgument(f"a DLPack tensor of {tensor.dtype.lanes} lanes an element; expected 1")
    if not 0 <= tensor.ndim <= MOST_DIMS or (tensor.ndim and not tensor.shape):
        missing = "" if tensor.shape else " and no shape"
        raise InvalidArgument(f"a DLPack tensor of {tensor.ndim} dimensions{missing}; expected a shape of 0 to {MOST_DIMS}")
    check_memory((tensor.data or 0) + tensor.byte_offset, nbytes(tensor))
    if not tensor.strides:
        return
    shape, strides, step = tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim], 1
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        if dim > 1 and stride != step and 0 not in shape:
            raise InvalidArgument(f"a DLPack tensor of shape {shape} has strides {strides}: expected a compact one, copy it")
        step *= dim


def to_dlpack(array: Array, dtype: DType, **request: Any) -> Any:
    """Return a capsule over the array's memory, made by NumPy. Types that NumPy cannot export go as integers and are relabelled."""
    kind = to_numpy(dtype)
    if kind.isbuiltin == 1:
        return array.__dlpack__(**request)
    capsule = array.view(f"u{kind.itemsize}").__dlpack__(**request)
    if _is_valid(capsule, _PLAIN):
        tensor = DLManagedTensor.from_address(_pointer(capsule, _PLAIN)).dl_tensor
    else:
        tensor = DLManagedTensorVersioned.from_address(_pointer(capsule, _VERSIONED)).dl_tensor
    tensor.dtype.code = code_of(dtype)[0]
    return capsule
