"""Time runs of one session after another, as told by lines of JSON on standard input.

Runs in the environment of either version, so it imports NumPy and the public API alone, and nothing of this repository. The zoo times
other runtimes with it, so ort_lite is imported by the session that needs it. Each command is answered by one line:

    {"open": "model.onnx", "feeds": "model.npz", "threads": 1}     {"seconds": 0.03}: of a first run, or {"error": "..."}
    {"run": 200}                                                   {"seconds": 0.0004}: median of 200 runs, after one that is not timed
"""

import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

PAGE, LINE = 4096, 64
RunFeeds = Callable[[Mapping[str, Any]], Any]
Command = Callable[[dict[str, Any]], dict[str, Any]]


def feeds_of(path: str) -> dict[str, Any]:
    """Return the arrays of an .npz file, each at a random place in its page; texts become object arrays."""
    with np.load(path) as arrays:
        return {
            name: arrays[name].astype(object) if arrays[name].dtype.kind == "U" else moved(arrays[name])
            for name in arrays.files
        }


def moved(array: Any) -> Any:
    """Copy an array to a random place: 16 bytes behind the start of a cache line, as NumPy's own large arrays are.

    Where operands lie relative to each other in their pages costs up to 15 % of a run. In one version that place is the same in every
    process, and any change to the code may move it: without this, such luck would look like a change.
    """
    memory = np.empty(array.nbytes + PAGE + LINE, np.uint8)
    offset = -memory.ctypes.data % LINE + 16 + LINE * random.randrange(PAGE // LINE)
    copy = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def fillers() -> list[bytearray]:
    """Return blocks of random sizes, which move what is allocated while they are held."""
    return [bytearray(random.randrange(16, 16 * PAGE)) for _ in range(8)]


def open_session(model: str, threads: int) -> RunFeeds:
    """Create a session of ort-lite and return a function that runs it."""
    from ort_lite import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return partial(InferenceSession(model, options, providers=["CPUExecutionProvider"]).run, None)


def median_run(run: RunFeeds, feeds: dict[str, Any], count: int) -> float:
    """Return the median of `count` runs in seconds. One run before them wakes threads and fills caches."""
    times, clock = [0.0] * count, time.perf_counter
    run(feeds)
    for k in range(count):
        start = clock()
        run(feeds)
        times[k] = clock() - start
    return sorted(times)[count // 2]


class Timer:
    """A session that is open, and its feeds."""

    def __init__(self, create: Callable[[str, int], RunFeeds]) -> None:
        self.create = create
        self.run: RunFeeds | None = None
        self.feeds: dict[str, Any] = {}

    def open(self, command: dict[str, Any]) -> dict[str, Any]:
        """Create a session and run it. The one before is released first, so that each model is alone."""
        self.run = None
        gc.collect()
        _held = fillers()
        self.feeds = feeds_of(command["feeds"])
        self.run = self.create(command["open"], command["threads"])
        self.run(self.feeds)
        return {"seconds": median_run(self.run, self.feeds, 3)}

    def time(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the median of as many runs as the command asks for."""
        assert self.run is not None
        return {"seconds": median_run(self.run, self.feeds, command["run"])}

    def commands(self) -> dict[str, Command]:
        """Return the commands by name."""
        return {"open": self.open, "run": self.time}


def serve(commands: Mapping[str, Command]) -> None:
    """Answer each line of standard input with what the command returns whose name it has, or with its error."""
    random.seed()  # different in each process
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        command = json.loads(line)
        (name,) = command.keys() & commands.keys()
        try:
            answer = commands[name](command)
        except Exception as error:  # noqa: BLE001  any error of a version is an answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Timer(open_session).commands())
