"""What an accelerator's provider makes of a network: in front of the CPU provider, by cost, with half of its bytes, and beside itself.

    python -m tests.benchmarks.bench_plugins OpenVINOExecutionProvider light_resnet50 [model.onnx ...]

For each model and way of sharing out: nodes that the provider has, partitions, the time of a run over that of the CPU provider alone
(above 1: slower), and what `run(verify="partition")` says. Measured as by `ort-lite bench`.
"""

import os
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import ort_lite
from ort_lite.errors import OrtLiteError
from ort_lite.tools.cli.benchmark.interleaved_runs import quietest
from ort_lite.tools.cli.feed_arguments import random
from tests.models.light_models import FOLDER

CPU = "CPUExecutionProvider"
SECONDS = 3.0
"""To measure a model."""


def feed_of(session: ort_lite.InferenceSession) -> dict[str, Any]:
    """Small numbers for each input, since those networks have large weights."""
    rng = np.random.default_rng(0)
    found = {
        arg.name: random(arg, [dim if isinstance(dim, int) else 1 for dim in arg.shape], rng) for arg in session.get_inputs()
    }
    return {name: array * array.dtype.type(1e-3) if array.dtype.kind == "f" else array for name, array in found.items()}


def options() -> ort_lite.SessionOptions:
    made = ort_lite.SessionOptions()
    made.intra_op_num_threads = 1
    made.log_severity_level = 3
    made.add_session_config_entry("ort_lite.keep_constants", "1")  # which verify needs
    return made


def bytes_of(session: ort_lite.InferenceSession, provider: str) -> int:
    """Of the constants and outputs of what the provider has: what `limit_bytes` counts."""
    assignment = session.explain().assignment
    parts = [part for part in assignment.partitions if assignment.label(part) == provider]
    constants = {id(value): value.constant for part in parts for value in part.constants}
    return sum(array.nbytes for array in constants.values() if array is not None)


def compare(path: str, provider: str, extra: Mapping[str, Any]) -> None:
    alone = ort_lite.InferenceSession(path, options(), providers=[CPU])
    first = ort_lite.InferenceSession(path, options(), providers=[(provider, extra), CPU])
    half = bytes_of(first, provider) // 2
    sessions = {
        "first": first,
        "by cost": ort_lite.InferenceSession(path, options(), providers=[(provider, extra), CPU], partitioning="cost"),
        f"{half >> 10} KiB": ort_lite.InferenceSession(
            path, options(), providers=[(provider, {**extra, "limit_bytes": half}), CPU]
        ),
    }
    feed = feed_of(alone)
    runs = {name: partial(session.run, None, feed) for name, session in {CPU: alone, **sessions}.items()}
    times = quietest(runs, SECONDS)
    for name, session in sessions.items():
        assignment = session.explain().assignment
        own = sum(place.provider == provider for place in assignment.placements.values())
        try:
            session.run(None, feed, verify="partition")
            found = str(session.verification).splitlines()[0]
        except OrtLiteError as error:
            found = str(error).splitlines()[0]
        print(
            f"{os.path.basename(path):28} {name:12} {own:4} of {len(assignment.placements)} nodes, {len(assignment.partitions)} "
            f"partitions, {times[name] / times[CPU]:6.2f} of {CPU}'s {times[CPU] * 1e3:.1f} ms; {found}",
            flush=True,
        )


def main(provider: str, models: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in models or ["light_resnet50"]:
        path = name if os.path.exists(name) else os.path.join(FOLDER, f"{name}.onnx")
        compare(path, provider, {})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
