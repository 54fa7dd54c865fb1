"""Profiling: how a session was made, and what its runs did and when. See `ort_lite.execute.trace` for what becomes of it."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ort_lite.execute.execute import Step
from ort_lite.execute.trace import RUN, STEP, Event, Flow, Trace, order
from ort_lite.provider.provider import ProfileEvent

_TRACKS = 1 << 30
"""Numbers of tracks that are no thread begin here: no system numbers a thread so."""


class Profiler:
    """Collects events from any thread. `path` is the file that `end` writes: the prefix, date and time."""

    def __init__(self, prefix: str = "") -> None:
        self.start = time.perf_counter_ns()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S") + f"_{time.time_ns() // 1_000_000 % 1000:03d}"
        self.path = f"{prefix}_{stamp}.json" if not prefix.endswith("_") else f"{prefix}{stamp}.json"
        self._file = os.path.abspath(self.path)
        """Absolute, because the working directory may be another one when the profile is written."""
        self._events: list[Event] = []
        self._apart: list[tuple[str, Event]] = []
        """Events that are no thread's, with the names of their tracks."""
        self._flows: list[Flow] = []
        self._threads: dict[int, str] = {}
        self._collect: Callable[[Profiler, int], None] | None = None
        self._since = 0
        self._process = os.getpid()
        self.ended = False

    def event(self, category: str, name: str, begin: int, end: int, **args: Any) -> None:
        """Of this thread. `begin` and `end` are nanoseconds of `perf_counter_ns`."""
        if not self.ended:
            # One append, which is safe from many threads.
            self._events.append(self._made(category, name, begin, end, self._thread(), args))

    def device_event(self, provider: str, event: ProfileEvent) -> None:
        """Of the thread that the event names, or on a track of the provider's own."""
        if self.ended:
            return
        args = {**event.args, "provider": provider}
        made = self._made("Kernel", event.name, int(event.begin), int(event.end), int(event.thread), args)
        if event.thread:
            self._events.append(made)
        else:
            self._apart.append((provider, made))

    def copy(self, name: str, route: str, begin: int, end: int, **args: Any) -> None:
        """Between two devices, on a track of the route."""
        if not self.ended:
            self._apart.append((route, self._made("Copy", name, begin, end, 0, {"route": route, **args})))

    def ran(self, begin: int, end: int) -> None:
        """A run of this thread, as a whole."""
        self.event("Session", RUN, begin, end)

    def run(self) -> "RunTrace":
        """An Observer of the steps of one run (see ort_lite.execute.execute)."""
        return RunTrace(self)

    def flow(self, name: str, source: tuple[int, int], target: tuple[int, int]) -> None:
        """From a step's end to another's begin: (nanoseconds, thread) of each."""
        if not self.ended:
            self._flows.append(Flow(name, (source[0] - self.start, source[1]), (target[0] - self.start, target[1])))

    def _thread(self) -> int:
        number = threading.get_native_id()
        if number not in self._threads:
            self._threads[number] = threading.current_thread().name
        return number

    def _made(self, category: str, name: str, begin: int, end: int, track: int, args: Any) -> Event:
        return Event(category, name, begin - self.start, end - self.start, track, args)

    def trace(self) -> Trace:
        """What was recorded so far."""
        apart, tracks = _on_tracks(list(self._apart))
        return Trace(tuple(sorted([*self._events, *apart], key=order)), tuple(self._flows), {**self._threads, **tracks})

    def nodes(self, events: Iterable[Event]) -> None:
        """Add events of nodes, on tracks of their own: a node's kernels need not follow each other."""
        self._apart.extend((f"nodes of {self._threads.get(event.track, 'devices')}", event) for event in events)

    def attach(self, collect: "Callable[[Profiler, int], None]") -> None:
        """Set what adds the events that only the providers of a session have, and call what was set before.

        It is called with the profiler and the moment since when its session is there, once: when the profile ends or another follows.
        """
        self._flush()
        self._collect, self._since = collect, time.perf_counter_ns() - self.start

    def _flush(self) -> None:
        collect, self._collect = self._collect, None
        if collect is not None and not self.ended:
            collect(self, self._since)

    def end(self) -> str:
        """Write the trace and return its path; "" once it has ended. Later events are dropped."""
        if self.ended:
            return ""
        try:
            self._flush()
        except Exception as error:  # what else was recorded is written all the same
            try:
                self._write()
            except OSError as failure:
                error.add_note(f"nor can the profile be written: {failure}")
            raise
        self._write()
        return self.path

    def _write(self) -> None:
        trace = self.trace()
        self.discard()
        trace.save(self._file)

    def discard(self) -> None:
        """End without a file."""
        self.ended = True
        self._events, self._apart, self._flows, self._collect = [], [], [], None

    def write_left(self) -> None:
        """Write the trace of a session that is deleted, or there when the process exits; a forked process leaves it to its parent."""
        if os.getpid() == self._process:
            self.end()


def _on_tracks(apart: list[tuple[str, Event]]) -> tuple[list[Event], dict[int, str]]:
    """The events with the numbers of tracks, and their names: where events of one name overlap, there are several tracks of it."""
    lanes: dict[tuple[str, int], list[int]] = {}
    """The ends of events that are not over, the outer ones first, by name and number of the lane."""
    placed: list[tuple[tuple[str, int], Event]] = []
    for name, event in sorted(apart, key=lambda pair: order(pair[1])):
        lane = 0
        while not _fits(lanes.setdefault((name, lane), []), event):
            lane += 1
        lanes[name, lane].append(event.end)
        placed.append(((name, lane), event))
    numbers = {key: _TRACKS + k for k, key in enumerate(sorted(lanes))}
    tracks = {number: name if lane == 0 else f"{name} ({lane + 1})" for (name, lane), number in numbers.items()}
    return [event.replace(track=numbers[key]) for key, event in placed], tracks


def _fits(open_: list[int], event: Event) -> bool:
    """Whether it is inside of what is not over, or nothing is left."""
    while open_ and open_[-1] <= event.begin:
        open_.pop()
    return not open_ or event.end <= open_[-1]


class _Made(NamedTuple):
    """By which step a value was made."""

    name: str
    begin: int
    end: int
    thread: int
    nbytes: int | None


class RunTrace:
    """The steps of one run, from whatever threads, and what flows between them."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._made: dict[int, _Made] = {}
        """By slot."""

    def __call__(self, step: Step, begin: int, end: int, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        profiler = self._profiler
        profiler.event("Step", step.name + STEP, begin, end, op_name=step.name, provider=step.provider)
        thread = threading.get_native_id()
        makers = sorted({made for slot in step.inputs if (made := self._made.get(slot)) is not None}, key=lambda made: made[:4])
        for made in makers:
            profiler.flow(
                f"{made.name} to {step.name}", (max(made.end, made.begin + 1000) - 1000, made.thread), (begin, thread)
            )
        nbytes = _nbytes([*results[:1], *inputs[:1]])
        if step.route:
            begun = [made for made in makers if made.name == f"begin {step.name}"]  # as the Linker calls it
            first = min((made.begin for made in begun), default=begin)
            size = nbytes if nbytes is not None or not begun else begun[0].nbytes
            profiler.copy(
                step.name, step.route, first, end, provider=step.provider, **({} if size is None else {"bytes": size})
            )
        for slot in step.outputs:
            self._made[slot] = _Made(step.name, begin, end, thread, nbytes)


def _nbytes(values: Sequence[Any]) -> int | None:
    """Of the first that says it."""
    return next((size for value in values if isinstance(size := getattr(value, "nbytes", None), int)), None)
