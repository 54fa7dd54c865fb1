"""A compiled partition as the machine sees it: arenas end to end, a table of its tensors, and instructions."""

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
    """The position of a tensor: `offset` from the first byte of M, C-contiguous from there on."""

    offset: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * itemsize(self.dtype)

    @property
    def end(self) -> int:
        return self.offset + self.nbytes

    def at(self, base: int) -> "TableEntry":
        return self.replace(offset=self.offset + base)

    def view(self, memory: Bytes) -> Array:
        """The tensor in M itself: a view, not a copy."""
        return memory[self.offset : self.end].view(to_numpy(self.dtype)).reshape(self.shape)


class Region(Record):
    """An arena inside M: `role` is "constant", "input", "place" (an array of its own) or "scratch"."""

    role: str
    offset: int
    nbytes: int


class MachineInstruction(Record, eq=False):
    """One step. `operands` are names of the table, in the order in which the kernel takes them."""

    node: Node
    kernel: str
    operands: tuple[str, ...]
    execute: Callable[[], None]


class Image(Protocol):
    """A compiled partition for one set of inputs. Offsets of `table` and `regions` count from the first byte of its memory."""

    @property
    def nbytes(self) -> int: ...

    @property
    def table(self) -> Mapping[str, TableEntry]: ...

    @property
    def regions(self) -> Sequence[Region]: ...

    @property
    def inputs(self) -> Sequence[str]: ...

    @property
    def outputs(self) -> Sequence[str]: ...

    @property
    def results(self) -> Sequence[Any]:
        """The outputs, as an ordinary run computes them."""
        ...

    def load(self, memory: Bytes) -> Sequence[MachineInstruction]:
        """Copies constants and inputs into `memory`, (nbytes,), at a multiple of 64 bytes. What it returns works there."""
        ...

    def run(self, start: int, stop: int) -> None:
        """Instructions [start, stop) as `InferenceSession.run` executes them: in as few native calls as it does."""
        ...


def entry_of(name: str, array: Any, offset: int) -> TableEntry:
    """Raises NotImplemented for what has no bytes of its own: strings, sequences, maps, optionals."""
    if not isinstance(array, np.ndarray) or array.dtype == object or array.dtype.kind in "SU":
        raise NotSupported(f"{name!r} is {type(array).__name__}: strings, sequences, maps and optionals cannot lie in M")
    return TableEntry(offset, from_numpy(array.dtype), array.shape)


def store(entry: TableEntry, memory: Bytes, result: Any, name: str) -> None:
    """Writes a result where the table says. Raises NotImplemented where it is not what it was when M was laid out."""
    found = entry_of(name, result, entry.offset)
    if found != entry:
        raise NotSupported(
            f"{name!r} came out as {found.dtype}{list(found.shape)}; M was laid out for {entry.dtype}{list(entry.shape)}"
        )
    entry.view(memory)[...] = result
