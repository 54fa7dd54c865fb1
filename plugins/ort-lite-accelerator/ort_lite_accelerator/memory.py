"""The card's memory: regions that the host cannot read, tensors in them, and copies in and out."""

import weakref
from functools import partial
from math import prod
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.allocators import ArenaAllocator, Chunk, Scratch
from ort_lite.provider import CPU, Device
from ort_lite_accelerator.queue import CardQueue, CardWork


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
    """A tensor in the card's memory.

    `work` is the work in a queue that writes it, or None. A result may have no memory and no shape before `become`.
    """

    __slots__ = ("__weakref__", "_shape", "_source", "dtype", "memory", "work")

    def __init__(self, memory: CardMemory | None, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> None:
        self.memory, self.dtype, self._shape = memory, dtype, shape
        self.work: CardWork | None = None
        self._source: CardTensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape. If it does not follow from those of the inputs, it is known when the card has computed the tensor."""
        if self._shape is None and self.work is not None:
            self.work.wait_on_host()
        assert self._shape is not None
        return self._shape

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def become(self, made: "CardTensor") -> None:
        """Take over the memory of a tensor that the card has just written, and keep the tensor that it is freed with."""
        if self.memory is not made.memory:
            self._source = made if made._source is None else made._source
        self.memory, self.dtype, self._shape = made.memory, made.dtype, made.shape


def view(x: CardTensor) -> Array:
    """Return a tensor as the card's kernels see it, whatever work is still queued. No copy."""
    assert x.memory is not None
    region: CardRegion = x.memory.data
    return np.ndarray(x.shape, x.dtype, region._bytes)


def on_card(x: CardTensor) -> Array:
    """Return a tensor as the card's copy engine sees it, once the work that writes it is done. No copy."""
    if x.work is not None:
        x.work.wait_on_host()
    return view(x)


def store(array: Array, arena: ArenaAllocator, given: CardMemory | None = None) -> CardTensor:
    """Copy an array to the card.

    The copy goes into the chunk that ort_lite allocated and will free, if there is one. Otherwise it goes into a new chunk, which is
    freed with the tensor.
    """
    made = reserve(array.shape, array.dtype, arena, given)
    view(made)[...] = array
    return made


def reserve(shape: tuple[int, ...], dtype: np.dtype[Any], arena: ArenaAllocator, given: CardMemory | None = None) -> CardTensor:
    """Return an uninitialized tensor in a chunk: the given one, or a new one that is freed with the tensor."""
    if given is not None:
        return CardTensor(given, dtype, shape)
    chunk = arena.allocate(prod(shape) * dtype.itemsize)
    made = CardTensor(chunk, dtype, shape)
    weakref.finalize(made, arena.free, chunk).atexit = False
    return made


class CardTransfer:
    """Copies between the host and one card, and within the card. Counts the moves of plans, from one memory to another."""

    def __init__(self, arena: ArenaAllocator, queue: CardQueue) -> None:
        self._arena, self._queue, self._lock = arena, queue, Lock()
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
        """Copy a value into an existing tensor, after the work that reads it: an OrtValue that is updated, or a bound output.

        A copy within the card is work of the queue. A copy of the host's memory is waited for.
        """
        after = [x.work for x in (value, target) if isinstance(x, CardTensor) and x.work is not None]
        seen = (lambda: value) if source == CPU else partial(view, value)
        target.work = self._queue.submit(lambda: np.copyto(view(target), seen()), after)
        if source == CPU:
            target.work.wait_on_host()


class CardStream(Scratch):
    """The state of one thread: scratch memory on the card, as large as its largest instruction needs, and its last work.

    Programs that are planned for several memories also have one chunk in each.
    """

    def __init__(self, arena: ArenaAllocator) -> None:
        super().__init__(arena)
        self._memories: dict[str, Scratch] = {}
        self.work: CardWork | None = None
        self.columns: CardTensor | None = None
        """The planned place of the scratch memory of the instruction that runs, if its program is planned."""

    def scratch(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialized float32 array of a shape in scratch memory."""
        planned = self.columns
        return view(CardTensor(planned.memory if planned else self.chunk(4 * prod(shape)), np.dtype(np.float32), shape))

    def memory(self, name: str, nbytes: int) -> CardRegion:
        """Return at least `nbytes` bytes of a memory. Their contents are undefined."""
        found: CardRegion = self._memories.setdefault(name, Scratch(self._arena)).chunk(nbytes).data
        return found

    def release(self) -> None:
        """Return all chunks to the arena."""
        super().release()
        for scratch in self._memories.values():
            scratch.release()
