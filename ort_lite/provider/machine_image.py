"""A compiled partition as a machine: consecutive arenas, a table of tensors, and instructions."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy, itemsize, to_numpy
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph.graph import Node
from ort_lite.memory.arenas import Bytes
from ort_lite.record import Record


class TableEntry(Record):
    """The position of a C-contiguous tensor; `offset` counts from the first byte of the memory."""

    offset: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The size of the tensor in bytes."""
        return math.prod(self.shape) * itemsize(self.dtype)

    @property
    def end(self) -> int:
        """The offset of the byte after the tensor."""
        return self.offset + self.nbytes

    def at(self, base: int) -> "TableEntry":
        """Return the entry moved by `base` bytes."""
        return self.replace(offset=self.offset + base)

    def view(self, memory: Bytes) -> Array:
        """Return a view of the tensor in the memory."""
        return memory[self.offset : self.end].view(to_numpy(self.dtype)).reshape(self.shape)


class Region(Record):
    """An arena in the memory. `role` is "constant", "input", "place" (an array of its own) or "scratch"."""

    role: str
    offset: int
    nbytes: int


class MachineInstruction(Record, eq=False):
    """One step. `operands` are names of table entries in the order of the kernel's arguments."""

    node: Node
    kernel: str
    operands: tuple[str, ...]
    execute: Callable[[], None]


class Image(Protocol):
    """A compiled partition for one set of inputs. Offsets count from the first byte of its memory."""

    @property
    def nbytes(self) -> int:
        """The total size of the arenas in bytes."""

    @property
    def table(self) -> Mapping[str, TableEntry]:
        """The tensors by name."""

    @property
    def regions(self) -> Sequence[Region]:
        """The arenas in order of their offsets."""

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the inputs."""

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the outputs."""

    @property
    def results(self) -> Sequence[Any]:
        """The outputs as an ordinary run computes them."""
        ...

    def load(self, memory: Bytes) -> Sequence[MachineInstruction]:
        """Copy constants and inputs into `memory` (nbytes,), aligned to 64 bytes. Return the instructions, which work there."""
        ...

    def run(self, start: int, stop: int) -> None:
        """Execute instructions [start, stop) with as few native calls as `InferenceSession.run`."""
        ...


def entry_of(name: str, array: Any, offset: int) -> TableEntry:
    """Return the table entry of an array. Raises NotImplemented for strings, sequences, maps and optionals."""
    if not isinstance(array, np.ndarray) or array.dtype == object or array.dtype.kind in "SU":
        raise NotSupported(f"{name!r} is {type(array).__name__}: strings, sequences, maps and optionals cannot lie in M")
    return TableEntry(offset, from_numpy(array.dtype), array.shape)


def store(entry: TableEntry, memory: Bytes, result: Any, name: str) -> None:
    """Write a result to its position. Raises NotImplemented if its type or shape differs from the layout."""
    found = entry_of(name, result, entry.offset)
    if found != entry:
        raise NotSupported(
            f"{name!r} came out as {found.dtype}{list(found.shape)}; M was laid out for {entry.dtype}{list(entry.shape)}"
        )
    entry.view(memory)[...] = result
