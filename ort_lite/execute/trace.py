"""Recorded events as data and as a Chrome trace (Perfetto, chrome://tracing), in onnxruntime's format.

Complete events ("ph": "X") have the category Session, Step (a partition or a copy), Kernel, Copy, or Creation (work inside the
stages of session creation). The file also has an event of category Node for each node of a run, where readers of onnxruntime's
profiles look for it; it repeats what Step and Kernel say (`ort_lite.compat.node_events`). Times are in microseconds since the
session started. The file also has metadata ("M"), which names threads and device tracks, and flows ("s", "f"), which lead from a
step to the steps that read its results. Flows have a "dur" of 0, since readers of profiles expect one. Events of one thread or
track are nested or disjoint.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ort_lite.load.files import write_file
from ort_lite.log.events import RUN, Event
from ort_lite.record import Record

KINDS = ("Session", "Creation", "Step", "Kernel", "Node", "Copy")
"""The kinds of events from the outside in. Of events with the same begin and end, the outer one comes first."""
STEP = "_kernel_time"
"""The suffix of a step's name."""
_PHASES = ("X", "s", "f")
"""The order of entries with the same time: a flow begins and ends in an event that is already there."""


class Flow(Record):
    """An arrow from an event to one that needs its result. Each end is (nanoseconds, track)."""

    name: str
    source: tuple[int, int]
    target: tuple[int, int]


class Trace(Record):
    """Events in order of their begin, in nanoseconds since the recording started.

    `tracks` names threads and tracks. The `thread` of an event that belongs to no thread is the number of its track.
    """

    events: tuple[Event, ...]
    flows: tuple[Flow, ...]
    tracks: Mapping[int, str]

    @property
    def runs(self) -> list[Event]:
        """The events of whole runs."""
        return [event for event in self.events if event.name == RUN]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace for Perfetto, one event per line. Raises OSError if the file cannot be written."""
        file = Path(path)
        # The names of tracks are all in the first line: readers expect an event in each other one.
        lines = ["[" + ", ".join(map(json.dumps, self._metadata())), *map(json.dumps, self._events())]
        write_file(file, (",\n".join(lines) + "\n]\n").encode())
        return file

    def _metadata(self) -> list[dict[str, Any]]:
        return [
            _event("__metadata", what, "M", 0, track, args={"name": name})
            for what, named in (("process_name", {0: "ort_lite"}), ("thread_name", self.tracks))
            for track, name in sorted(named.items())
        ]

    def _events(self) -> list[dict[str, Any]]:
        timed = [*map(_complete, self.events), *_flows(self.flows)]
        return sorted(timed, key=lambda event: (event["ts"], _PHASES.index(event["ph"]), -event["dur"], _rank(event)))


def _complete(event: Event) -> dict[str, Any]:
    first = event.begin // 1000
    return _event(event.kind, event.name, "X", first, event.thread, event.end // 1000 - first, args=event.args)


def _flows(flows: Iterable[Flow]) -> Iterator[dict[str, Any]]:
    for number, flow in enumerate(flows):
        for phase, (when, track) in (("s", flow.source), ("f", flow.target)):
            more: dict[str, Any] = {"bp": "e"} if phase == "f" else {}
            yield _event("Flow", flow.name, phase, when // 1000, track, id=number, **more)


def _event(category: str, name: str, phase: str, ts: int, track: int, dur: int = 0, **more: Any) -> dict[str, Any]:
    return {"cat": category, "pid": os.getpid(), "tid": track, "dur": dur, "ts": ts, "ph": phase, "name": name, **more}


def _rank(event: Mapping[str, Any]) -> int:
    return KINDS.index(event["cat"]) if event["cat"] in KINDS else len(KINDS)


def order(event: Event) -> tuple[int, int, int]:
    """Return the sort key of an event."""
    return event.begin, -event.end, KINDS.index(event.kind) if event.kind in KINDS else len(KINDS)
