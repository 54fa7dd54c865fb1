"""OrtValue: an input or output of a session, with onnxruntime's methods.

A tensor on the CPU is an array or an NDArray that shares memory instead of copying it. A tensor on a device is a DeviceTensor,
which the provider's transfer copies. onnxruntime has a Python class around a native one; here one class has the methods of both.
"""

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy, from_onnx, itemsize, ort_name, to_numpy, to_onnx
from ort_lite.errors import InvalidArgument, InvalidType, OutOfMemory, describe
from ort_lite.provider.provider import CPU, ExecutionProvider
from ort_lite.tensors.container import Container
from ort_lite.tensors.conversion import array_of
from ort_lite.tensors.device_tensor import DeviceTensor, parse_device
from ort_lite.tensors.dltensor import CPU as DL_CPU
from ort_lite.tensors.dltensor import check_memory, check_size, code_of, dims_of
from ort_lite.tensors.ndarray import NDArray

if TYPE_CHECKING:
    from ort_lite.compat.sparse import SparseTensor

_UNCOUNTED = frozenset({"string", "int4", "uint4", "int2", "uint2"})  # element types without a DLDataType


_NUMBERS = frozenset("?bBhHiIlLqQefd")
"""The characters of NumPy's own types of numbers that have a DLDataType."""


