"""Nodes that cannot be lowered before the run: those after a value whose shape, or whose elements, only the run tells.

A deferred suffix is one step at the end of a program. It makes a Program of the remaining nodes for the ranks that came (and for the
exact shape, or the very elements, of the value that was open), and keeps it for the next run that brings the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph import Node, OptionalType, SequenceType, TensorType, Value
from ort_lite.inference import Info, constant_info
from ort_lite.shapes import symbol
from ort_lite_cpu.run.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from ort_lite.provider.compiled import Holdings

PROGRAMS_KEPT = 64


class SuffixProgram(Protocol):
    """The members of a Program that steps of another one use."""

    def __call__(self, inputs: Sequence[Any]) -> list[Any]: ...

    def memory(self) -> Holdings:
        """Return the bytes that the program holds."""


class DeferredSuffix:
    """A callable with the arrays of the live values; it returns the arrays of the wanted ones."""

    def __init__(
        self,
        program: Callable[[Sequence[Node], Sequence[tuple[Value, Info]], Sequence[Value]], SuffixProgram],
        nodes: Sequence[Node],
        live: Mapping[Value, Info],
        wanted: Sequence[Value],
        open_: Value,
        numbers: bool,
    ) -> None:
        """`program`: of nodes, inputs and outputs. `live`: values that the nodes need, with what is known of them.

        `open_` is the value that could not be lowered further. numbers: its elements are wanted, else its shape.
        """
        self._program, self._nodes = program, tuple(nodes)
        self._live, self._wanted = dict(live), tuple(wanted)
        self._open, self._numbers = open_, numbers
        self.programs: BoundedCache[Any, SuffixProgram] = BoundedCache(PROGRAMS_KEPT)

    def __call__(self, *arrays: Any) -> list[Any]:
        if self._numbers:  # the program is lowered for the numbers that it is looked up by, whoever writes to a feed
            arrays = tuple([self._own(value, array) for value, array in zip(self._live, arrays, strict=True)])
        key = tuple([self._key(value, array) for value, array in zip(self._live, arrays, strict=True)])
        program = self.programs.get(key)
        if program is None:
            program = self.programs.keep(key, self._lower(arrays))
        return program(arrays)

    def _own(self, value: Value, array: Any) -> Any:
        return array.copy() if value is self._open and isinstance(array, np.ndarray) else array

    def _key(self, value: Value, array: Any) -> Any:
        """Return the key of a program: ranks, and of the open value its shape or its elements."""
        if not isinstance(array, np.ndarray):
            return tuple((item.dtype, item.shape) for item in array or ()) if value is self._open else None
        if value is not self._open:
            return array.dtype, array.ndim
        return array.dtype, array.shape, array.tobytes() if self._numbers else b""

    def _lower(self, arrays: Sequence[Any]) -> SuffixProgram:
        given = zip(self._live.items(), arrays, strict=True)
        inputs = [(value, self._info(value, info, array)) for (value, info), array in given]
        return self._program(self._nodes, inputs, self._wanted)

    def _info(self, value: Value, info: Info, array: Any) -> Info:
        """Return the earlier facts, and those that the run has told since."""
        if not isinstance(array, np.ndarray):
            return _sequence_info(value, info, array or ()) if value is self._open else info
        optional = isinstance(info.type, OptionalType)  # one that has an element comes as the element
        if value is self._open and self._numbers and not optional:
            return constant_info(array.copy())
        if value is not self._open and info.shape is not None:
            return info
        dims = array.shape if value is self._open else tuple(symbol(f"{value.name}.{axis}") for axis in range(array.ndim))
        tensor = TensorType(from_numpy(array.dtype), dims)
        return Info(OptionalType(tensor) if optional else tensor)


def _sequence_info(value: Value, info: Info, elements: Sequence[Array]) -> Info:
    """Return the type of a sequence by its elements. Raises ValueError where that tells no more than was known."""
    shapes = [element.shape for element in elements]
    if len({len(shape) for shape in shapes}) == 1:
        dims = tuple(column[0] if len(set(column)) == 1 else -1 for column in zip(*shapes, strict=True))
        return Info(SequenceType(TensorType(from_numpy(elements[0].dtype), dims)))
    if isinstance(info.type, SequenceType) or not elements:
        ranks = ", ".join(str(len(shape)) for shape in shapes) or "none, as it is empty"
        raise ValueError(f"the elements of the sequence {value.name!r} should have one rank; theirs: {ranks}")
    return Info(SequenceType(TensorType(from_numpy(elements[0].dtype))))
