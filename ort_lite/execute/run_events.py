"""The events of one run: its steps, on any thread, and the data flow between them."""

import threading
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple, Self

from ort_lite.execute.execute import Step, call_step
from ort_lite.execute.trace import STEP
from ort_lite.log.events import RUN, Event, Link, Stream
from ort_lite.provider.current import CURRENT, RECORDED, StepEvents


class _StepSource(NamedTuple):
    """The step that a value comes from."""

    name: str
    begin: int
    end: int
    thread: int
    nbytes: int | None


class RunEvents:
    """Calls the steps of one run as a context manager, and emits an event for each. Steps that share a slot do not overlap."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._kernels: list[tuple[Any, ...]] = []
        """The events that StepEvents collects."""
        self._begin = perf_counter_ns()
        self._sources: dict[int, _StepSource] = {}
        """The source of each value, by slot."""

    def __enter__(self) -> Self:
        RECORDED.count(1)
        return self

    def __exit__(self, *failure: object) -> None:
        end, emit = perf_counter_ns(), self._stream.emit
        RECORDED.count(-1)
        for name, start, stop, args, provider, thread in self._kernels:
            emit(Event(name, start, stop, {**args, "provider": provider}, thread))
        emit(Event(RUN, self._begin, end, {}, threading.get_native_id(), "Session"))

    def step(self, step: Step, inputs: list[Any]) -> Sequence[Any]:
        """Call a step as `call_step` does. Meanwhile CURRENT tells partitions on this thread where to record their kernels."""
        begin, given = perf_counter_ns(), _nbytes(inputs[:1])  # now: the step may take over the memory of its inputs
        outer, CURRENT.events = CURRENT.events, StepEvents(self._kernels, step.provider)
        try:
            results = call_step(step, inputs)
        finally:
            CURRENT.events = outer
        self.emit_step(step, begin, perf_counter_ns(), _nbytes(results[:1]), given)
        return results

    def emit_step(self, step: Step, begin: int, end: int, made: int | None, given: int | None) -> None:
        """Emit the event of a step and, for a copy, one on the track of its route that starts when the copy does.

        `made` and `given` are the sizes of its first result and its first input, if they state them.
        """
        thread, emit = threading.get_native_id(), self._stream.emit
        found = {source for slot in step.inputs if (source := self._sources.get(slot)) is not None}
        sources = sorted(found, key=lambda source: source[:4])
        links = tuple(Link(f"{s.name} to {step.name}", max(s.end, s.begin + 1000) - 1000, s.thread) for s in sources)
        args = {"op_name": step.name, "provider": step.provider}
        emit(Event(step.name + STEP, begin, end, args, thread, "Step", links=links))
        nbytes = given if made is None else made
        if step.route:
            begun = [source for source in sources if source.name == f"begin {step.name}"]  # the Linker's name for it
            first = min((source.begin for source in begun), default=begin)
            size = nbytes if nbytes is not None or not begun else begun[0].nbytes
            about = {"route": step.route, "provider": step.provider, **({} if size is None else {"bytes": size})}
            emit(Event(step.name, first, end, about, kind="Copy"))
        for slot in step.outputs:
            self._sources[slot] = _StepSource(step.name, begin, end, thread, nbytes)


def _nbytes(values: Sequence[Any]) -> int | None:
    """Return the size of the first value if it states one."""
    return next((size for value in values if isinstance(size := getattr(value, "nbytes", None), int)), None)
