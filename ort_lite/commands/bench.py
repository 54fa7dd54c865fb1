"""`ort-lite bench MODEL.onnx`: median and 90th percentile of a run, and the ratio to onnxruntime's.

Runs of the two alternate, so that both see the same machine.
"""

import time
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from ort_lite.commands import model
from ort_lite.commands.printing import print_json, print_table
from ort_lite.errors import InvalidArgument

Run = Callable[[], Any]


def main(arguments: Namespace) -> None:
    if arguments.runs < 1:
        raise InvalidArgument(f"--runs {arguments.runs}: expected 1 or more")
    session = model.session(arguments, arguments.model)
    feeds = model.feeds(arguments, session.get_inputs())
    runs: dict[str, Run] = {"ort_lite": lambda: session.run(None, feeds)}
    if not arguments.alone and find_spec("onnxruntime") is not None:
        runs["onnxruntime"] = _onnxruntime(arguments, feeds)
    rows = report(timed(runs, arguments.runs))
    if arguments.json:
        print_json(rows)
        return
    columns = ("runtime", "median ms", "p90 ms", "times onnxruntime")
    print_table(columns, ([_text(row[column]) for column in columns] for row in rows), columns[1:])


def timed(runs: dict[str, Run], count: int, warm: int = 3) -> dict[str, list[float]]:
    """Seconds of each run; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(warm + count):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn >= warm:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def report(seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """A row for each; the ratio is above 1 where onnxruntime takes longer."""
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    other = medians.get("onnxruntime")
    return [
        {
            "runtime": name,
            "median ms": medians[name] * 1e3,
            "p90 ms": float(np.percentile(times, 90)) * 1e3,
            "times onnxruntime": None if other is None else other / medians[name],
        }
        for name, times in seconds.items()
    ]


def _onnxruntime(arguments: Namespace, feeds: dict[str, Any]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(arguments.model, options, providers=["CPUExecutionProvider"])
    return lambda: theirs.run(None, feeds)


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
