"""The table of all registrations, lateness.txt: how long runs take, and how late they end when they are cancelled."""

import platform
from collections.abc import Sequence
from pathlib import Path

from ort_lite.tools.cli.benchmark.machine_peaks import cpu
from tests.cancellation.lateness import LONGEST, THREADS, Row
from tests.cancellation.registrations import Registration, is_step, registrations

FILE = Path(__file__).with_name("lateness.txt")
HEAD = """\
# How late cancelled runs end, as python -m tests.cancellation --write measures it: {cpu}, {system}, {threads} threads.
# Operator; kernel or Python step; time of a run that nobody cancels; the longest delay; what is large; shapes of the inputs.
"""


def line(one: Registration, row: Row) -> str:
    """Return the line of a row."""
    if row.problem:
        return f"{row.name:45} {row.problem}"
    alone = f"{row.alone:7.2f} s" if row.alone < LONGEST else f" over {LONGEST:.0f} s"
    kind = "step" if is_step(one) else "kernel"
    return f"{row.name:45} {kind:6} {alone} {1000 * row.late:6.0f} ms  {row.what:38} {row.shapes[:80]}".rstrip()


def read() -> dict[str, list[str]]:
    """Return the lines of the table by registration."""
    found: dict[str, list[str]] = {}
    for text in FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else ():
        if not text.startswith("#"):
            found.setdefault(text.split()[0], []).append(text)
    return found


def delay_ms(text: str) -> float:
    """Return the delay in a line. Raises ValueError for a line that has none."""
    before, found, _ = text.partition(" ms  ")
    if not found:
        raise ValueError(f"no delay in: {text}")
    return float(before.split()[-1])


def write(one: Registration, rows: Sequence[Row]) -> None:
    """Replace the lines of a registration, and drop those of registrations that are gone."""
    lines = read() | {str(one): [line(one, row) for row in rows]}
    head = HEAD.format(cpu=cpu()[0], system=platform.system(), threads=THREADS)
    body = (text for name in map(str, registrations()) for text in lines.get(name, ()))
    FILE.write_text(head + "".join(f"{text}\n" for text in body), encoding="utf-8")
