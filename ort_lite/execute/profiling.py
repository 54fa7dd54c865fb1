"""Profiling: what a session did and when, as a Chrome trace (chrome://tracing, Perfetto), in onnxruntime's form.

Complete events ("ph": "X") with categories Session, Node and Kernel, and Creation for what happens inside of the stages that make a
session; times in microseconds since the session began.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from ort_lite.execute.execute import Step


class Profiler:
    """Collects events from any thread. `path` is the file that `end` writes: the prefix, date and time."""

    def __init__(self, prefix: str) -> None:
        self.start = time.perf_counter_ns()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S") + f"_{time.time_ns() // 1_000_000 % 1000:03d}"
        self.path = f"{prefix}_{stamp}.json" if not prefix.endswith("_") else f"{prefix}{stamp}.json"
        self._events: list[dict[str, Any]] = []

    def event(self, category: str, name: str, begin: int, end: int, **args: Any) -> None:
        """`begin` and `end` are nanoseconds of `perf_counter_ns`."""
        self._events.append(  # one append: safe from many threads
            {
                "cat": category,
                "pid": os.getpid(),
                "tid": threading.get_native_id(),
                "dur": (end - begin) // 1000,
                "ts": (begin - self.start) // 1000,
                "ph": "X",
                "name": name,
                "args": args,
            }
        )

    def step(self, step: Step, begin: int, end: int) -> None:
        """An Observer of steps (see ort_lite.execute.execute)."""
        self.event("Node", f"{step.name}_kernel_time", begin, end, op_name=step.name, provider=step.provider)

    def end(self) -> str:
        """Writes the trace and returns its path. Later events are dropped."""
        events, self._events = self._events, []
        Path(self.path).write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n", encoding="utf-8")
        return self.path
