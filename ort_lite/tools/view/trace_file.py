"""Traces that sessions wrote to files."""

import os
from collections.abc import Mapping
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.execute.trace import Flow, Trace, order
from ort_lite.load.files import read_json
from ort_lite.log.events import Event


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that a session wrote, of this package or of onnxruntime. Raises InvalidArgument for any other file, and what
    `read_json` raises.
    """
    try:
        found = read_json(path)
        by_phase: dict[str, list[Any]] = {}
        for event in found:
            by_phase.setdefault(event["ph"], []).append(event)
        events = [_read(event) for event in by_phase.get("X", ())]
        if any(event.kind == "Step" for event in events):  # this package's, whose Node events say the same again
            events = [event for event in events if event.kind != "Node"]
        names = {e["tid"]: str(e["args"]["name"]) for e in by_phase.get("M", ()) if e["name"] == "thread_name"}
        starts = {event["id"]: event for event in by_phase.get("s", ())}
        ends = [event for event in by_phase.get("f", ()) if event["id"] in starts]
        flows = [Flow(str(end["name"]), _moment(starts[end["id"]]), _moment(end)) for end in ends]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidArgument(f"{os.fspath(path)}: it is no trace of a session, which is a JSON list of events") from error
    tracks = {event.thread: f"thread {event.thread}" for event in events} | names
    return Trace(tuple(sorted(events, key=order)), tuple(flows), tracks)


def _read(event: Mapping[str, Any]) -> Event:
    (when, track) = _moment(event)
    end = when + round(float(event["dur"]) * 1000)
    return Event(str(event["name"]), when, end, dict(event.get("args") or {}), track, str(event["cat"]))


def _moment(event: Mapping[str, Any]) -> tuple[int, int]:
    return round(float(event["ts"]) * 1000), int(event["tid"])
