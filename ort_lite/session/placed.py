"""Runs with inputs or outputs in device memory. A value is copied only if its reader is on another device."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.compile import lifecycle
from ort_lite.compile.compile import Compiled
from ort_lite.compile.fallback import UncopiedValue
from ort_lite.compile.linking import DeviceSlots, Linker
from ort_lite.dtypes import ort_name
from ort_lite.errors import InvalidArgument, ProviderError
from ort_lite.execute.donation import Donations
from ort_lite.execute.execute import Call, Executable
from ort_lite.execute.feeds import Check, Feeds, check_shape
from ort_lite.execute.replay import KeptMemory
from ort_lite.execute.results import KnownShapes
from ort_lite.execute.waiting import DeviceWork, RunsInFlight
from ort_lite.graph.graph import Value
from ort_lite.graph.types import OptionalType, TensorType
from ort_lite.log.events import Stream
from ort_lite.memory.session_memory import SessionMemory
from ort_lite.options.config_keys import DISABLE_SYNC
from ort_lite.options.options import RunOptions
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.borders import Transfers, can_copy, copies, transfers_of
from ort_lite.provider.abilities import replays
from ort_lite.provider.ask import format_answer, who
from ort_lite.provider.current import CURRENT
from ort_lite.provider.narrowing import narrows
from ort_lite.provider.provider import CPU, Device, ExecutionProvider
from ort_lite.session.device_values import fetch, put, wait_for_readers
from ort_lite.session.prepare import Prepared
from ort_lite.session.ready import Ready
from ort_lite.tensors.device_tensor import DeviceTensor, on_device

if TYPE_CHECKING:
    from ort_lite.execute.parallel import Workers

_KEPT = 64
"""The number of placements whose steps a session caches (least recently used first out)."""
_Lent = tuple[tuple[str, str | None], ...] | None
"""The inputs that may be donated (see `DeviceSlots.donations`), by name."""
_Steps = Callable[[tuple[Device | None, ...], tuple[tuple[str, Device], ...], _Lent], Ready]


class ReadyOnDevices(Ready):
    """A compiled model with at least one provider on a device."""

    __slots__ = ("_homes", "_in_flight", "_is_wrapped", "_providers", "_replays", "_shapes", "_steps", "_values")

    def __init__(
        self, prepared: Prepared, events: Stream, session_memory: SessionMemory, workers: "Workers | None" = None
    ) -> None:
        executable = prepared.compiled.executable
        providers = list(prepared.assignment.providers.values())
        transfers = transfers_of(providers)
        self._providers = {p.device: p for p in reversed(providers) if p.device != CPU}
        stays = lru_cache(_KEPT)(partial(_can_reach, frozenset(self._providers), transfers))
        feeds = Feeds(executable.inputs, partial(_anywhere, stays, transfers.narrow))
        super().__init__(prepared, events, session_memory, feeds=feeds, workers=workers)
        self._values = {value.name: value for value in executable.outputs}
        self._shapes = KnownShapes(executable.outputs, executable.inputs)
        made = partial(_link_steps, prepared, events, session_memory, self._noted, workers, self._providers, transfers)
        self._steps: _Steps = lru_cache(_KEPT)(made)
        partitions = prepared.assignment.levels[0].partitions
        self._is_wrapped = False
        self._replays = any(replays(one) for one in prepared.compiled.partitions.values())
        self._homes = {value.name: p.provider.device for p in partitions for value in p.outputs if p.provider.device != CPU}
        self._in_flight = RunsInFlight()

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None, *call: Call
    ) -> list[Any]:
        """Run the model, once earlier runs that returned early are finished. Inputs may be values on devices.

        `call` is for runs without such inputs that do not return early.
        """
        if _returns_early(run_options):
            return self.start_run(output_names, input_feed, run_options, {})
        with _with_timeout(run_options) as own:
            self._wait_for_earlier(input_feed, own)
            return self._run_anywhere(output_names, input_feed, own, *call)

    def start_run(
        self,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        run_options: RunOptions | None,
        wanted: Mapping[str, Device],
        donations: Donations | None = None,
        memory: KeptMemory | None = None,
        waits: bool = False,
    ) -> list[Any]:
        """Run the model and return before the devices have finished, or as `run` does if it `waits`.

        Outputs in `wanted` stay on that device as DeviceTensors.
        """
        with _with_timeout(run_options) as own:
            if waits and not _returns_early(own):
                self._wait_for_earlier(feed, own)
                return self.run_on_devices(names, feed, own, wanted, donations, memory)
            work = self._in_flight.begin(_works_of(feed), own)
            CURRENT.early = work
            try:
                if wanted or donations is not None:
                    outputs = self.run_on_devices(names, feed, own, wanted, donations, memory)
                else:
                    outputs = self._run_anywhere(names, feed, own)
            finally:
                CURRENT.early = None
            self._in_flight.add(work)
        for tensor in _there(feed):
            if self._providers.get(tensor.device) is not tensor.provider:
                tensor.readers = [one for one in (*tensor.readers, work) if one.is_pending()]
        for made in outputs:
            if type(made) is DeviceTensor and work.is_open():
                made.work = work
        return outputs

    def finish(self) -> None:
        """Wait for the runs that returned early. Raises the first error that nobody has been told."""
        self._in_flight.wait()

    def _wait_for_earlier(self, feed: Mapping[str, Any], options: RunOptions | None) -> None:
        """Wait for runs that returned early, and for the work that makes the inputs. Raises their errors."""
        self._in_flight.wait(options)
        for work in _works_of(feed):
            work.require(options)

    def _run_anywhere(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None, *call: Call
    ) -> list[Any]:
        if _there(input_feed):
            return self.run_on_devices(output_names, input_feed, run_options, {})
        return super().run(output_names, input_feed, run_options, *call)

    def run_on_devices(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
        wanted: Mapping[str, Device],
        donations: Donations | None = None,
        memory: KeptMemory | None = None,
    ) -> list[Any]:
        """Run the model. Outputs in `wanted` stay on that device as DeviceTensors.

        The inputs of `donations` are overwritten as far as it says that they are `taken`. With `memory`, partitions replay.
        """
        inputs = self._feeds(input_feed)
        if run_options is not None:
            self._check_entries(run_options)
        names = tuple(dict.fromkeys(output_names or self._names))
        self._check_names(names)
        there = [x for x in inputs if type(x) is DeviceTensor]
        homes = tuple(x.device if type(x) is DeviceTensor else None for x in inputs)
        wanted = {name: device for name, device in wanted.items() if device in self._providers}
        places = tuple((name, wanted.get(name, CPU)) for name in names)
        memory = memory if self._replays else None
        lent = None if memory is not None else self._lent(donations, inputs)
        if lent and self._is_wrapped and self._steps(homes, places, ()).is_watched:
            lent = ()
        steps = self._steps(homes, places, lent)
        executable = steps.compiled.executable
        self._wait_for_others(executable, there, run_options)
        values = [tensor.value for tensor in there]  # read now: the tensors may get other values during the run
        feed: Any = [*inputs, *values]  # the steps' own Feeds are `list`
        call = () if memory is None else (memory.calls(executable, names),)
        seen = self._not_lent(donations, memory, executable, values)
        outputs = dict(zip(names, steps.run(None, feed, run_options, *call), strict=True))
        shapes = dict(zip(self._names, self._shapes.of(inputs), strict=True)) if wanted else {}
        for name, device in wanted.items():
            if device != CPU and name in outputs:
                outputs[name] = self._to_device_tensor(
                    self._values[name], outputs[name], self._providers[device], shapes[name], seen
                )
        return [outputs[name] for name in output_names or self._names]

    def home(self, name: str) -> Device:
        """Return the device on which a partition makes an output."""
        return self._homes.get(name, CPU)

    def _lent(self, donations: Donations | None, inputs: Sequence[Any]) -> _Lent:
        """Return the inputs that may be donated: values of the session's providers, each one input. Verified runs have none."""
        if donations is None or CURRENT.watch is not None:
            return ()
        names = [value.name for value in self.compiled.executable.inputs]
        counts = Counter(id(x.value) for x in inputs if type(x) is DeviceTensor)
        return tuple(
            (name, donations.allowed[name])
            for name, x in zip(names, inputs, strict=True)
            if name in donations.allowed
            and type(x) is DeviceTensor
            and counts[id(x.value)] == 1
            and self._providers.get(x.device) is x.provider
        )

    def _not_lent(
        self, donations: Donations | None, memory: KeptMemory | None, executable: Executable, values: Sequence[Any]
    ) -> set[int]:
        """Return the ids of the values whose memory the caller keeps, and tell `donations` which it does not."""
        seen = set(map(id, values))
        if donations is not None:
            donations.taken = frozenset(value.name for value in executable.donated)
            there = zip(executable.inputs[len(executable.inputs) - len(values) :], values, strict=True)
            seen.difference_update(id(x) for value, x in there if value in executable.donated)
        return seen if memory is None else seen.difference(memory.targets())

    def _wait_for_others(self, executable: Executable, there: Sequence[DeviceTensor], run_options: RunOptions | None) -> None:
        """Wait for other provider instances: for their work that makes inputs, and for their reads of inputs that are donated.

        The queue of the session's provider waits for inputs if it can, or else the host.
        """
        for value, tensor in zip(executable.inputs[len(executable.inputs) - len(there) :], there, strict=True):
            mine = self._providers.get(tensor.device)
            if tensor.work is not None and mine is not tensor.provider:
                tensor.work.hand_over(mine, run_options)
            if value in executable.donated:
                wait_for_readers(tensor, run_options)

    def wrap_runs(self, wrap: Callable[[Ready, lifecycle.Run], lifecycle.Run]) -> None:
        """Wrap the runs of all placements."""
        super().wrap_runs(wrap)
        self._is_wrapped = True
        link = self._steps

        def link_and_wrap(homes: tuple[Device | None, ...], wanted: tuple[tuple[str, Device], ...], lent: _Lent) -> Ready:
            steps = link(homes, wanted, lent)
            steps.wrap_runs(wrap)
            return steps

        self._steps = lru_cache(_KEPT)(link_and_wrap)

    def run_into(self, input_feed: Mapping[str, Any], targets: Sequence[Any]) -> list[Any] | None:
        """Run the model and write outputs into `targets`; None if that is not possible."""
        if any(on_device(x) is not None for x in input_feed.values()):
            return None
        return super().run_into(input_feed, targets)

    def _to_device_tensor(
        self, value: Value, x: Any, provider: ExecutionProvider, shape: tuple[int, ...] | None, seen: set[int]
    ) -> DeviceTensor:
        """Return an output as a device tensor. It is copied if it is also an input or another output."""
        if type(x) is UncopiedValue or value.constant is not None:
            return put(x.value if type(x) is UncopiedValue else x, provider)
        made = DeviceTensor(x, provider, value.dtype or "", shape_on_device(value, x, provider, shape))
        if id(x) in seen:
            return put(fetch(made), provider)
        seen.add(id(x))
        return made


