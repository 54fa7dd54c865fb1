"""Values from one memory to another: what a transfer or an allocator answers is looked at."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from ort_lite.errors import ProviderError
from ort_lite.execute.device_memory import allocate_handle, free_after, free_with, memory_of
from ort_lite.execute.results import Expected, read_only, witnesses
from ort_lite.execute.waiting import DeviceEvent, wait_for_device, waits_on_device
from ort_lite.graph.graph import Value
from ort_lite.graph.types import OptionalType, TensorType
from ort_lite.partition.assignment import Hop
from ort_lite.partition.borders import Transfers, route
from ort_lite.provider.ask import format_answer, name_errors, who
from ort_lite.provider.current import CURRENT
from ort_lite.provider.narrowing import narrow, widen
from ort_lite.provider.provider import CPU, Allocator, Device, ExecutionProvider

if TYPE_CHECKING:
    from ort_lite.provider.transfers import CopiesAsync, CopiesInto


class Mover:
    """A copy, into memory of the reader's allocator where it has one and the transfer can.

    What arrives on the CPU is what the graph says of the value (see `Expected`), with sizes by the `witnesses` among `outer`. A
    transfer that copies from the CPU gets a view that it cannot write to. `maker` made the value, for messages. Raises ProviderError.
    """

    def __init__(
        self, value: Value, hop: Hop, maker: str, reader: ExecutionProvider | None = None, outer: Sequence[Value] = ()
    ) -> None:
        self._value, self._hop, self._maker, self._reader = value, hop, maker, reader
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
        if x is None:
            self._check_optional()
            return [None]
        given = self._argument(x)
        with name_errors(self._who):
            made = self._copy(given)
        if self._expected is not None:
            return self._expected([widen(made) if hop.narrows else made], inputs[1:])
        if made is None:
            raise ProviderError(f"{self._who} returned None; expected a value in the memory of {hop.destination}")
        return [made]

    def _argument(self, x: Any) -> Any:
        """Return the value as the transfer gets it."""
        hop = self._hop
        if hop.source != CPU:
            return x
        x = narrow(x, self._value.name, hop.destination) if hop.narrows else x
        return read_only(x) if self._views else x

    def _check_optional(self) -> None:
        """Raise ProviderError for a value that is None unless its type is optional."""
        if not isinstance(self._value.type, OptionalType):
            raise ProviderError(
                f"{self._who} got None; expected a value in the memory of {self._hop.source} from {self._maker}"
            )

    def _copy(self, x: Any) -> Any:
        if self._memory is not None and hasattr(self._hop.transfer, "copy_into"):
            return self._copy_into(x)
        return self._hop.transfer.copy(x, self._hop.source, self._hop.destination)

    def _copy_into(self, x: Any) -> Any:
        """Copy into allocated memory, which is freed with the value, even if the run fails."""
        memory, hop = self._memory, self._hop
        assert memory is not None
        handle = allocate_handle(memory, x.nbytes, self._who)
        try:
            made = cast("CopiesInto", hop.transfer).copy_into(x, hop.source, hop.destination, handle)
            free_with(made, memory, handle, f"{self._who} copy_into", hop.destination)
        except BaseException as error:
            free_after(error, memory, handle, self._who)
            raise
        return made


class AsyncMover(Mover):
    """A copy that does not block, in two steps: one begins it, the other waits until the value is there (see `CopiesAsync`)."""

    def begin(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """`inputs`: the value. Returns what will be its copy, and who says when."""
        x = inputs[0]
        if x is None:
            self._check_optional()
            return [None, None]
        given = self._argument(x)
        with name_errors(self._who):
            return self._begin(given)

    def wait(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """`inputs`: what `begin` returned, the value, and the arrays of the witnesses."""
        made, notification = inputs[:2]
        if notification is not None and not self._leave_wait(notification, inputs[:3]):
            with name_errors(self._who):
                wait_for_device(notification.wait_on_host, CURRENT.options, self._who)
        if self._expected is None:
            return [made]
        return self._expected([widen(made) if self._hop.narrows else made], inputs[3:])

    def _leave_wait(self, notification: Any, held: Sequence[Any]) -> bool:
        """Return True if the reader's queue waits. `held` is what the copy uses."""
        hop, reader, work = self._hop, self._reader, CURRENT.work
        if reader is None or hop.destination in (CPU, hop.source) or reader.device != hop.destination or work is None:
            return False
        event = DeviceEvent(self._who, who(reader), notification, held, from_host=hop.source == CPU)
        if not waits_on_device(reader, event):
            return False
        work.add(event)
        return True

    def _begin(self, x: Any) -> list[Any]:
        memory, hop = self._memory, self._hop
        handle = None if memory is None else allocate_handle(memory, x.nbytes, self._who)
        notification: Any = None
        try:
            begun: Any = cast("CopiesAsync", hop.transfer).copy_async(x, hop.source, hop.destination, handle)
            if not isinstance(begun, tuple) or len(begun) != 2 or not callable(getattr(begun[1], "wait_on_host", None)):
                wanted = "expected the value and a notification with `wait_on_host`"
                raise ProviderError(f"{self._who} copy_async returned {format_answer(begun)}; {wanted}")
            made, notification = begun
            if made is None:
                raise ProviderError(f"{self._who} began None; expected a value in the memory of {hop.destination}")
            if memory is not None:
                free_with(made, memory, handle, f"{self._who} copy_async", hop.destination)
        except BaseException as error:
            if notification is not None:
                with suppress(Exception):
                    notification.wait_on_host()
            if memory is not None:
                free_after(error, memory, handle, self._who)
            raise
        return [made, notification]


def _memory(reader: ExecutionProvider | None, hop: Hop) -> Allocator | None:
    """The reader's allocator, for a transfer that copies into it."""
    if reader is None or reader.device != hop.destination:
        return None
    if not hasattr(hop.transfer, "copy_into") and not hasattr(hop.transfer, "copy_async"):
        return None
    return memory_of(reader)


def move_value(value: Value, x: Any, source: Device, destination: Device, transfers: Transfers, who: str) -> Any:
    """Return `x`, which is `value` in the memory of `source`, in the memory of `destination`. Error messages name `who`."""
    for hop in route(source, destination, transfers, value, who) if source != destination else ():
        (x,) = Mover(value, hop, who)([x])
    return x
