"""Values from one memory to another: what a transfer or an allocator answers is looked at."""

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from ort_lite.errors import OrtLiteError, ProviderError, RuntimeException, told
from ort_lite.execute.results import Expected, read_only, witnesses
from ort_lite.graph.graph import Value
from ort_lite.graph.types import OptionalType, TensorType
from ort_lite.partition.assignment import Hop
from ort_lite.provider.ask import ask
from ort_lite.provider.provider import CPU, Allocator, ExecutionProvider


class Mover:
    """A copy, into memory of the reader's allocator where it has one and the transfer can.

    What arrives on the CPU is what the graph says of the value (see `Expected`), with sizes by the `witnesses` among `outer`. A
    transfer that copies from the CPU gets a view that it cannot write to. `maker` made the value, for messages. Raises ProviderError.
    """

    def __init__(
        self, value: Value, hop: Hop, maker: str, reader: ExecutionProvider | None = None, outer: Sequence[Value] = ()
    ) -> None:
        self._value, self._hop = value, hop
        way = f"{hop.source} -> {hop.destination} by {type(hop.transfer).__name__}"
        self._who = f"{maker}: copy of {value.name!r}, {way},"
        home = hop.destination == CPU
        self.witnesses = witnesses([value], outer) if home else ()
        self._expected = Expected(f"{maker}, copied {way},", [value], self.witnesses) if home else None
        self._views = reader is None or not reader.writes_no_input
        self._memory = _memory(reader, hop) if isinstance(value.type, TensorType) else None

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """`inputs`: the value, and the arrays of the witnesses."""
        x, hop = inputs[0], self._hop
        if x is None and isinstance(self._value.type, OptionalType):
            return [None]
        given = read_only(x) if hop.source == CPU and self._views else x
        made = self._copied(given)
        if self._expected is not None:
            return self._expected([made], inputs[1:])
        if made is None:
            raise ProviderError(f"{self._who} returned None; expected a value in the memory of {hop.destination}")
        return [made]

    def _copied(self, x: Any) -> Any:
        try:
            return (
                self._copied_into(x)
                if self._memory is not None
                else self._hop.transfer.copy(x, self._hop.source, self._hop.destination)
            )
        except OrtLiteError:
            raise
        except Exception as error:
            raise RuntimeException(f"{self._who} failed: {told(error)}") from error

    def _copied_into(self, x: Any) -> Any:
        """What is allocated goes back when the value is gone, also that of a run that fails."""
        memory, hop = self._memory, self._hop
        assert memory is not None
        handle = memory.allocate(x.nbytes)
        free = partial(memory.free, handle)
        try:
            made = hop.transfer.copy_into(x, hop.source, hop.destination, handle)  # type: ignore[attr-defined]
            self._freed_with(made, handle, free)
        except BaseException:
            free()
            raise
        return made

    def _freed_with(self, made: Any, handle: Any, free: partial[None]) -> None:
        wanted = f"expected a value of its own in the memory of {self._hop.destination}"
        if made is handle:
            raise ProviderError(f"{self._who} copy_into returned the handle; {wanted}")
        try:
            weakref.finalize(made, free).atexit = False
        except TypeError:
            came = "None" if made is None else f"a {type(made).__name__}, to which no weak reference may point"
            raise ProviderError(f"{self._who} copy_into returned {came}; {wanted}") from None


def _memory(reader: ExecutionProvider | None, hop: Hop) -> Allocator | None:
    """The reader's allocator, for a transfer that copies into it."""
    if reader is None or reader.device != hop.destination or not hasattr(hop.transfer, "copy_into"):
        return None
    memory: Allocator | None = ask(reader, "allocator")
    return memory


def moved(value: Value, x: Any, hops: Sequence[Hop], maker: str) -> Any:
    """A value at the end of a route."""
    for hop in hops:
        (x,) = Mover(value, hop, maker)([x])
    return x
