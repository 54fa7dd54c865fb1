"""python -m tests.emulation FOLDER MACHINE ... [--every 2] [--jobs 2] [--only TEXT]: conformance cases and models on other CPUs.

QEMU emulates the processor, and the system's calls are this machine's. `tests/emulation/fetch.sh FOLDER` brings QEMU and an
AArch64 Python beforehand. Kernels are compiled by processes that are not emulated, and kept in FOLDER/kernels; with --packs they are
those of a pack.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.emulation.machines import MACHINES, Emulator, Guest
from tests.emulation.products import integers
from tests.emulation.work import Work, cases, models


class Verdict(NamedTuple):
    name: str
    wrong: str  # why, or ""
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.emulation", description=__doc__)
    parser.add_argument("folder", type=Path, help="what fetch.sh has filled")
    parser.add_argument("machines", nargs="+", choices=MACHINES, metavar="MACHINE", help=f"some of {', '.join(MACHINES)}")
    parser.add_argument("--every", type=int, default=2, help="run every so many of the conformance cases")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="emulated processes at a time")
    parser.add_argument("--only", default="", help="cases and models whose names have this in them")
    parser.add_argument("--packs", type=Path, help="a folder with ort_lite_kernels, whose packs take the place of the compiler")
    chosen = parser.parse_args()
    work = [one for one in (*models(), *integers(), *cases(chosen.first, chosen.every)) if chosen.only in one.name]
    folder, packs = chosen.folder.resolve(), chosen.packs and chosen.packs.resolve()
    results = [report(name, Emulator(MACHINES[name], folder, packs), work, chosen.jobs) for name in chosen.machines]
    return 0 if work and all(results) else 1


def judged(emulator: Emulator, work: Sequence[Work], jobs: int) -> Iterator[Verdict]:
    """A verdict on each piece of work, in their order; what takes longest comes first."""
    compiler = emulator.compiler()
    guests = [Guest(emulator, compiler) for _ in range(jobs)]
    free: SimpleQueue[Guest] = SimpleQueue()
    for guest in guests:
        free.put(guest)

    def judge(one: Work) -> Verdict:
        guest = free.get()
        try:
            found, seconds = guest.run(one)
        finally:
            free.put(guest)
        return Verdict(one.name, found if isinstance(found, str) else _difference(one, found), seconds)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(judge, work)
    finally:
        for guest in guests:
            guest.close()


def _difference(work: Work, found: Sequence[Sequence[object]]) -> str:
    try:
        work.check(found)
    except AssertionError as error:
        return str(error) or "an assertion failed"
    return ""


def report(name: str, emulator: Emulator, work: Sequence[Work], jobs: int) -> bool:
    """Prints what is wrong as it comes, how many were right, and the slowest. True if all were right."""
    began, verdicts = time.monotonic(), []
    for verdict in judged(emulator, work, jobs):
        verdicts.append(verdict)
        if verdict.wrong:
            print(f"{name}: {verdict.name}: {verdict.wrong}", flush=True)
        elif len(verdicts) % 100 == 0:
            print(f"{name}: {len(verdicts)} of {len(work)} after {time.monotonic() - began:.0f} s", flush=True)
    right = sum(not verdict.wrong for verdict in verdicts)
    slowest = sorted(verdicts, key=lambda verdict: -verdict.seconds)[:5]
    longest = ", ".join(f"{verdict.name} {verdict.seconds:.0f} s" for verdict in slowest)
    print(f"{name}: {right} of {len(work)} right in {time.monotonic() - began:.0f} s; longest: {longest}", flush=True)
    return right == len(work)


if __name__ == "__main__":
    sys.exit(main())
