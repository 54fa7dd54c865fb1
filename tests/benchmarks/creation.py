"""What a model costs before it runs, and what it keeps: creation of sessions, first results of processes, first runs of new shapes,
resident memory, against onnxruntime. One thread, warm kernel cache, Linux.

python -m tests.benchmarks.creation MODEL_OR_FOLDER... [--creations N] [--processes N] [--runs N]
    [--new-shapes DIMENSION]

Processes need feeds: NAME.npz beside NAME.onnx. Creations are timed in one process, in turn, and the median of each runtime
counts. Processes are fresh ones: from their start to a first result, then what is resident after `--runs`. New shapes: runs with
lengths of a named dimension that the session has not seen, beside the runs after them.
"""

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

RUNTIMES = ("ort_lite", "onnxruntime")
LENGTHS = range(17, 25)
"""Of new shapes; a hundred runs at 16 come before."""

CHILD = """
import time; start = time.perf_counter()
import sys
import numpy as np
import {module} as runtime
options = runtime.SessionOptions(); options.intra_op_num_threads = 1; options.log_severity_level = 3
session = runtime.InferenceSession({model!r}, options, providers=["CPUExecutionProvider"])
feeds = dict(np.load({feeds!r}))
feeds = {{name: a.astype(object) if a.dtype.kind == "U" else a for name, a in feeds.items()}}
session.run(None, feeds)
seconds = time.perf_counter() - start
for _ in range({runs} - 1):
    session.run(None, feeds)
rows = dict(line.split()[:2] for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
print(seconds, 1024 * int(rows["Rss:"]))
"""


def opened(module: str, model: str) -> Any:
    """A session of one thread."""
    runtime: Any = __import__(module)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feeds_of(session: Any, dimension: str, length: int) -> dict[str, Any]:
    """Ones, of that length where the dimension is free; other free dimensions are 1."""

    def size(dim: int | str | None) -> int:
        return dim if isinstance(dim, int) else length if dim == dimension else 1

    return {arg.name: np.ones([size(dim) for dim in arg.shape], _KINDS[arg.type]) for arg in session.get_inputs()}


_KINDS = {
    "tensor(float)": np.float32,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}


def creation(model: str, count: int) -> dict[str, float]:
    """Seconds of a creation, by runtime: medians of `count`, in turn; the first ones are not counted."""
    times: dict[str, list[float]] = {name: [] for name in RUNTIMES}
    for turn in range(count + 1):
        for name in RUNTIMES if turn % 2 else reversed(RUNTIMES):
            gc.collect()
            start = time.perf_counter()
            session = opened(name, model)
            times[name].append(time.perf_counter() - start)
            del session
    return {name: median(found[1:]) for name, found in times.items()}


def processes(model: str, count: int, runs: int) -> dict[str, tuple[float, float]]:
    """Seconds from the start of a process to its first result, and bytes resident after all runs, by runtime."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in RUNTIMES}
    feeds = str(Path(model).with_suffix(".npz"))
    for turn in range(count):
        for name in RUNTIMES if turn % 2 else reversed(RUNTIMES):
            code = CHILD.format(module=name, model=model, feeds=feeds, runs=runs)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
            found[name].append(tuple(map(float, done.stdout.split())))
    return {name: (median(row[0] for row in rows), median(row[1] for row in rows)) for name, rows in found.items()}


def new_shapes(model: str, dimension: str) -> dict[str, tuple[float, float, float]]:
    """Seconds of a usual run, and the median and the most that a first run of a new length takes beyond the runs after it."""
    found = {}
    for name in RUNTIMES:
        session = opened(name, model)
        usual = [_time(session, feeds_of(session, dimension, 16)) for _ in range(100)]
        more = []
        for length in LENGTHS:
            feeds = feeds_of(session, dimension, length)
            more.append(_time(session, feeds) - min(_time(session, feeds) for _ in range(3)))
        found[name] = median(usual), median(more), max(more)
    return found


def _time(session: Any, feeds: dict[str, Any]) -> float:
    start = time.perf_counter()
    session.run(None, feeds)
    return time.perf_counter() - start


def models(given: list[str]) -> Iterator[str]:
    for path in map(Path, given):
        yield from map(str, sorted(path.glob("*.onnx")) if path.is_dir() else [path])


def measure(model: str, arguments: argparse.Namespace) -> None:
    """Prints a line of ms and MB (10^6 bytes), ort_lite's first."""
    text = f"{Path(model).stem:45}"
    if arguments.creations:
        ours, theirs = (1e3 * seconds for seconds in creation(model, arguments.creations).values())
        text += f" creation {ours:8.1f} {theirs:8.1f} {ours / theirs:5.2f}"
    if arguments.new_shapes:
        rows = new_shapes(model, arguments.new_shapes).values()
        text += " new shape " + ", ".join("{:.2f} + {:.2f}, at most {:.2f}".format(*(1e3 * t for t in row)) for row in rows)
    if arguments.processes:
        (first, held), (their_first, their_held) = processes(model, arguments.processes, arguments.runs).values()
        text += f" first result {first * 1e3:7.0f} {their_first * 1e3:7.0f} {first / their_first:5.2f}"
        text += f" resident {held / 1e6:7.1f} {their_held / 1e6:7.1f} {held / their_held:5.2f}"
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--creations", type=int, default=9)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--new-shapes", metavar="DIMENSION")
    arguments = parser.parse_args()
    for model in models(arguments.models):
        measure(model, arguments)


if __name__ == "__main__":
    main()
