"""`ort-lite run MODEL.onnx`: run a model once and print one line per output."""

import os
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.dtypes import from_numpy, ort_name
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text


def main(arguments: Namespace) -> None:
    """Run `ort-lite run`."""
    session = _session(arguments)
    feeds = feeds_of(arguments, session.get_inputs())
    start = time.perf_counter()
    results = session.run(None, feeds)
    seconds = time.perf_counter() - start
    if arguments.trace:
        os.replace(session.end_profiling(), arguments.trace)
    outputs = {arg.name: result for arg, result in zip(session.get_outputs(), results, strict=True)}
    if arguments.output:
        arrays: dict[str, Any] = {name: np.asarray(result) for name, result in outputs.items()}
        np.savez(arguments.output, **arrays)
    rows = [{"output": name, **summary(result)} for name, result in outputs.items()]
    if arguments.json:
        print_json("run", {"seconds": seconds, "providers": session.get_providers(), "outputs": rows})
        return
    print_summaries(("output",), rows)
    print_text(f"{seconds * 1e3:.3f} ms, the first run, on {', '.join(session.get_providers())}")


def _session(arguments: Namespace) -> InferenceSession:
    """Create the session, with profiling on if a trace is wanted."""
    options = session_arguments.options(arguments)
    if arguments.trace:
        options.enable_profiling, options.profile_file_prefix = True, arguments.trace
    return session_arguments.session(arguments, arguments.model, options)


def summary(result: Any) -> dict[str, Any]:
    """Describe a result by its type, its shape and, for numbers, its minimum, mean and maximum."""
    if not isinstance(result, np.ndarray):
        kind = f"{type(result).__name__} of {len(result)}" if hasattr(result, "__len__") else type(result).__name__
        return {"type": kind, "first": repr(result)[:40]}
    found: dict[str, Any] = {"type": ort_name(from_numpy(result.dtype)), "shape": list(result.shape)}
    if result.size and result.dtype.kind in "biuf":
        numbers = result.astype(np.float64)
        found |= {"min": float(numbers.min()), "mean": float(numbers.mean()), "max": float(numbers.max())}
    return found | {"first": ", ".join(map(str, result.reshape(-1)[:4].tolist()))}


def print_summaries(first: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of what `summary` returns, behind the columns in `first`."""
    columns = (*first, "type", "shape", "min", "mean", "max", "first")
    cells = ([text_of(row.get(column, "")) for column in columns] for row in rows)
    print_table(columns, cells, ("offset", "min", "mean", "max"))


def text_of(value: Any) -> str:
    """Return the text of a fact in a summary."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
