"""The steps of the CPU provider's programs, for tests that look into them."""

from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment_run import SegmentRun


def segment_runs(program: Program) -> list[SegmentRun]:
    """The steps of a program none of whose nodes runs in Python."""
    runs = [step for step in program.steps if isinstance(step, SegmentRun)]
    assert len(runs) == len(program.steps)
    return runs
