"""A partition whose nodes the next provider runs when it fails in a run (`on_run_error`), and the copies around it, which may fail too.

What could not be brought to a device stays where it is, as an UncopiedValue; whoever reads it there knows what to do: a partition with
a next provider runs there, a copy back to the CPU has it already, any other reader raises what the copy raised.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ort_lite.compile.incidents import Incidents
from ort_lite.compile.moving import Mover, move_value
from ort_lite.errors import OrtLiteError, RunTerminated, RuntimeException, format_error
from ort_lite.execute.donation import Donating
from ort_lite.execute.execute import Executable
from ort_lite.execute.recording import After
from ort_lite.execute.results import Wrapper, check_results
from ort_lite.graph.graph import Value
from ort_lite.memory import locks
from ort_lite.partition.assignment import Hop
from ort_lite.partition.borders import Transfers
from ort_lite.provider.current import CURRENT, stop_with_run
from ort_lite.provider.provider import CPU, CompiledPartition, Device, Partition
from ort_lite.record import Record


class UncopiedValue(Record):
    """A value in the memory of `device`, in the place of one that should be elsewhere, and why it is not."""

    value: Any
    device: Device
    error: Exception


def find_uncopied_value(inputs: Sequence[Any]) -> UncopiedValue | None:
    """The first of the inputs that did not arrive."""
    return next((x for x in inputs if type(x) is UncopiedValue), None)


class Fallback(Wrapper):
    """A partition. When it fails in a run, `alternatives` compiles its nodes for other providers, which run them from the same inputs.

    The next run tries the partition again. The first failure is reported. On a device it is called with its inputs, and then with
    those of them that are on the CPU as well: `at_home`.
    """

    at_home: tuple[Value, ...] = ()

    def __init__(
        self,
        partition: Partition,
        function: CompiledPartition,
        alternatives: Callable[[Partition], Executable],
        transfers: Transfers,
        incidents: Incidents,
    ) -> None:
        self.partition, self.function = partition, function
        self._alternatives, self._transfers, self._incidents = alternatives, transfers, incidents
        self._made: Executable | None = None
        self._lock = locks.lock()

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        device, partition = self.partition.provider.device, self.partition
        own = inputs[: len(inputs) - len(self.at_home)]
        missing = None if device == CPU else find_uncopied_value(own)
        if missing is not None:
            return self._results(inputs, missing.error)
        try:
            return check_results(self.function(own), len(partition.outputs), partition.name)
        except RunTerminated:
            raise
        except Exception as raised:  # noqa: BLE001  whatever it is: the user asked for the next provider then
            error = raised
        return self._results(inputs, error)

    def _results(self, inputs: Sequence[Any], error: Exception) -> list[Any]:
        """Return what the next provider computes, which is not where its readers expect it unless that is the CPU."""
        pairs = zip(self.partition.outputs, self.rescue(inputs, error), strict=True)
        return [y if self.partition.device_of(value) == CPU else UncopiedValue(y, CPU, error) for value, y in pairs]

    def rescue(self, inputs: Sequence[Any], error: Exception) -> list[Any]:
        """Return its outputs, on the CPU. Raises RuntimeException where nobody else can run its nodes."""
        made = self._next(error)
        return made.run_without_aliases(self._on_cpu(inputs), CURRENT.options)

    def _next(self, error: Exception) -> Executable:
        partition = self.partition
        what = f"{partition.name} failed in a run: {format_error(error)}"
        with self._lock:
            if self._made is None:
                try:
                    with stop_with_run(CURRENT.options):
                        self._made = self._alternatives(partition)
                except RunTerminated:
                    raise
                except OrtLiteError as nobody:
                    raise RuntimeException(f"{what}; and nobody else runs its nodes: {nobody}") from error
                self._incidents.report(f"{what}; its nodes went to the next provider")
            return self._made

    def _on_cpu(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the partition's inputs: as they are on the CPU already, else copied there."""
        partition = self.partition
        home = dict(zip(self.at_home, inputs[len(inputs) - len(self.at_home) :], strict=True))
        found = []
        for value, x in zip(partition.inputs, inputs[: len(partition.inputs)], strict=True):
            if value in home:
                x = home[value]
            else:
                x, device = (x.value, x.device) if type(x) is UncopiedValue else (x, partition.device_of(value))
                x = move_value(value, x, device, CPU, self._transfers, partition.name)
            found.append(x)
        return found


class CarefulMover:
    """A copy of which one side has a next provider: `maker` made the value, its output `index`; with `forgiving` a reader has.

    It is called with what the copy is called with, `own` of them, and then with the inputs of the maker.
    """

    def __init__(self, mover: Mover, hop: Hop, own: int, maker: Fallback | None, index: int, forgiving: bool) -> None:
        self._mover, self._hop, self._own = mover, hop, own
        self._maker, self._index, self._forgiving = maker, index, forgiving

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        x, destination = inputs[0], self._hop.destination
        if type(x) is UncopiedValue:
            return [x.value if x.device == destination else x]
        try:
            return self._mover(inputs[: self._own])
        except RunTerminated:
            raise
        except Exception as error:
            if self._maker is not None:
                found = self._maker.rescue(inputs[self._own :], error)[self._index]
                return [found if destination == CPU else UncopiedValue(found, CPU, error)]
            if not self._forgiving:
                raise
            return [UncopiedValue(x, self._hop.source, error)]


class Strict(Wrapper):
    """A partition without a next provider, on a device to which a value may not have come."""

    def __init__(self, function: CompiledPartition) -> None:
        self.function = function

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        if (missing := find_uncopied_value(inputs)) is not None:
            error = missing.error
            raise RuntimeException(f"an input did not come to the device: {format_error(error)}") from error
        return self.function(inputs)


def behind_linking(function: CompiledPartition) -> CompiledPartition:
    """Return the guarded partition that a step calls, without what linking put around it."""
    while isinstance(function, Fallback | Strict | Donating | After):
        function = function.function
    return function
