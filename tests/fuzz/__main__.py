"""python -m tests.fuzz FIRST COUNT [--jobs 2] [--out FILE.jsonl]: runs mutants and prints what came of them; --show N shows one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx.printer

from tests.fuzz import trial
from tests.fuzz.known import known_difference
from tests.fuzz.mutants import mutant
from tests.fuzz.runner import run
from tests.fuzz.trial import Verdict
from tests.generated.oracles import of_onnxruntime, of_reference

SHOWN = {trial.RAISED, trial.WRONG, trial.ACCESS, trial.SIGNAL, trial.HANG}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="one verdict a line, as JSON")
    parser.add_argument("--show", type=int, metavar="N", help="one mutant: its model, its feeds, its verdict")
    chosen = parser.parse_args()
    if chosen.show is not None:
        show(chosen.show)
        return
    began = time.monotonic()
    verdicts = []
    with open(chosen.out or "/dev/null", "w", encoding="utf-8") as file:
        for verdict in run(range(chosen.first, chosen.first + chosen.count), chosen.jobs):
            verdicts.append(verdict)
            file.write(json.dumps(verdict._asdict()) + "\n")
            file.flush()
    sys.stdout.write(table(verdicts, time.monotonic() - began))


def table(verdicts: list[Verdict], seconds: float) -> str:
    """How many of each status, and one line for each mutant that is to be looked at."""
    counts = Counter(verdict.status for verdict in verdicts)
    lines = [f"{len(verdicts)} mutants in {seconds:.0f} s, {1000 * seconds / max(len(verdicts), 1):.1f} ms each"]
    lines += [f"{counts[status]:8}  {status:9} {meaning}" for status, meaning in trial.STATUSES.items()]
    unnamed = [verdict for verdict in verdicts if verdict.status == trial.REFUSED and not verdict.named]
    stricter = sum(verdict.status == trial.REFUSED and verdict.reference == "ran" for verdict in verdicts)
    compared = sum(verdict.status == trial.OK and verdict.reference == "ran" for verdict in verdicts)
    lines.append(f"{compared:8}  of those that ran agree with onnx.reference")
    lines.append(f"{stricter:8}  were refused although onnx.reference runs them")
    lines.append(f"{len(unnamed):8}  refusals name neither node nor operand")
    known = {v.number for v in verdicts if v.status == trial.WRONG and known_difference(mutant(v.number))}
    lines.append(f"{len(known):8}  of those that differ from onnx.reference are known to be its own mistakes")
    seen = sorted(
        (v for v in verdicts if v.status in SHOWN and v.number not in known), key=lambda v: (v.status, v.operator, v.number)
    )
    lines += [_line(verdict) for verdict in (*seen, *unnamed)]
    return "\n".join(lines) + "\n"


def _line(verdict: Verdict) -> str:
    detail = " / ".join(verdict.detail.splitlines()[:3])
    return f"{verdict.number:8}  {verdict.status:8} {verdict.operator:32} {verdict.error} {detail:.200}"


def show(number: int) -> None:
    """Prints a mutant and what comes of it."""
    draft = mutant(number)
    write = sys.stdout.write
    write(f"{trial.label(draft)}: {'; '.join(draft.story)}\n")
    write(f"optimised: {draft.optimised}, threads: {draft.threads}, layouts: {draft.layouts}\n")
    try:
        model = draft.model()
    except Exception as error:  # noqa: BLE001  onnx's helpers raise all kinds
        write(f"no model: {error}\n")
        return
    write(onnx.printer.to_text(model) + "\n")
    for name, value in draft.feeds().items():
        kind = f"{value.dtype} {value.shape} " if isinstance(value, np.ndarray) else ""
        write(f"{name}: {kind}{np.array2string(value, threshold=60) if kind else value!r:.500}\n")
    [verdict] = run([number])
    for name, field in verdict._asdict().items():
        write(f"{name}: {field}\n")
    if verdict.reference != "died":
        for who, asked in (("onnx.reference", of_reference), ("onnxruntime", of_onnxruntime)):
            write(f"{who}: {asked(model, draft.feeds())!s:.600}\n")


if __name__ == "__main__":
    main()
