"""The card's memory: regions that the host cannot read, tensors in them, and copies in and out."""

import weakref
from math import prod
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.allocators import ArenaAllocator, Chunk, Scratch
from ort_lite.provider import CPU, Device


class CardRegion:
    """Bytes of the card's memory, which the host cannot read: only `on_card` can."""

    __slots__ = ("_bytes",)

    def __init__(self, data: memoryview) -> None:
        self._bytes = data

    def __getitem__(self, part: slice) -> "CardRegion":
        return CardRegion(self._bytes[part])


class CardDriver:
    """The malloc and free of the card's driver, from which the arena gets its regions."""

    def allocate(self, nbytes: int) -> CardRegion:
        """Allocate a region of `nbytes` bytes."""
        return CardRegion(memoryview(bytearray(nbytes)))

    def free(self, handle: CardRegion) -> None:
        """Free a region. Nothing to do here: Python's reference counts free it."""


class CardMemory(Protocol):
    """Bytes of the card: a chunk of its arena, or a part of one."""

    @property
    def data(self) -> CardRegion:
        """The bytes."""


class CardPart(NamedTuple):
    """The bytes of a planned tensor: a part of a chunk."""

    data: CardRegion


class CardTensor:
    """A tensor in the card's memory."""

    __slots__ = ("__weakref__", "dtype", "memory", "shape")

    def __init__(self, memory: CardMemory, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.memory, self.dtype, self.shape = memory, dtype, shape

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * self.dtype.itemsize


def on_card(x: CardTensor) -> Array:
    """Return a tensor as the card's kernels and its copy engine see it. No copy."""
    region: CardRegion = x.memory.data
    return np.ndarray(x.shape, x.dtype, region._bytes)


def store(array: Array, arena: ArenaAllocator, given: Chunk | None = None) -> CardTensor:
    """Copy an array to the card.

    The copy goes into the chunk that ort_lite allocated and will free, if there is one. Otherwise it goes into a new chunk, which is
    freed with the tensor.
    """
    made = reserve(array.shape, array.dtype, arena, given)
    on_card(made)[...] = array
    return made


def reserve(shape: tuple[int, ...], dtype: np.dtype[Any], arena: ArenaAllocator, given: Chunk | None = None) -> CardTensor:
    """Return an uninitialized tensor in a chunk: the given one, or a new one that is freed with the tensor."""
    chunk = given or arena.allocate(prod(shape) * dtype.itemsize)
    made = CardTensor(chunk, dtype, shape)
    if given is None:
        weakref.finalize(made, arena.free, chunk).atexit = False
    return made


class CardTransfer:
    """Copies between the host and one card, and within the card. Counts the moves of plans, from one memory to another."""

    def __init__(self, arena: ArenaAllocator) -> None:
        self._arena, self._lock = arena, Lock()
        self.moves, self.moved_bytes = 0, 0

    def can_copy(self, source: Device, destination: Device) -> bool:
        """Return True if source and destination are the host and this card, or this card twice."""
        return self._arena.device in (source, destination) and {source, destination} <= {CPU, self._arena.device}

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        """Copy a value. The result is an array on the host or a CardTensor on the card."""
        seen = value if source == CPU else on_card(value)
        return seen.copy() if destination == CPU else store(seen, self._arena)

    def copy_into(self, value: Array, source: Device, destination: Device, memory: Chunk) -> CardTensor:
        """Copy an input of a partition into memory that ort_lite allocated from the arena and will free."""
        return store(value, self._arena, memory)

    def move(self, source: CardTensor, destination: CardTensor) -> None:
        """Copy a tensor from one memory of the card to another, as a plan says."""
        on_card(destination)[...] = on_card(source)
        with self._lock:
            self.moves += 1
            self.moved_bytes += source.nbytes

    def overwrite(self, value: Any, source: Device, destination: Device, target: CardTensor) -> None:
        """Copy a value into an existing tensor: an OrtValue that is updated, or an output bound to one."""
        on_card(target)[...] = value if source == CPU else on_card(value)


class CardStream(Scratch):
    """The state of one thread: scratch memory on the card, as large as its largest instruction needs.

    Programs that are planned for several memories also have one chunk in each.
    """

    def __init__(self, arena: ArenaAllocator) -> None:
        super().__init__(arena)
        self._memories: dict[str, Scratch] = {}
        self.columns: CardTensor | None = None
        """The planned place of the scratch memory of the instruction that runs, if its program is planned."""

    def scratch(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialized float32 array of a shape in scratch memory."""
        planned = self.columns
        return on_card(CardTensor(planned.memory if planned else self.chunk(4 * prod(shape)), np.dtype(np.float32), shape))

    def memory(self, name: str, nbytes: int) -> CardRegion:
        """Return at least `nbytes` bytes of a memory. Their contents are undefined."""
        found: CardRegion = self._memories.setdefault(name, Scratch(self._arena)).chunk(nbytes).data
        return found

    def release(self) -> None:
        """Return all chunks to the arena."""
        super().release()
        for scratch in self._memories.values():
            scratch.release()
