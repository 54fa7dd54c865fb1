"""The report of session creation: stages, transforms, `get_capability` and `compile` with their times.

Each stage is a scope in the session's event stream (`ort_lite.log.events`). A CreationReport subscribes to the stream only if
the config entry `ort_lite.creation_trace` is "1", the session is profiled or it logs verbose messages. Memory planning is not
part of the report: it happens in the first run of each shape.
"""

from collections.abc import Mapping
from threading import get_native_id
from typing import Any

from ort_lite import log
from ort_lite.log.events import Event, Subscriber
from ort_lite.partition.assignment import align_columns
from ort_lite.plugins.rooms import hook
from ort_lite.record import Record

COLUMNS = ("what", "provider", "calls", "ms", "nodes", "details")
_SHOWN = {"provider", "nodes_before", "nodes_after"}
"""Facts that have a column of their own."""


class CreationEvent(Record):
    """One step of session creation.

    `begin` and `end` are nanoseconds of `perf_counter_ns`; `depth` is the number of enclosing steps. `facts` may contain
    "provider"; "nodes_before", "nodes_after" and "fired" (transforms and fusions); "offered" and "claimed" nodes
    (`get_capability`); "partitions" and "nodes" (`compile`); "partitions" and "copies" (partitioning).
    """

    name: str
    depth: int
    begin: int
    end: int
    facts: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return (self.end - self.begin) / 1e9


class CreationTrace(Record):
    """The events of session creation in order of their start.

    `print` shows a table that merges events with the same name and provider.
    """

    events: tuple[CreationEvent, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the trace as plain data."""
        return {"events": [{"name": e.name, "depth": e.depth, "seconds": e.seconds, **e.facts} for e in self.events]}

    def to_json(self, indent: int | None = 2) -> str:
        """Return the trace as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        return align_columns([COLUMNS, *self.table()])

    def __repr__(self) -> str:
        return f"CreationTrace({self._seconds() * 1e3:,.1f} ms; events: {len(self.events)})"

    def _seconds(self) -> float:
        return sum(event.seconds for event in self.events if not event.depth)

    def _repr_html_(self) -> str:
        """Render the total time and, on demand, the table."""
        seconds = self._seconds()
        html: str = hook("folded")(f"made in {seconds * 1e3:,.1f} ms", COLUMNS, self.table(), ("calls", "ms"))
        return html

    def table(self) -> list[tuple[str, ...]]:
        """Return the rows of the table; the columns are COLUMNS. Events with the same parents and name share a row."""
        rows: dict[tuple[Any, ...], list[CreationEvent]] = {}
        parents: list[int] = []
        for number, event in enumerate(self.events):
            del parents[event.depth :]
            key = (*parents, event.name, event.facts.get("provider"), event.facts.get("partitions"))
            rows.setdefault(key if event.depth else (number,), []).append(event)
            parents.append(number)
        return [_row(events) for events in rows.values()]


def _row(events: list[CreationEvent]) -> tuple[str, ...]:
    first, last = events[0], events[-1]
    nodes = ""
    if "nodes_before" in first.facts:
        nodes = f"{first.facts['nodes_before']} -> {last.facts.get('nodes_after', '?')}"
    sums: dict[str, Any] = {}
    for event in events:
        for name, fact in event.facts.items():
            if name not in _SHOWN:
                sums[name] = sums[name] + fact if isinstance(fact, int) and name in sums else fact
    return (
        "  " * first.depth + first.name,
        str(first.facts.get("provider", "")),
        str(len(events)),
        f"{sum(event.seconds for event in events) * 1e3:,.2f}",
        nodes,
        ", ".join(f"{name} {fact}" for name, fact in sums.items()),
    )


class CreationReport(Subscriber):
    """A subscriber that records the creation of a session by the current thread.

    It also logs each event if the options ask for VERBOSE.
    """

    def __init__(self, options: log.Whose = log.WARNING) -> None:
        self._logs, self._options = log.hears(options, log.VERBOSE), options
        self._thread = get_native_id()
        self._events: list[Event] = []

    def on_end(self, event: Event) -> None:
        """Record an event if it comes from the thread that creates the session."""
        if event.thread != self._thread:
            return  # a run of the session's previous state
        self._events.append(event)
        if self._logs:
            about = ", ".join(f"{key} {fact}" for key, fact in event.args.items())
            ms = (event.end - event.begin) / 1e6
            log.verbose(self._options, f"{event.name}: {ms:.3f} ms{' (' * bool(about)}{about}{')' * bool(about)}")

    def trace(self) -> CreationTrace:
        """Return the completed events in order of their start."""
        events = sorted(self._events, key=lambda event: (event.begin, event.depth))
        return CreationTrace(tuple(CreationEvent(e.name, e.depth, e.begin, e.end, e.args) for e in events))
