"""Copies around partitions whose nodes go to the next provider when they fail in a run (`on_run_error`): memory may fail too.

What could not be brought to a device stays where it is, as a Stranded value; whoever reads it there knows what to do: a partition with
a next provider runs there, a copy back to the CPU has it already, any other reader raises what the copy raised.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ort_lite.compile.moving import Mover
from ort_lite.errors import RunTerminated, RuntimeException, told
from ort_lite.execute.results import Wrapper
from ort_lite.graph.graph import Value
from ort_lite.partition.assignment import Hop
from ort_lite.provider.provider import CPU, CompiledPartition, Device
from ort_lite.record import Record


class Stranded(Record):
    """A value in the memory of `device`, in the place of one that should be elsewhere, and why it is not."""

    value: Any
    device: Device
    error: Exception


def stranded(inputs: Sequence[Any]) -> Stranded | None:
    """The first of the inputs that did not arrive."""
    return next((x for x in inputs if type(x) is Stranded), None)


class Rescuer(Wrapper, ABC):
    """A partition that knows who runs its nodes when it, or memory around it, fails.

    On a device it is called with its inputs, and then with those of them that are on the CPU as well: `at_home`.
    """

    at_home: tuple[Value, ...] = ()

    @abstractmethod
    def rescue(self, inputs: Sequence[Any], error: Exception) -> list[Any]:
        """Its outputs, on the CPU. Raises RuntimeException where nobody else can."""


class CarefulMover:
    """A copy of which one side has a next provider: `maker` made the value, its output `index`; with `forgiving` a reader has.

    It is called with what the copy is called with, `own` of them, and then with the inputs of the maker.
    """

    def __init__(self, mover: Mover, hop: Hop, own: int, maker: Rescuer | None, index: int, forgiving: bool) -> None:
        self._mover, self._hop, self._own = mover, hop, own
        self._maker, self._index, self._forgiving = maker, index, forgiving

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        x, destination = inputs[0], self._hop.destination
        if type(x) is Stranded:
            return [x.value if x.device == destination else x]
        try:
            return self._mover(inputs[: self._own])
        except RunTerminated:
            raise
        except Exception as error:
            if self._maker is not None:
                found = self._maker.rescue(inputs[self._own :], error)[self._index]
                return [found if destination == CPU else Stranded(found, CPU, error)]
            if not self._forgiving:
                raise
            return [Stranded(x, self._hop.source, error)]


class Strict(Wrapper):
    """A partition without a next provider, on a device to which a value may not have come."""

    def __init__(self, function: CompiledPartition) -> None:
        self.function = function

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        if (missing := stranded(inputs)) is not None:
            error = missing.error
            raise RuntimeException(f"an input did not come to the device: {told(error)}") from error
        return self.function(inputs)
