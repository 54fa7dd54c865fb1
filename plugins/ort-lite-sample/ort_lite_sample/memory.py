"""The sample's memory: bytes that no CPU kernel can reach, an allocator that counts them, and the way in and out."""

import threading
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.provider import CPU, Device


class Handle:
    """A tensor in a SampleMemory. No array and no buffer: only the memory that made it can read it. Freed with its owner."""

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
    """The allocator. `bytes_in_use` falls when handles die; `peak` is the most that was in use at once."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.bytes_in_use = 0
        self.peak = 0
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> Handle:
        """Return a handle of so many bytes."""
        return self._new(nbytes, np.dtype(np.uint8), (nbytes,))

    def free(self, handle: Handle) -> None:
        """Gives the handle's bytes back; a second time does nothing."""
        data, handle._bytes = handle._bytes, bytearray()
        with self._lock:
            self.bytes_in_use -= len(data)

    def store(self, array: Array) -> Handle:
        """A copy of the array, inside."""
        handle = self._new(array.nbytes, array.dtype, array.shape)
        self.view(handle)[...] = array
        return handle

    def view(self, handle: Handle) -> Array:
        """The handle's bytes as an array; for the provider's own operators and its data transfer alone."""
        if handle._memory is not self:
            raise ValueError(f"a value of {handle._memory.device} came to {self.device}")
        return np.frombuffer(handle._bytes, handle.dtype).reshape(handle.shape)

    def _new(self, nbytes: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Handle:
        with self._lock:
            self.bytes_in_use += nbytes
            self.peak = max(self.peak, self.bytes_in_use)
        return Handle(self, bytearray(nbytes), dtype, shape)


class SampleTransfer:
    """Copies between the CPU and one SampleMemory; counts the bytes that went in and came out."""

    def __init__(self, memory: SampleMemory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self.bytes_in = 0
        self.bytes_out = 0

    def can_copy(self, source: Device, destination: Device) -> bool:
        """Return True for copies between the CPU and the sample's memory."""
        return (source, destination) in ((CPU, self._memory.device), (self._memory.device, CPU))

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        """An array becomes a Handle, a Handle an array; always a copy. Raises TypeError for other values."""
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