def _there(feed: Any) -> list[DeviceTensor]:
    """Return the values of a feed that are on devices."""
    return [tensor for x in getattr(feed, "values", tuple)() if (tensor := on_device(x)) is not None]


def _works_of(feed: Any) -> list[DeviceWork]:
    """Return the work on devices that the values of a feed come from."""
    return [tensor.work for tensor in _there(feed) if tensor.work is not None]


def _returns_early(options: RunOptions | None) -> bool:
    """Return True if the options let `run` return before the devices have finished."""
    return options is not None and options.config(DISABLE_SYNC, "") == "1"


def _with_timeout(options: RunOptions | None) -> AbstractContextManager[RunOptions | None]:
    """Return the options of a run, with its timeout in force."""
    if options is None or not options.timeout:
        return nullcontext(options)
    from ort_lite.options.deadline import limit_run

    return limit_run(options, options.timeout)


def _anywhere(stays: Callable[[Device], bool], narrow: Collection[Device], value: Value, accept: Check) -> Check:
    """Return a check that passes device tensors through if `stays`, and copies others to the CPU.

    `narrow` are the devices known to have int32 elements in place of int64.
    """
    type_ = value.type.element if isinstance(value.type, OptionalType) else value.type
    if not isinstance(type_, TensorType):
        return accept
    name, dtype, shape = value.name, type_.dtype, type_.shape

    def accept_anywhere(x: Any) -> Any:
        tensor = on_device(x)
        if tensor is None or not stays(tensor.device) or (narrows(tensor.provider, dtype) and tensor.device not in narrow):
            return accept(x)
        if tensor.dtype != dtype:
            came = f"{ort_name(tensor.dtype)} of shape {list(tensor.shape)}, on {tensor.device}"
            raise InvalidArgument(f"input {name!r} is {came}; expected {ort_name(dtype)}")
        check_shape(name, tensor.shape, shape)
        return tensor

    return accept_anywhere


