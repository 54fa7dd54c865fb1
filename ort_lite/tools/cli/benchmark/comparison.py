"""Comparison of a model here and on a rival: first the results, then the times, with the rival against itself as the control."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_lite.record import Record, field
from ort_lite.tools.cli.benchmark.concurrent_load import Load, load_of
from ort_lite.tools.cli.benchmark.interleaved_runs import Run, time_blocks
from ort_lite.tools.verify.compare import TensorReport, compare_all
from ort_lite.tools.verify.settings import Verification

NOISE = 0.03
"""A rival that is further off from itself than this share was measured on a busy machine."""


class Result(Record):
    """Times of one model, in seconds per run; None for what was not measured.

    `differences` lists outputs that are too far apart. `failed` names the runtime that failed.
    """

    name: str
    ours: float | None = None
    theirs: float | None = None
    control: float | None = None
    differences: tuple[str, ...] = ()
    failed: str = ""
    runs: Mapping[str, Load] = field(default_factory=dict)
    """By runtime, one run after another."""
    loads: Mapping[str, Load] = field(default_factory=dict)
    """By runtime, under several callers at once, where that was asked for."""

    @property
    def ratio(self) -> float | None:
        """Return the rival's time divided by ours: above 1, ort-lite is faster."""
        return _over(self.theirs, self.ours)

    @property
    def noise(self) -> float | None:
        """Return the rival's time divided by its control's time: 1 on a quiet machine."""
        return _over(self.theirs, self.control)

    @property
    def noisy(self) -> bool:
        """True if the control differs from the first session by more than the limit."""
        return self.noise is not None and abs(self.noise - 1) > NOISE

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data; times in seconds."""
        shown = {name: getattr(self, name) for name in ("name", "ours", "theirs", "control", "ratio", "noise", "failed")}
        runs = {runtime: load.as_dict() for runtime, load in self.runs.items()}
        loads = {runtime: load.as_dict() for runtime, load in self.loads.items()}
        return {**shown, "differences": list(self.differences), "runs": runs, "loads": loads}


def time_runs(name: str, ours: Run, seconds: float) -> Result:
    """Time a model without a rival."""
    times = time_blocks({"ours": ours}, seconds)["ours"]
    return Result(name, times.quietest, runs={"ort_lite": load_of(times.seconds)})


def compare_runs(name: str, ours: Run, theirs: Run, control: Run, outputs: Sequence[str], rival: str, seconds: float) -> Result:
    """Compare the outputs of two sessions and time them. `control` is a second session of the rival.

    Differences are reported, and the model is timed nevertheless.
    """
    found = differences(outputs, ours(), theirs(), rival)
    times = time_blocks({"ours": ours, "theirs": theirs, "control": control}, seconds)
    runs = {"ort_lite": load_of(times["ours"].seconds), rival: load_of(times["theirs"].seconds)}
    return Result(
        name, times["ours"].quietest, times["theirs"].quietest, times["control"].quietest, differences=tuple(found), runs=runs
    )


def differences(outputs: Sequence[str], ours: Sequence[Any], theirs: Sequence[Any], rival: str) -> list[str]:
    """Return one line for each output that differs from the rival's by more than its element type allows."""
    reports = compare_all(outputs, ours, theirs, Verification().tolerance)
    return [_difference(report, rival) for report in reports if not report.ok]


def geometric_mean(results: Iterable[Result]) -> float | None:
    """Return the geometric mean of the ratios, without those whose results differ: they computed something else."""
    ratios = [math.log(result.ratio) for result in results if result.ratio and not result.differences]
    return math.exp(sum(ratios) / len(ratios)) if ratios else None


def _difference(report: TensorReport, rival: str) -> str:
    if report.mismatch:
        return f"{report.name!r} {report.mismatch.replace('the CPU', rival)}"
    at = "" if report.index is None else f", most at {list(report.index)}: ort_lite {report.got}, {rival} {report.expected}"
    return f"{report.name!r} {report.type}{list(report.shape)}: {report.wrong} of {report.elements} elements differ{at}"


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
