"""The sample's memory: bytes that no CPU kernel can reach, an allocator that counts them, and copies in and out."""

import threading
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.provider import CPU, Device


class Handle:
    """A tensor in a SampleMemory, freed with its last reference. Only the memory that created it can read it."""

    __slots__ = ("__weakref__", "_bytes", "_memory", "dtype", "shape")

    def __init__(self, memory: "SampleMemory", data: bytearray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._memory, self._bytes, self.dtype, self.shape = memory, data, dtype, shape

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return len(self._bytes)

    def __del__(self) -> None:
        self._memory.free(self)


class SampleMemory:
    """The allocator. `bytes_in_use` falls when handles are freed; `peak` is its highest value so far."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.bytes_in_use = 0
        self.peak = 0
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> Handle:
        """Allocate a handle of `nbytes` bytes."""
        return self._new(nbytes, np.dtype(np.uint8), (nbytes,))

    def free(self, handle: Handle) -> None:
        """Free the handle's bytes. Freeing it a second time does nothing."""
        data, handle._bytes = handle._bytes, bytearray()
        with self._lock:
            self.bytes_in_use -= len(data)

    def store(self, array: Array) -> Handle:
        """Copy an array into this memory."""
        handle = self._new(array.nbytes, array.dtype, array.shape)
        self.view(handle)[...] = array
        return handle

    def view(self, handle: Handle) -> Array:
        """Return the handle's bytes as an array. Only the provider's own operators and its data transfer may call this."""
        if handle._memory is not self:
            raise ValueError(f"a value of {handle._memory.device} came to {self.device}")
        return np.frombuffer(handle._bytes, handle.dtype).reshape(handle.shape)

    def _new(self, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Handle:
        with self._lock:
            self.bytes_in_use += nbytes
            self.peak = max(self.peak, self.bytes_in_use)
        return Handle(self, bytearray(nbytes), dtype, shape)


class SampleTransfer:
    """Copies between the CPU and one SampleMemory. Counts the bytes copied in each direction."""

    def __init__(self, memory: SampleMemory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self.bytes_in = 0
        self.bytes_out = 0

    def can_copy(self, source: Device, destination: Device) -> bool:
        """Return True for copies between the CPU and the sample's memory."""
        return (source, destination) in ((CPU, self._memory.device), (self._memory.device, CPU))

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        """Copy an array to a Handle, or a Handle to an array. Raises TypeError for other values."""
        if destination == CPU:
            array: Array = self._memory.view(value).copy()
            with self._lock:
                self.bytes_out += array.nbytes
            return array
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(value).__name__} cannot be copied from {source} to {destination}; expected an array")
        with self._lock:
            self.bytes_in += value.nbytes
        return self._memory.store(value)