class OrtValue:
    """A tensor, a sparse tensor, a sequence, a map or an empty optional. Tensors are on the CPU or on a provider's device."""

    __slots__ = ("__weakref__", "_held")

    def __init__(self, value: Any = None) -> None:
        """Wrap an NDArray, an array (copied only if not contiguous), a list, a dict, or None for an empty optional."""
        self._held = _unwrap(value)

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """Share an array's memory, or copy it to a device of an installed or registered provider.

        Raises InvalidArgument for a device that no provider has (see `ExecutionProvider.supported_devices`).
        """
        provider = _provider_on(device_type, device_id)
        return cls(array_of(numpy_obj)) if provider is None else cls.on(provider, numpy_obj)

    @classmethod
    def on(cls, provider: ExecutionProvider, data: Any) -> "OrtValue":
        """Copy data into the memory of the provider's device. Raises the errors of its transfer and allocator."""
        from ort_lite.session.device_values import put

        return cls(put(array_of(data), provider))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> "OrtValue":
        """Share an array's memory, read as an ONNX type of the same size: uint16 as bfloat16."""
        dtype = dtype_of(onnx_element_type)
        if to_numpy(dtype).itemsize != data.dtype.itemsize or dtype == "string":
            raise InvalidArgument(f"an array of {data.dtype} cannot be read as {dtype}: its elements have another size")
        return cls(np.ascontiguousarray(data).view(to_numpy(dtype)).reshape(data.shape))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: Any = None,
    ) -> "OrtValue":
        """Create a tensor of zeros, or of empty strings, on a device (see `ortvalue_from_numpy`).

        `element_type` is a NumPy type or a number of TensorProto.DataType. An OrtMemoryInfo as `memory_info` names the device
        instead.
        """
        if memory_info is not None:
            device_type, device_id = memory_info.device_type, memory_info.device_id
        try:
            provider = _provider_on(device_type, device_id)
        except InvalidArgument as error:
            if memory_info is None:
                raise
            raise InvalidArgument(f"No shared allocator found for: {memory_info!r}; {describe(error)}") from error
        zeros = _zeros(shape, dtype_of(element_type))
        return cls(zeros) if provider is None else cls.on(provider, zeros)

    @classmethod
    def ortvalue_from_shape_and_type_for_memory_info(
        cls, shape: Sequence[int], element_type: Any, memory_info: Any
    ) -> "OrtValue":
        """Create a tensor of zeros in the memory that an OrtMemoryInfo describes."""
        return cls.ortvalue_from_shape_and_type(shape, element_type, memory_info=memory_info)

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type
    ortvalue_from_shape_and_onnx_type_for_memory_info = ortvalue_from_shape_and_type_for_memory_info

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> "OrtValue":
        """Share the memory of an object with `__dlpack__` or of a capsule. `is_bool_tensor` reads uint8 as bool."""
        made = NDArray.from_dlpack(data)
        return cls(made.numpy().view("bool") if is_bool_tensor and made.dtype == "uint8" else made)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: "SparseTensor") -> "OrtValue":
        """Wrap a SparseTensor. It is converted to a dense tensor when it is fed to a session."""
        return cls(sparse_tensor._get_c_tensor())

    def as_sparse_tensor(self) -> "SparseTensor":
        """Return the sparse tensor. Raises InvalidArgument for another value."""
        if not self.is_sparse_tensor():
            raise InvalidArgument(f"the OrtValue holds {self.data_type()}, expected a sparse tensor")
        return cast("SparseTensor", self._held)

    def _get_c_value(self) -> "OrtValue":
        return self

    @property
    def _ortvalue(self) -> "OrtValue":
        return self

    @property
    def _is_webgpu_buffer(self) -> bool:
        """False: WebGPU memory would be a tensor on a provider's device."""
        return False

    # Description

    def has_value(self) -> bool:
        """Return False for an empty optional."""
        return self._held is not None

    def is_tensor(self) -> bool:
        """Return True for a dense tensor."""
        return isinstance(self._held, (NDArray, np.ndarray, DeviceTensor))

    def is_sparse_tensor(self) -> bool:
        """Return True for a sparse tensor."""
        return hasattr(self._held, "dense_shape")

    def is_tensor_sequence(self) -> bool:
        """Return True for a sequence of tensors."""
        return isinstance(self._held, list)

    def data_type(self) -> str:
        """Return the type as onnxruntime spells it: "tensor(int64)", "seq(tensor(float))"."""
        return _type_name(self._held)

    def element_type(self) -> int:
        """Return the TensorProto.DataType of a tensor or sparse tensor."""
        return to_onnx(from_numpy(self.as_sparse_tensor().values().dtype) if self.is_sparse_tensor() else self._dtype())

    def shape(self) -> list[int]:
        """Return the shape; for a sparse tensor, the dense shape."""
        return self.as_sparse_tensor().dense_shape() if self.is_sparse_tensor() else list(self._tensor().shape)

    def tensor_size_in_bytes(self) -> int:
        """Return the size of the tensor in bytes."""
        return self._tensor().nbytes

    def device_name(self) -> str:
        """Return the name of the device: "cpu", or the kind of a provider's device."""
        tensor = self.device_tensor
        return "cpu" if tensor is None else tensor.device.kind

    @property
    def device_tensor(self) -> DeviceTensor | None:
        """The tensor on a device; None if the value is on the CPU or is not a tensor."""
        return self._held if isinstance(self._held, DeviceTensor) else None

    def data_ptr(self) -> int:
        """Return the address of the first element. Raises InvalidArgument if the device's values expose none."""
        tensor = self._tensor()
        if isinstance(tensor, np.ndarray):
            return tensor.ctypes.data
        if isinstance(tensor, NDArray):
            return tensor.data_ptr
        return int(self._of_device("data_ptr"))

    # Contents

    def numpy(self) -> Any:
        """Return an array over the same memory, or a copy of a tensor on a device.

        Raises InvalidArgument for a value that is not a tensor.
        """
        tensor = self._tensor()
        if isinstance(tensor, DeviceTensor):
            from ort_lite.session.device_values import fetch

            return fetch(tensor)
        return tensor.numpy() if isinstance(tensor, NDArray) else tensor.view()

    def value(self) -> Any:
        """Return the value as `InferenceSession.run` does: an array, a list, a dict or None. A sparse tensor becomes dense."""
        if self.is_tensor():
            return self.numpy()
        return self.as_sparse_tensor().dense() if self.is_sparse_tensor() else self._held

    def update_inplace(self, data: "Array | OrtValue") -> None:
        """Overwrite the elements in place; on a device as far as the transfer supports it (`transfers.Overwrites`).

        Raises InvalidArgument for another type or shape, and InvalidType for data that is neither an array nor an OrtValue.
        """
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise InvalidType(f"update_inplace: got {type(data).__name__}, expected an array or an OrtValue")
        array = array_of(data)
        if array.shape != tuple(self.shape()) or from_numpy(array.dtype) != self._dtype():
            came = f"{array.dtype}{list(array.shape)}"
            raise InvalidArgument(f"update_inplace: got {came}, the value is {self._dtype()}{self.shape()}")
        if (tensor := self.device_tensor) is not None:
            from ort_lite.session.device_values import fill

            fill(tensor, array)
            return
        target = self.numpy()
        if not target.flags.writeable:
            raise InvalidArgument("update_inplace: the value lies in read-only memory")
        target[...] = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False and self.device_tensor is not None:
            raise ValueError(f"the tensor is on {self.device_tensor.device}: without a copy there is no array of it")
        return np.array(self.as_sparse_tensor() if self.is_sparse_tensor() else self.numpy(), dtype, copy=copy)

    def __dlpack__(self, **request: Any) -> Any:
        tensor = self._tensor()
        if isinstance(tensor, DeviceTensor):
            from ort_lite.session.device_values import require

            require(tensor)
            return self._of_device("__dlpack__")(**request)
        return self._ndarray().__dlpack__(**request)

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule. Its consumer takes ownership."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = (DL_CPU, 0) if self.device_tensor is None else self._of_device("__dlpack_device__")()
        return device

    def _of_device(self, name: str) -> Any:
        """Return an attribute of the provider's own value. Raises InvalidArgument if it has none."""
        tensor = self.device_tensor
        found = None if tensor is None else getattr(tensor.value, name, None)
        if found is None:
            where = f"{type(tensor.value).__name__} values of {tensor.device}" if tensor is not None else "values"
            raise InvalidArgument(f"{where} have no {name}; `numpy()` gives a copy on the CPU")
        return found

    def _tensor(self) -> NDArray | Array | DeviceTensor:
        if not self.is_tensor():
            raise InvalidArgument(f"the OrtValue holds {self.data_type()}, expected a tensor")
        return cast("NDArray | Array | DeviceTensor", self._held)

    def _ndarray(self) -> NDArray:
        tensor = self._tensor()
        if isinstance(tensor, NDArray):
            return tensor
        if isinstance(tensor, DeviceTensor) or not _has_code(self._dtype()):
            raise InvalidArgument(f"{self._dtype()} has no DLDataType")
        return NDArray.from_numpy(tensor)

    def _dtype(self) -> DType:
        tensor = self._tensor()
        return from_numpy(tensor.dtype) if isinstance(tensor, np.ndarray) else tensor.dtype

    def __repr__(self) -> str:
        if not self.has_value():
            return "OrtValue(None)"
        there = "" if self.device_tensor is None else f" on {self.device_tensor.device}"
        if self.is_tensor() or self.is_sparse_tensor():
            return f"OrtValue({self.data_type()}{self.shape()}{there})"
        count = f" of length {len(self._held)}" if isinstance(self._held, (list, dict)) else ""
        return f"OrtValue({self.data_type()}{count})"


