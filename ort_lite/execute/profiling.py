"""Profiling: how a session was made, and what its runs did and when, as a Chrome trace (Perfetto, chrome://tracing), in onnxruntime's
form.

Complete events ("ph": "X") with categories Session, Node and Kernel, and Creation for what happens inside of the stages that make a
session; times in microseconds since the session began. Beside them metadata ("M"): names of threads and of tracks of devices; and
flows ("s", "f"): from a step of a run to those that read what it made. They have a "dur" of 0, since readers of profiles expect one.
Events of a thread lie inside of each other or apart.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from ort_lite.execute.execute import Step
from ort_lite.provider.provider import ProfileEvent

_RANKS = ("Session", "Creation", "Node", "Kernel")
"""From the outside in: of events that look as long, begun at once, the outer one comes first."""
_TRACKS = 1 << 30
"""Numbers of tracks that are no thread begin here: no system numbers a thread so."""


class Profiler:
    """Collects events from any thread. `path` is the file that `end` writes: the prefix, date and time."""

    def __init__(self, prefix: str) -> None:
        self.start = time.perf_counter_ns()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S") + f"_{time.time_ns() // 1_000_000 % 1000:03d}"
        self.path = f"{prefix}_{stamp}.json" if not prefix.endswith("_") else f"{prefix}{stamp}.json"
        self._events: list[dict[str, Any]] = []
        self._flows: list[dict[str, Any]] = []
        self._names: dict[int, str] = {}
        """Of threads and tracks."""

    def event(self, category: str, name: str, begin: int, end: int, **args: Any) -> None:
        """Of this thread. `begin` and `end` are nanoseconds of `perf_counter_ns`."""
        self._add(category, name, begin, end, self._thread(), args)

    def device_event(self, provider: str, event: ProfileEvent) -> None:
        """Of the thread that the event names, or on a track of the provider's own."""
        thread = event.thread
        if not thread:
            tracks = [number for number, name in self._names.items() if number >= _TRACKS and name == provider]
            thread = tracks[0] if tracks else _TRACKS + len(self._names)
            self._names[thread] = provider
        self._add("Kernel", event.name, event.begin, event.end, thread, {**event.args, "provider": provider})

    def run(self) -> "RunTrace":
        """An Observer of the steps of one run (see ort_lite.execute.execute)."""
        return RunTrace(self)

    def flow(self, name: str, source: tuple[int, int], target: tuple[int, int]) -> None:
        """From a step's end to another's begin: (nanoseconds, thread) of each."""
        number = len(self._flows)
        for phase, (when, thread) in (("s", source), ("f", target)):
            more = {"bp": "e"} if phase == "f" else {}
            moment = (when - self.start) // 1000
            self._flows.append(
                {
                    "cat": "Flow",
                    "pid": os.getpid(),
                    "tid": thread,
                    "ts": moment,
                    "dur": 0,
                    "ph": phase,
                    "id": number,
                    "name": name,
                    **more,
                }
            )

    def _thread(self) -> int:
        number = threading.get_native_id()
        if number not in self._names:
            self._names[number] = threading.current_thread().name
        return number

    def _add(self, category: str, name: str, begin: int, end: int, thread: int, args: Any) -> None:
        first = (begin - self.start) // 1000
        self._events.append(  # one append: safe from many threads
            {
                "cat": category,
                "pid": os.getpid(),
                "tid": thread,
                "dur": (end - self.start) // 1000 - first,
                "ts": first,
                "ph": "X",
                "name": name,
                "args": args,
            }
        )

    def end(self) -> str:
        """Writes the trace, events in the order in which they began, and returns its path. Later events are dropped."""
        events, self._events = self._events, []
        events.sort(key=lambda event: (event["ts"], -event["dur"], _RANKS.index(event["cat"])))
        flows, self._flows = self._flows, []
        names = {"process_name": {0: "ort_lite"}, "thread_name": self._names}
        told = [
            {
                "cat": "__metadata",
                "pid": os.getpid(),
                "tid": thread,
                "ts": 0,
                "dur": 0,
                "ph": "M",
                "name": what,
                "args": {"name": name},
            }
            for what, named in names.items()
            for thread, name in sorted(named.items())
        ]
        lines = ",\n".join(json.dumps(event) for event in (*told, *events, *flows))
        Path(self.path).write_text("[\n" + lines + "\n]\n", encoding="utf-8")
        return self.path


class RunTrace:
    """The steps of one run, from whatever threads, and what flows between them."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._made: dict[int, tuple[str, int, int]] = {}
        """By slot: the step that made the value, its last nanosecond, its thread."""

    def __call__(self, step: Step, begin: int, end: int) -> None:
        profiler = self._profiler
        profiler.event("Node", f"{step.name}_kernel_time", begin, end, op_name=step.name, provider=step.provider)
        thread = threading.get_native_id()
        makers = {made for slot in step.inputs if (made := self._made.get(slot)) is not None}
        for name, when, source in sorted(makers):
            profiler.flow(f"{name} to {step.name}", (when - 1000, source), (begin, thread))
        for slot in step.outputs:
            self._made[slot] = (step.name, max(end, begin + 1000), thread)
