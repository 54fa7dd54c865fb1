"""NDArray: a reference to a Container, which holds a tensor's memory. Sharing is counted, copies are explicit."""

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np

from ort_lite.dtypes import Array, DType, itemsize, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.load.spans import ByteSpan, span_of
from ort_lite.memory.arenas import address_of
from ort_lite.plugins.rooms import hook
from ort_lite.tensors.container import Container
from ort_lite.tensors.conversion import element_type_of
from ort_lite.tensors.dltensor import CPU, check_size, code_of, type_of


class NDArray:
    """A compact tensor on the CPU.

    `NDArray(other)` and `copy.copy` share the container ("lazy copy"): a write through one is visible through the other, without
    copy on write. `copy.deepcopy` and `copy()` copy the elements.
    """

    __slots__ = ("__weakref__", "_container")

    def __init__(self, other: "NDArray | None" = None) -> None:
        """Undefined without `other`."""
        self._container: Container | None = None
        if other is not None and other._container is not None:
            other._container.inc_ref()
            self._container = other._container

    def __del__(self) -> None:
        self.reset()

    # Creation

    @classmethod
    def adopt(cls, container: Container) -> "NDArray":
        """Take over a reference that the caller holds."""
        made = cls()
        made._container = container
        return made

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: DType = "float32", device: tuple[int, int] = (CPU, 0)) -> "NDArray":
        """Return an uninitialised NDArray. Raises InvalidArgument for an invalid shape, type or device, and OutOfMemory."""
        return cls.adopt(Container.allocate(shape, (*code_of(dtype), 1), device))

    @classmethod
    def from_numpy(cls, array: Array, copy: bool = False, on_free: Callable[[], object] | None = None) -> "NDArray":
        """Wrap an array's memory if it is C-contiguous and aligned. Otherwise, and with `copy`, copy it.

        `on_free` is called once, when the last reference to the array's memory is dropped; never for a copy. Raises InvalidArgument
        for strings and objects.
        """
        dtype = element_type_of(array)
        code = (*code_of(dtype), 1)
        if copy or not array.flags.c_contiguous or not array.flags.aligned or not array.dtype.isnative:
            made = cls.empty(array.shape, dtype)
            made.numpy()[...] = array
            return made
        span = span_of(array)
        memory = array if span is None else span  # an NDArray over a model's tensor keeps the tensor's bytes, not the array
        return cls.adopt(Container.over(address_of(array), array.shape, code, memory, array.flags.writeable, on_free))

    @classmethod
    def over_span(cls, span: ByteSpan, dtype: DType, shape: Sequence[int]) -> "NDArray":
        """Return a read-only NDArray over a span, which must be large enough. Misaligned bytes are copied."""
        check_size(shape, itemsize(dtype))
        return cls.from_numpy(span.array(dtype, tuple(shape)))

    @classmethod
    def from_dlpack(cls, source: Any) -> "NDArray":
        """Share the memory of an object with `__dlpack__`, or of a capsule. Its deleter is called with the last reference.

        Raises InvalidArgument for a device other than the CPU, a layout that is not compact, or an unknown element type.
        """
        from ort_lite.tensors.dlpack import from_dlpack

        return cls.adopt(from_dlpack(source))

    # Sharing

    def _there(self) -> Container:
        if self._container is None:
            raise InvalidArgument("the NDArray is undefined: it was reset or moved from")
        return self._container

    @property
    def container(self) -> Container:
        """The container. Raises InvalidArgument if undefined, like all that needs elements."""
        return self._there()

    @property
    def defined(self) -> bool:
        """True if it refers to a tensor."""
        return self._container is not None

    def use_count(self) -> int:
        """Return the number of references to the container; 0 if undefined."""
        return 0 if self._container is None else int(self._container.ref_counter)

    def same_as(self, other: "NDArray") -> bool:
        """Return True if both refer to the same container."""
        return self._container is other._container

    def move(self) -> "NDArray":
        """Return a new NDArray with this reference, and leave this one undefined."""
        container, self._container = self._container, None
        return type(self)() if container is None else type(self).adopt(container)

    def reset(self) -> None:
        """Drop the reference."""
        container, self._container = self._container, None
        if container is not None:
            container.dec_ref()

    def __copy__(self) -> "NDArray":
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "NDArray":
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.save(),)

    # Elements

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self._there().shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        code, bits, _ = self._there().dtype
        return type_of(code, bits)

    @property
    def lanes(self) -> int:
        """The number of lanes of an element; 1 for scalars."""
        return self._there().dtype[2]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return check_size(self.shape, itemsize(self.dtype) * self.lanes)

    @property
    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._there().data_address

    def numpy(self) -> Array:
        """Return an array over the same memory, which counts as a reference. More than one lane becomes a last axis."""
        container = self._there()
        shape = (*container.shape, *([self.lanes] if self.lanes > 1 else ()))
        kind = to_numpy(self.dtype)
        plain = kind.isbuiltin == 1
        exported = _ArrayExport(self, shape, kind.str if plain else f"<u{kind.itemsize}", container.writeable)
        array: Array = np.asarray(exported)
        return array if plain else array.view(kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype, copy=copy)

    def copy(self) -> "NDArray":
        """Return a copy of the elements in new memory."""
        made = type(self).adopt(Container.allocate(self.shape, self._there().dtype))
        self.copyto(made)
        return made

    def copyfrom(self, source: "Array | NDArray") -> None:
        """Overwrite the elements. Raises InvalidArgument if the number of bytes differs, or if this is read-only."""
        theirs = source.numpy() if isinstance(source, NDArray) else np.ascontiguousarray(source)
        if not self._there().writeable:
            raise InvalidArgument("the NDArray is read-only: it lies in bytes that were borrowed")
        if theirs.nbytes != self.nbytes:
            raise InvalidArgument(f"copy of {theirs.nbytes} bytes into an NDArray of {self.nbytes}: expected as many")
        ctypes.memmove(self.data_ptr, address_of(theirs), self.nbytes)

    def copyto(self, target: "NDArray") -> None:
        """Copy the elements to `target`, as `target.copyfrom(self)` does."""
        target.copyfrom(self)

    def create_view(self, shape: Sequence[int], dtype: DType | None = None) -> "NDArray":
        """Return a view of the memory, from its start, as another shape and element type. It counts as a reference.

        Raises InvalidArgument if the view is larger than this.
        """
        dtype = self.dtype if dtype is None else dtype
        size = check_size(shape, itemsize(dtype))
        if size > self.nbytes:
            raise InvalidArgument(f"a view of {size} bytes over an NDArray of {self.nbytes} needs a bigger memory")
        return type(self).adopt(self._there().view(shape, (*code_of(dtype), 1)))

    # Files and other libraries

    def save(self, target: "str | os.PathLike[str] | BinaryIO | None" = None) -> bytes:
        """Return the record of this tensor in a parameter file, also written to `target` (a path or a binary file)."""
        data: bytes = hook("save_tensor")(self.numpy(), self.dtype, self.lanes, target)
        return data

    @staticmethod
    def load(source: "bytes | str | os.PathLike[str] | BinaryIO", no_copy: bool = False) -> "NDArray":
        """Load a tensor that `save` wrote from bytes, a path or a binary file.

        With `no_copy`, it is read-only and uses the caller's bytes. Raises InvalidParams for anything else.
        """
        tensor: NDArray = hook("load_tensor")(source, no_copy)
        return tensor

    def __dlpack__(self, **request: Any) -> Any:
        """Return a capsule for `numpy.from_dlpack` and others, which counts as a reference.

        Raises BufferError as the array API specifies.
        """
        from ort_lite.tensors.dlpack import to_dlpack

        return to_dlpack(self.numpy(), self.dtype, **request)

    def __dlpack_device__(self) -> tuple[int, int]:
        context = self._there().dl_tensor.ctx
        return context.device_type, context.device_id

    def __repr__(self) -> str:
        return f"NDArray({self.dtype}{list(self.shape)})" if self.defined else "NDArray(undefined)"


class _ArrayExport:
    """The object that NumPy creates an array from. As the array's base, it holds a reference to the container."""

    __slots__ = ("__array_interface__", "_reference")

    def __init__(self, array: NDArray, shape: tuple[int, ...], typestr: str, writeable: bool) -> None:
        self._reference = NDArray(array)
        data = (array.data_ptr, not writeable)
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "data": data}


def _load(data: bytes) -> NDArray:
    return NDArray.load(data)


_loaded = _load
"""The name in pickles of earlier releases."""