def _can_reach(own: frozenset[Device], transfers: Transfers, device: Device) -> bool:
    """Return True if the session's own transfers can read a value from the device."""
    return device in own or any(can_copy(transfer, device, CPU) for transfer in transfers.each)


def _link_steps(
    prepared: Prepared,
    events: Stream,
    session_memory: SessionMemory,
    noted: set[str],
    workers: "Workers | None",
    providers: Mapping[Device, ExecutionProvider],
    transfers: Transfers,
    homes: tuple[Device | None, ...],
    wanted: tuple[tuple[str, Device], ...],
    lent: _Lent,
) -> Ready:
    """Link steps for inputs and outputs on these devices. Outputs that are constants stay on the CPU."""
    graph, compiled = prepared.assignment.graph, prepared.compiled
    by_name = {value.name: value for value in graph.outputs}
    inputs = {value.name: value for value in graph.inputs}
    device_slots = DeviceSlots(
        {value: home for value, home in zip(graph.inputs, homes, strict=True) if home is not None},
        {by_name[name]: None if by_name[name].constant is not None else providers.get(device) for name, device in wanted},
        None if lent is None else {inputs[name]: None if only is None else by_name[only] for name, only in lent},
    )
    executable = link_on_devices(prepared.assignment, compiled, device_slots, transfers)
    placed = prepared.replace(compiled=compiled.replace(executable=executable))
    return Ready(placed, events, session_memory, noted, list, workers)


