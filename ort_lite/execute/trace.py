"""Recorded events as data and as a Chrome trace (Perfetto, chrome://tracing), in onnxruntime's form.

Complete events ("ph": "X") have categories Session, Step (a partition or a copy), Kernel and Copy, and Creation for what happens inside
of the stages that make a session. In the file each node of a run has an event of category Node as well, where onnxruntime's readers
look for it: these repeat what Step and Kernel say (`ort_lite.compat.node_events`). Times are in microseconds since the session began.
Beside them there are metadata ("M"): names of threads and of tracks of devices; and flows ("s", "f"): from a step of a run to those
that read what it made. They have a "dur" of 0, since readers of profiles expect one. Events of a thread, and of a track, lie inside of
each other or apart.
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
"""From the outside in: of events that look as long, begun at once, the outer one comes first."""
STEP = "_kernel_time"
"""The end of a step's name."""
_PHASES = ("X", "s", "f")
"""Of what is at one moment: a flow begins and ends in an event that is there."""


class Flow(Record):
    """An arrow from an event to one that needs it: (nanoseconds, track) of each."""

    name: str
    source: tuple[int, int]
    target: tuple[int, int]


class Trace(Record):
    """Events in the order in which they began, in nanoseconds since the recording began.

    `tracks` names threads and tracks: an event that is no thread's has the number of its track as its `thread`.
    """

    events: tuple[Event, ...]
    flows: tuple[Flow, ...]
    tracks: Mapping[int, str]

    @property
    def runs(self) -> list[Event]:
        return [event for event in self.events if event.name == RUN]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes it for Perfetto, an event a line. Raises OSError where that is not possible."""
        file = Path(path)
        write_file(file, ("[\n" + ",\n".join(map(json.dumps, self.chrome())) + "\n]\n").encode())
        return file

    def chrome(self) -> list[dict[str, Any]]:
        """Events of the trace format, metadata first, then in the order of time."""
        told = [
            _event("__metadata", what, "M", 0, track, args={"name": name})
            for what, named in (("process_name", {0: "ort_lite"}), ("thread_name", self.tracks))
            for track, name in sorted(named.items())
        ]
        timed = [*map(_complete, self.events), *_flows(self.flows)]
        return [*told, *sorted(timed, key=lambda event: (event["ts"], _PHASES.index(event["ph"]), -event["dur"], _rank(event)))]


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
