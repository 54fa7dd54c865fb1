"""python -m tests.fuzz FIRST COUNT [--jobs 2]: runs mutants and prints what came of them; --show N shows one."""

from __future__ import annotations

import sys

import numpy as np
import onnx.printer

from tests.fuzz import report, trial
from tests.fuzz.mutants import mutant
from tests.fuzz.runner import run

NAMELESS = {
    "OutOfMemory": "scratch memory is that of all nodes of a run",
    "Cancelled": "`trial` ends runs that take long, and who asks for that need not be told why",
}
"""Refusals that may name neither node nor value."""


def show(number: int) -> str:
    """The model and the feeds of a mutant."""
    draft = mutant(number)
    lines = [f"{trial.label(draft)}: {'; '.join(draft.story)}"]
    lines.append(f"optimised: {draft.optimised}, threads: {draft.threads}, layouts: {draft.layouts}")
    try:
        lines.append(onnx.printer.to_text(draft.model()))
    except Exception as error:  # noqa: BLE001  onnx's helpers raise all kinds
        lines.append(f"no model: {error}")
    for name, value in draft.feeds().items():
        kind = f"{value.dtype} {value.shape} " if isinstance(value, np.ndarray) else ""
        lines.append(f"{name}: {kind}{np.array2string(value, threshold=60) if kind else value!r:.500}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(report.main("tests.fuzz", __doc__, run, show, NAMELESS))
