"""`ort-lite profile MODEL.onnx`: show time per node, compared with the machine's peak, and totals per operator type."""

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import InvalidArgument
from ort_lite.record import asdict
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.benchmark.benchmark_report import row_of, show
from ort_lite.tools.cli.benchmark.machine_peaks import cores, cpu, peaks
from ort_lite.tools.cli.benchmark.nodes import profile
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text
from ort_lite.tools.view.node_times import NodeTime


def main(arguments: Namespace) -> None:
    """Run `ort-lite profile`."""
    if arguments.seconds < 0:
        raise InvalidArgument(f"--seconds {arguments.seconds:g}: expected 0 or more")
    arguments.threads = arguments.threads or cores()
    options = session_arguments.options(arguments)
    with session_arguments.session(arguments, arguments.model, options) as session:
        feeds = feeds_of(arguments, session.get_inputs())
        found = profile(session, feeds, arguments.seconds)
    if arguments.trace:
        _write_trace(arguments, options, feeds)
    limits = peaks(target=options.config("ort_lite.target", "host"))
    rows = [row_of(line, limits, arguments.threads) for line in found.lines]
    totals = _totals(found.lines)
    if arguments.json:
        told = {"cpu": cpu()[0], "threads": arguments.threads, "seconds": found.seconds, "runs": found.runs}
        print_json("profile", {**told, "peaks_of_a_core": asdict(limits), "nodes": rows, "operators": totals})
        return
    show(found, limits, rows, arguments.top)
    print_text("")
    columns = ("operator", "times", "ms", "share")
    cells = [(t["operator"], str(t["times"]), f"{t['seconds'] * 1e3:.4f}", f"{t['share']:.1%}") for t in totals]
    print_table(columns, cells, columns[1:])


def _write_trace(arguments: Namespace, options: SessionOptions, feeds: dict[str, Any]) -> None:
    """Write a trace of a new session: its creation, a first run that plans memory, and the next run."""
    options.enable_profiling, options.profile_file_prefix = True, arguments.trace
    with session_arguments.session(arguments, arguments.model, options) as session:
        for _ in range(2):
            session.run(None, feeds)
        os.replace(session.end_profiling(), arguments.trace)


def _totals(lines: Sequence[NodeTime]) -> list[dict[str, Any]]:
    """Return the totals per operator type, the longest first."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        row = found.setdefault(line.operator, {"operator": line.operator, "times": 0, "seconds": 0.0, "share": 0.0})
        row["times"], row["seconds"], row["share"] = row["times"] + 1, row["seconds"] + line.seconds, row["share"] + line.share
    return sorted(found.values(), key=lambda row: -row["seconds"])