def _unwrap(value: Any) -> Any:
    if isinstance(value, OrtValue):
        return value._held
    if isinstance(value, (bool, int, float, complex, str, bytes)):
        raise InvalidType(
            f"OrtValue({value!r}): expected an array, a list, a dict or None; `ortvalue_from_numpy` takes numbers"
        )
    if type(value) is np.ndarray and value.dtype.char in _NUMBERS and value.dtype.isbuiltin == 1:
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value.view()  # whose shape stays
    if isinstance(value, np.ndarray) and _has_code(from_numpy(value.dtype)):
        return NDArray.from_numpy(value)
    return value


def _has_code(dtype: DType) -> bool:
    """Return True for an element type that has a DLDataType."""
    return dtype not in _UNCOUNTED and not dtype.startswith(("float8", "float6", "float4"))


def _zeros(shape: Sequence[int], dtype: DType) -> Array:
    """Return zeros or empty strings. Raises InvalidArgument for an invalid shape, OutOfMemory for one that does not fit."""
    size, dims = check_size(shape, itemsize(dtype)), dims_of(shape)
    try:
        return np.full(dims, "", object) if dtype == "string" else np.zeros(dims, to_numpy(dtype))
    except (MemoryError, ValueError) as error:
        raise OutOfMemory(f"a tensor of shape {dims}, {size:,} bytes, cannot be allocated: {error}") from error


def _type_name(held: Any) -> str:
    if isinstance(held, (NDArray, DeviceTensor)):
        return ort_name(held.dtype)
    if isinstance(held, np.ndarray):
        return ort_name(from_numpy(held.dtype))
    if isinstance(held, list):
        return f"seq({_type_name(held[0]) if held else 'unknown'})"
    if hasattr(held, "dense_shape"):
        sparse: str = held.data_type()
        return sparse
    if isinstance(held, dict):
        key, value = next(iter(held.items()), (0, 0.0))
        return f"map({'string' if isinstance(key, str) else 'int64'},{_type_name(np.asarray(value))})"
    return "unknown"


def at_address(element_type: Any, shape: Sequence[int], address: int) -> OrtValue:
    """Return a tensor over CPU memory that the caller owns. Raises the errors of `dims_at`."""
    dtype = dtype_of(element_type)
    dims = dims_at(shape, dtype, address)
    return OrtValue(NDArray.adopt(Container.over(index(address), dims, (*code_of(dtype), 1), None)))


def dims_at(shape: Sequence[int], dtype: DType, address: int) -> list[int]:
    """Return the dimensions of a tensor at an address. Raises InvalidArgument for an invalid shape or address."""
    try:
        number = index(address)
    except TypeError:
        raise InvalidArgument(f"a buffer at {address!r}; expected an address, `array.ctypes.data`") from None
    check_memory(number, check_size(shape, itemsize(dtype)))
    return dims_of(shape)


def dtype_of(element_type: Any) -> DType:
    """Return the element type for a NumPy type or a TensorProto.DataType number. Raises InvalidArgument for others."""
    try:
        return from_onnx(element_type) if isinstance(element_type, int) else from_numpy(np.dtype(element_type))
    except (KeyError, TypeError):
        raise InvalidArgument(f"element type {element_type!r}; expected a NumPy type or a TensorProto.DataType") from None


def _provider_on(device_type: str, device_id: int) -> ExecutionProvider | None:
    """Return the provider on a device; None for the CPU."""
    device = parse_device(device_type, device_id)
    if device == CPU:
        return None
    from ort_lite.compat.provider_devices import provider_on

    return provider_on(device)
