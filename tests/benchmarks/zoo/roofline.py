"""The roofline of a model: the shortest time that its nodes could take one after the other, by the measured peaks of the machine."""

from collections.abc import Iterable, Mapping
from typing import Any

from ort_lite.tools.cli.benchmark.machine_peaks import Peaks, peaks
from ort_lite.tools.cli.benchmark.nodes import profile
from ort_lite.tools.view.node_times import NodeTime

SECONDS = 2.0
"""For the peaks, which are measured once in a process."""


def roofline(session: Any, feeds: Mapping[str, Any], threads: int) -> float:
    """Return the roofline of a run in seconds. Runs the session a few times, an instruction at a time."""
    return bound(profile(session, feeds, 0).lines, peaks(SECONDS), threads)


def bound(lines: Iterable[NodeTime], limits: Peaks, threads: int) -> float:
    """Return the sum over nodes of the time for the operations or for the bytes, whichever is more. Nodes that were fused are one.

    Operations are those of the definition, in the arithmetic of the operands. Operations that depend on data count as none.
    """
    return sum(limits.shortest_time(line.operations, line.nbytes, threads, line.arithmetic)[0] for line in lines)