def link_on_devices(assignment: Assignment, compiled: Compiled, device_slots: DeviceSlots, transfers: Transfers) -> Executable:
    """Link compiled partitions anew, for inputs that are on devices and outputs that stay there."""
    main = assignment.levels[0]
    ends = {value: CPU if provider is None else provider.device for value, provider in device_slots.outputs.items()}
    level = main.replace(copies=copies(main.partitions, transfers, device_slots.inputs, ends))
    return Linker(level, (), compiled.called, device_slots).executable()


def shape_on_device(value: Value, x: Any, provider: ExecutionProvider, known: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape of a value on a device, checked against the graph. Raises ProviderError for a mismatch."""
    about = f"{who(provider)}: output {value.name!r}, which stays on {provider.device},"
    found: Any = getattr(x, "shape", known)
    if x is None:
        raise ProviderError(f"{about} is None; expected a value in the memory of the device")
    if found is None:
        raise ProviderError(
            f"{about} is a {type(x).__name__} without `shape`, and only the run tells which it has; expected that attribute"
        )
    if not isinstance(found, Sequence) or not all(isinstance(size, (int, np.integer)) for size in found):
        raise ProviderError(f"{about} says that its shape is {format_answer(found)}; expected a tuple of numbers")
    shape = tuple(map(int, found))
    wanted: Sequence[Any] = known if known is not None else value.shape if value.shape is not None else shape
    pairs = zip(shape, wanted, strict=False)
    if len(shape) != len(wanted) or any(isinstance(fixed, int) and size != fixed for size, fixed in pairs):
        raise ProviderError(f"{about} has shape {list(shape)}; expected [{', '.join(map(str, wanted))}]")
    return shape
