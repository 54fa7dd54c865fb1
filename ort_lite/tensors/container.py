"""Container: a DLTensor with a reference count and a deleter. A Container has the address of its DLTensor.

The layout is that of CVM's C++: the DLTensor comes first, so C code that only knows DLTensor accepts a Container too. The bytes
after the DLTensor belong to the library; callers must not write to them.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory import locks
from ort_lite.tensors.dltensor import CPU, DLContext, DLDataType, DLTensor, check_size, check_type, dims_of

ALIGNMENT = 64  # kAllocAlignment


class Container(ctypes.Structure):
    """A reference-counted tensor. `allocate` and `over` create it with a count of 1; at 0, `dec_ref` calls its deleter.

    `manager_ctx` of a view is the address of the container that it views. Counting is thread-safe.
    """

    _fields_ = (
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("array_type_code", ctypes.c_int32),
        ("ref_counter", ctypes.c_int32),
        ("shape_", ctypes.POINTER(ctypes.c_int64)),
    )

    live: ClassVar[dict[int, "Container"]] = {}
    """The containers with a count above 0, by address: the targets of handles. A leak shows up here."""

    _lock: ClassVar[threading.RLock] = locks.rlock()  # a garbage collection inside it may drop references to another container

    memory: Any
    writeable: bool
    _on_free: Callable[[], object] | None

    @staticmethod
    def allocate(shape: Sequence[int], dtype: tuple[int, int, int], device: tuple[int, int] = (CPU, 0)) -> "Container":
        """Allocate uninitialised memory of `dtype` (code, bits, lanes), aligned to 64 bytes and to the element size.

        Raises InvalidArgument for an invalid type or shape and for a device other than the CPU, and OutOfMemory.
        """
        code, bits, lanes = dtype
        check_type(code, bits, lanes)
        if device != (CPU, 0):
            raise InvalidArgument(f"device {device}: containers are allocated on the CPU, device (1, 0)")
        itemsize = (bits + 7) // 8 * lanes
        size, shape = check_size(shape, itemsize), dims_of(shape)
        alignment = max(itemsize, ALIGNMENT)
        try:
            memory = np.empty(size + alignment, np.uint8)
        except (MemoryError, ValueError) as error:
            raise OutOfMemory(f"a tensor of shape {list(shape)}, {size:,} bytes, cannot be allocated: {error}") from error
        address = memory.ctypes.data
        address += -address % alignment
        return Container.over(address, shape, dtype, memory)

    @staticmethod
    def over(
        address: int,
        shape: Sequence[int],
        dtype: tuple[int, int, int],
        memory: Any,
        writeable: bool = True,
        on_free: Callable[[], object] | None = None,
    ) -> "Container":
        """Create a container over compact memory at `address`, which `memory` keeps alive.

        `on_free` is called once, when the container is freed.
        """
        made = Container()
        tensor = made.dl_tensor
        tensor.data, tensor.ndim, tensor.ctx = address, len(shape), DLContext(CPU, 0)
        tensor.dtype = DLDataType(*dtype)
        dims = (ctypes.c_int64 * len(shape))(*shape)
        tensor.shape = made.shape_ = dims  # ctypes.cast would leave a cycle for the garbage collector
        made.memory, made.writeable, made._on_free = memory, writeable, on_free
        made.deleter = _DELETER_ADDRESS
        made.ref_counter = 1
        with Container._lock:
            Container.live[made.address] = made
        return made

    @staticmethod
    def at(address: int) -> "Container":
        """Return the live container at an address, which is a handle. Raises InvalidArgument if there is none."""
        found = Container.live.get(address)
        if found is None:
            raise InvalidArgument(f"{address:#x} is no tensor's handle: it was freed already, or never allocated")
        return found

    def view(self, shape: Sequence[int], dtype: tuple[int, int, int]) -> "Container":
        """Return a view of the same memory with another shape and type. It counts as a reference to this container."""
        self.inc_ref()
        made = Container.over(self.data_address, shape, dtype, self, self.writeable, self.dec_ref)
        made.manager_ctx = self.address
        return made

    @property
    def address(self) -> int:
        """The address of the container."""
        return ctypes.addressof(self)

    @property
    def data_address(self) -> int:
        """The address of the first element."""
        return (self.dl_tensor.data or 0) + int(self.dl_tensor.byte_offset)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(self.dl_tensor.shape[: self.dl_tensor.ndim]) if self.dl_tensor.ndim else ()

    @property
    def dtype(self) -> tuple[int, int, int]:
        """The element type: (code, bits, lanes)."""
        found = self.dl_tensor.dtype
        return found.code, found.bits, found.lanes

    def inc_ref(self) -> None:
        """Add a reference. Raises InvalidArgument if the container was freed."""
        with Container._lock:
            if self.ref_counter < 1:
                raise InvalidArgument("the container is gone: its last reference was dropped")
            self.ref_counter += 1

    def dec_ref(self) -> None:
        """Drop a reference; the last one calls the deleter. Raises InvalidArgument if the container was freed."""
        with Container._lock:
            if self.ref_counter < 1:
                raise InvalidArgument("the container is gone: its last reference was dropped")
            self.ref_counter -= 1
            last = self.ref_counter == 0
        if last:
            self.free()

    def free(self) -> None:
        """Free the memory, as the deleter does."""
        with Container._lock:
            Container.live.pop(self.address, None)
            on_free, self._on_free, self.memory = self._on_free, None, None
            self.dl_tensor.data = None
        if on_free is not None:
            on_free()


def _free_at(address: int) -> None:
    """Free a container by its address, for C code that drops the last reference itself."""
    Container.at(address).free()


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_free_at)
_DELETER_ADDRESS: Final = ctypes.cast(_DELETER, ctypes.c_void_p).value
