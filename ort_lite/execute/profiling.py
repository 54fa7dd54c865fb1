"""Profiles: the events of a session, kept and written to a file. See `ort_lite.execute.trace` for the file."""

import os
import threading
import time
from collections.abc import Callable, Iterable

from ort_lite.execute.trace import Flow, Trace, order
from ort_lite.log.events import Event, Stream, Subscriber

_TRACKS = 1 << 30
"""Numbers of tracks that are no thread begin here: no system numbers a thread so."""


class Recording(Subscriber):
    """Keeps the events of a stream, from any thread. `start` is on the clock of the events."""

    def __init__(self) -> None:
        self.start = time.perf_counter_ns()
        self.events: list[Event] = []
        self._threads: dict[int, str] = {}

    def on_end(self, event: Event) -> None:
        """Record an event that ended."""
        self.events.append(event)  # one append, which is safe from many threads
        if event.thread not in self._threads and event.thread == threading.get_native_id():
            self._threads[event.thread] = threading.current_thread().name

    def trace(self) -> Trace:
        """Return what was recorded so far, in nanoseconds since `start`."""
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
        """Events of the trace that are not the stream's, with the names of their tracks."""
        return ()

    def thread_name(self, thread: int) -> str:
        """Return the name of a thread that emitted events; "devices" for what is none."""
        return self._threads.get(thread, "devices")


def _track(event: Event) -> str:
    """A device's events are shown on a track of its provider, copies on one of their route."""
    return str(event.args.get("route" if event.kind == "Copy" else "provider", ""))


class Profiler(Recording):
    """A Recording of a session's stream that ends as a file. `path` is that file: the prefix, date and time."""

    def __init__(self, stream: Stream, prefix: str = "") -> None:
        super().__init__()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S") + f"_{time.time_ns() // 1_000_000 % 1000:03d}"
        self.path = f"{prefix}_{stamp}.json" if not prefix.endswith("_") else f"{prefix}{stamp}.json"
        self._file = os.path.abspath(self.path)
        """Absolute, because the working directory may be another one when the profile is written."""
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
        """Add events of nodes, on tracks of their own: a node's kernels need not follow each other. Times are those of `trace`."""
        self._nodes.extend(events)

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
        self._stream.unsubscribe(self)
        self.ended = True
        self.events, self._nodes, self._collect = [], [], None

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
    return [event.replace(thread=numbers[key]) for key, event in placed], tracks


def _fits(open_: list[int], event: Event) -> bool:
    """Return True if the event lies inside one that is not over, or nothing is left."""
    while open_ and open_[-1] <= event.begin:
        open_.pop()
    return not open_ or event.end <= open_[-1]
