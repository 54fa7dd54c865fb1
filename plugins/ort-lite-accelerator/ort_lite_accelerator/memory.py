"""The card's memory: regions that the host cannot look into, values in them, and the way in and out."""

import weakref
from math import prod
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.allocators import ArenaAllocator, Chunk, Scratch
from ort_lite.provider import CPU, Device


class Region:
    """Bytes of the card: neither a buffer nor an array. `on_card` alone looks inside."""

    __slots__ = ("_bytes",)

    def __init__(self, data: memoryview) -> None:
        self._bytes = data

    def __getitem__(self, part: slice) -> "Region":
        return Region(self._bytes[part])


class Driver:
    """The source of the arena's regions: malloc and free of the card's driver."""

    def allocate(self, nbytes: int) -> Region:
        """Return a region of so many bytes of the card."""
        return Region(memoryview(bytearray(nbytes)))

    def free(self, handle: Region) -> None:
        """Python's reference counts do it here."""


class Tensor:
    """A value on the card."""

    __slots__ = ("__weakref__", "dtype", "memory", "shape")

    def __init__(self, memory: Chunk, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.memory, self.dtype, self.shape = memory, dtype, shape

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * self.dtype.itemsize


def on_card(x: Tensor) -> Array:
    """Return a value as the card's kernels and its copy engine see it."""
    region: Region = x.memory.data
    return np.ndarray(x.shape, x.dtype, region._bytes)


def stored(array: Array, arena: ArenaAllocator, given: Chunk | None = None) -> Tensor:
    """A copy of the array: in memory that ort_lite took from the arena and gives back, or in some that goes back with the value."""
    made = Tensor(given or arena.allocate(array.nbytes), array.dtype, array.shape)
    if given is None:
        weakref.finalize(made, arena.free, made.memory).atexit = False
    on_card(made)[...] = array
    return made


class CardTransfer:
    """Copies between the host and one card, and inside of it."""

    def __init__(self, arena: ArenaAllocator) -> None:
        self._arena = arena

    def can_copy(self, source: Device, destination: Device) -> bool:
        """Return True for copies to or from the card."""
        return self._arena.device in (source, destination) and {source, destination} <= {CPU, self._arena.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        """Copy a value to or from the card."""
        seen = value if source == CPU else on_card(value)
        return seen.copy() if destination == CPU else stored(seen, self._arena)

    def copy_into(self, value: Array, source: Device, destination: Device, memory: Chunk) -> Tensor:
        """An input of a partition: ort_lite took `memory` from the arena, and gives it back."""
        return stored(value, self._arena, memory)

    def overwrite(self, value: Any, source: Device, destination: Device, target: Tensor) -> None:
        """An OrtValue on the card is updated, or a run writes to one that its output is bound to."""
        on_card(target)[...] = value if source == CPU else on_card(value)


class Stream(Scratch):
    """The state of a thread: scratch memory on the card, as much as its largest instruction asked for."""

    def scratch(self, shape: tuple[int, ...]) -> Array:
        """float32; the contents are anything."""
        return on_card(Tensor(self.chunk(4 * prod(shape)), np.dtype(np.float32), shape))
