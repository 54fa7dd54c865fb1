"""Profiles: the events of a session, recorded and written to a file. `ort_lite.execute.trace` describes the format."""

import os
import threading
import time
from collections.abc import Callable, Iterable

from ort_lite.execute.trace import Flow, Trace, order
from ort_lite.log.events import Event, Stream, Subscriber

_TRACKS = 1 << 30
"""The first number of tracks that are not threads, above the thread ids of any system."""


class Recording(Subscriber):
    """Records the events of a stream, from any thread. `start` is a time on the clock of the events."""

    def __init__(self) -> None:
        self.start = time.perf_counter_ns()
        self.events: list[Event] = []
        self._threads: dict[int, str] = {}

    def on_end(self, event: Event) -> None:
        """Record an event that ended."""
        self.events.append(event)  # a single append, which is thread-safe
        if event.thread not in self._threads and event.thread == threading.get_native_id():
            self._threads[event.thread] = threading.current_thread().name

    def trace(self) -> Trace:
        """Return the events recorded so far, in nanoseconds since `start`."""
        events = [self._shift(event) for event in self.events]
        flows = [
            Flow(link.name, (link.moment - self.start, link.thread), (event.begin, event.thread))
            for event in events
            for link in event.links
        ]
        own = [event for event in events if event.thread]
        apart, tracks = _on_tracks([*((_track(event), event) for event in events if not event.thread), *self._more()])
        return Trace(tuple(sorted([*own, *apart], key=order)), tuple(flows), {**self._threads, **tracks})

    def _shift(self, event: Event) -> Event:
        return event.replace(begin=int(event.begin) - self.start, end=int(event.end) - self.start, thread=int(event.thread))

    def _more(self) -> Iterable[tuple[str, Event]]:
        """Return events of the trace that are not from the stream, with the names of their tracks."""
        return ()

    def thread_name(self, thread: int) -> str:
        """Return the name of a thread that emitted events, or "devices" for an unknown number."""
        return self._threads.get(thread, "devices")


def _track(event: Event) -> str:
    """Return the track of an event of a device: the route for a copy, otherwise the provider."""
    return str(event.args.get("route" if event.kind == "Copy" else "provider", ""))


class Profiler(Recording):
    """A recording of a session's stream that ends as the file `path`, named by the prefix, the date and the time."""

    def __init__(self, stream: Stream, prefix: str = "") -> None:
        super().__init__()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S") + f"_{time.time_ns() // 1_000_000 % 1000:03d}"
        self.path = f"{prefix}_{stamp}.json" if not prefix.endswith("_") else f"{prefix}{stamp}.json"
        self._file = os.path.abspath(self.path)
        """The absolute path, since the working directory may change before the profile is written."""
        self._nodes: list[Event] = []
        self._collect: Callable[[Profiler, int], None] | None = None
        self._since = 0
        self._process = os.getpid()
        self.ended = False
        self._stream = stream
        stream.subscribe(self)

    def _more(self) -> Iterable[tuple[str, Event]]:
        return ((f"nodes of {self.thread_name(event.thread)}", event) for event in self._nodes)

    def nodes(self, events: Iterable[Event]) -> None:
        """Add events of nodes, with times like those of `trace`.

        They get tracks of their own, because the kernels of one node need not be contiguous.
        """
        self._nodes.extend(events)

    def attach(self, collect: "Callable[[Profiler, int], None]") -> None:
        """Set the function that adds the events only a session's providers have, after calling the previous one.

        It is called once with the profiler and the time at which its session was ready: when the profile ends, or when another
        function is set.
        """
        self._flush()
        self._collect, self._since = collect, time.perf_counter_ns() - self.start

    def _flush(self) -> None:
        collect, self._collect = self._collect, None
        if collect is not None and not self.ended:
            collect(self, self._since)

    def end(self) -> str:
        """Write the trace and return its path; "" if it has already ended. Later events are dropped."""
        if self.ended:
            return ""
        try:
            self._flush()
        except Exception as error:  # other events are written nevertheless
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
        """End without writing a file."""
        self._stream.unsubscribe(self)
        self.ended = True
        self.events, self._nodes, self._collect = [], [], None

    def write_pending(self) -> None:
        """Write the trace when the session is deleted or the process exits. A forked process leaves that to its parent."""
        if os.getpid() == self._process:
            self.end()


def _on_tracks(apart: list[tuple[str, Event]]) -> tuple[list[Event], dict[int, str]]:
    """Assign the events to numbered tracks, and return the tracks' names. Overlapping events of one name get separate tracks."""
    lanes: dict[tuple[str, int], list[int]] = {}
    """The end times of unfinished events, the outermost first, by name and number of the lane."""
    placed: list[tuple[tuple[str, int], Event]] = []
    for name, event in sorted(apart, key=lambda pair: order(pair[1])):
        lane = 0
        while not _fits(lanes.setdefault((name, lane), []), event):
            lane += 1
        lanes[name, lane].append(event.end)
        placed.append(((name, lane), event))
    numbers = {key: _TRACKS + k for k, key in enumerate(sorted(lanes))}
    tracks = {number: name if lane == 0 else f"{name} ({lane + 1})" for (name, lane), number in numbers.items()}
    return [event.replace(thread=numbers[key]) for key, event in placed], tracks


def _fits(open_: list[int], event: Event) -> bool:
    """Return True if the event lies inside an unfinished one, or if none is unfinished. Removes those that have ended."""
    while open_ and open_[-1] <= event.begin:
        open_.pop()
    return not open_ or event.end <= open_[-1]
