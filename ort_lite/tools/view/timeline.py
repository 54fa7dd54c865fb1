"""One run of a trace, as tracks of events and the flows between them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ort_lite.execute.trace import STEP, Flow, Trace
from ort_lite.log.events import Event
from ort_lite.tools.view import document as page
from ort_lite.tools.view.keys import key_of

MOST = 20_000
"""Events that are shown: of more, the longest."""
_DETAILS = ("op_name", "kernel", "shapes", "parts", "route")
"""What events say of themselves that is shown with them."""


def timeline_of(trace: Trace, document: page.Document) -> page.TimelineData | None:
    """Return the fastest run, which was disturbed least, or None if there is none. O(events log events)."""
    runs = trace.runs
    if not runs:
        return None
    run = min(runs, key=_duration)
    inside = [event for event in trace.events if run.begin <= event.begin and event.end <= run.end]
    shown = _longest(inside)
    tracks = {track: number for number, track in enumerate(dict.fromkeys(event.thread for event in (run, *shown)))}
    made: page.TimelineData = {
        "tracks": [{"id": number, "name": trace.tracks[track]} for track, number in tracks.items()],
        "events": _events(shown, run.begin, tracks, document),
        "flows": [_flow(flow, run.begin, tracks) for flow in trace.flows if _inside(flow, run, tracks)],
    }
    if len(shown) < len(inside):
        made["left_out"] = len(inside) - len(shown)
    return made


def _duration(event: Event) -> int:
    return event.end - event.begin


def _longest(events: Sequence[Event]) -> list[Event]:
    """Return the longest events in their original order."""
    ranked = sorted(range(len(events)), key=lambda k: -_duration(events[k]))
    return [events[k] for k in sorted(ranked[:MOST])]


def _events(events: Sequence[Event], start: int, tracks: Mapping[int, int], document: page.Document) -> list[page.EventData]:
    owners = {found["name"]: found["provider"] for found in document["partitions"]}
    fused = {made["name"]: made["parts"] for found in document["partitions"] for made in found["fused"]}
    key = partial(key_of, nodes=document["placements"].keys(), fused=fused)
    return [_event(event, start, tracks, owners, key) for event in events]


def _event(
    event: Event, start: int, tracks: Mapping[int, int], owners: Mapping[str, str], key: Callable[[str], str]
) -> page.EventData:
    """Return an event. A copy belongs to the provider of the partition that reads it, or to the "output" of the graph."""
    name, said = event.name.removesuffix(STEP), str(event.args.get("provider", ""))
    made: page.EventData = {
        "name": name,
        "category": event.kind,
        "provider": owners.get(said, "" if said == "output" else said),
        "track": tracks[event.thread],
        "start": (event.begin - start) / 1000,
        "duration": _duration(event) / 1000,
    }
    if event.kind in ("Step", "Node", "Kernel") and (node := key(name)):
        made["node"] = node
    if str(event.args.get("bytes", "")).isdecimal():
        made["bytes"] = int(event.args["bytes"])
    if details := {name: str(event.args[name]) for name in _DETAILS if name in event.args}:
        made["details"] = details
    return made


def _inside(flow: Flow, run: Event, tracks: Mapping[int, int]) -> bool:
    (begin, source), (end, target) = flow.source, flow.target
    return run.begin <= begin and end <= run.end and source in tracks and target in tracks


def _flow(flow: Flow, start: int, tracks: Mapping[int, int]) -> page.FlowData:
    (begin, source), (end, target) = flow.source, flow.target
    return {
        "name": flow.name,
        "source": (tracks[source], (begin - start) / 1000),
        "target": (tracks[target], (end - start) / 1000),
    }


def trace_of(timeline: page.TimelineData) -> Trace:
    """Return the timeline as a trace for Perfetto."""
    events = [
        Event(event["name"], *_span(event), _args(event), event["track"], event["category"]) for event in timeline["events"]
    ]
    flows = [Flow(flow["name"], _moment(flow["source"]), _moment(flow["target"])) for flow in timeline["flows"]]
    return Trace(tuple(events), tuple(flows), {track["id"]: track["name"] for track in timeline["tracks"]})


def _span(event: page.EventData) -> tuple[int, int]:
    begin = round(event["start"] * 1000)
    return begin, begin + round(event["duration"] * 1000)


def _args(event: page.EventData) -> dict[str, str | int]:
    found: dict[str, str | int] = {"provider": event["provider"], **event.get("details", {})}
    return found | {"bytes": event["bytes"]} if "bytes" in event else found


def _moment(end: tuple[int, float]) -> tuple[int, int]:
    track, microseconds = end
    return round(microseconds * 1000), track
