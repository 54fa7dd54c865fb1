"""Compare the working tree with another commit: times of models and operators, starts, memory, sizes.

    python -m tests.benchmarks.compare BASE [--only models,operators,startup,size] [--full] [--models DIR] [--filter TEXT]

Or `make compare BASE=<commit>`. The page is printed, and written as report.md and report.json into the folder. Exit status 1 if
something became slower or larger. How to read it: docs/comparing-versions.md.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ort_lite.tools.cli.benchmark.machine_peaks import cores, cpu
from tests.benchmarks.compare.cases import STARTS, Case, write_cases
from tests.benchmarks.compare.lines import lines_of_code
from tests.benchmarks.compare.measure import Figure, Task, Trio, measure_run, measure_starts, measure_wheels
from tests.benchmarks.compare.processes import Failed, Worker, timer_of, workers
from tests.benchmarks.compare.report import Report
from tests.benchmarks.compare.sides import ROOT, Side, digest, prepare_commit, prepare_working_tree

GROUPS = ("models", "operators", "startup", "size")
COLD = STARTS[:2]
FOLDER = ROOT / "build" / "compare"


def main() -> int:
    arguments = _arguments()
    console = Console(stderr=True)
    began = time.monotonic()
    with console.status("preparing both versions") if console.is_terminal else ExitStack():
        base = prepare_commit(arguments.base, FOLDER)
        trio = Trio(prepare_working_tree(FOLDER), base)
        cases = [
            case
            for case in write_cases(FOLDER / "cases", arguments.models)
            if any(text in case.name for text in arguments.filter.split(","))
        ]
        _warm_both(trio, [case for case in cases if f"{case.kind}s" in arguments.only or case.name in STARTS])
    prepared = time.monotonic()
    figures = _measure(arguments, trio, cases, console)
    report = _report(trio, figures, prepared - began, time.monotonic() - prepared)
    (FOLDER / "report.md").write_text(report.markdown(), encoding="utf-8")
    (FOLDER / "report.json").write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(report.markdown())
    return 1 if report.worse else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.benchmarks.compare", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("base", help="commit to compare the working tree with")
    parser.add_argument("--only", default="", metavar="GROUPS", help=f"some of {','.join(GROUPS)} (default: all)")
    parser.add_argument("--full", action="store_true", help="two threads as well, and starts and memory of all models")
    parser.add_argument(
        "--models", type=Path, metavar="DIR", help="a folder of further models, NAME.onnx, with feeds in NAME.npz"
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXTS", help="only models and operators whose name contains one of TEXT,TEXT,..."
    )
    arguments = parser.parse_args()
    arguments.only = [name for name in arguments.only.split(",") if name] or list(GROUPS)
    if unknown := sorted({*arguments.only} - {*GROUPS}):
        parser.error(f"--only {','.join(unknown)}: expected some of {', '.join(GROUPS)}")
    return arguments


def _warm_both(trio: Trio, cases: Sequence[Case]) -> None:
    """Fill both kernel caches, at the same time: nothing is measured meanwhile."""
    threads = [Thread(target=_warm, args=(side, cases)) for side in (trio.changed, trio.base)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _warm(side: Side, cases: Sequence[Case]) -> None:
    """Run each case once, unless this version ran it before. What fails is found again when it is measured."""
    path = side.kernels.with_name("warmed.json")
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    warmed = {*known.get("cases", ())} if known.get("wheel") == digest(side) else set()
    with Worker(timer_of(side)) as worker:
        for case in cases:
            if str(case.model) not in warmed:
                try:
                    worker.open(case.model, case.feeds, 1)
                except Failed:
                    continue
                warmed.add(str(case.model))
    path.write_text(json.dumps({"wheel": digest(side), "cases": sorted(warmed)}), encoding="utf-8")


def _measure(arguments: argparse.Namespace, trio: Trio, cases: Sequence[Case], console: Console) -> list[Figure]:
    """Run all tasks one after the other. On a terminal a bar shows how far it is."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with ExitStack() as stack, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks = list(_tasks(arguments, trio, cases, stack))
        bar = progress.add_task("measuring", total=len(tasks))
        figures: list[Figure] = []
        for name, task in tasks:
            progress.update(bar, description=name[:40].ljust(40))
            figures += task()
            progress.advance(bar)
    return figures


def _tasks(arguments: argparse.Namespace, trio: Trio, cases: Sequence[Case], stack: ExitStack) -> Iterator[tuple[str, Task]]:
    for threads in (1, 2) if arguments.full and cores() > 1 else (1,):
        timed = [case for case in cases if f"{case.kind}s" in arguments.only]
        pool = stack.enter_context(workers(trio.programs(), threads)) if timed else []
        for case in timed:
            yield case.name, partial(_one, partial(measure_run, trio, pool, case, threads))
    kinds = ["start"] * ("startup" in arguments.only) + ["memory"] * ("size" in arguments.only)
    started = [case for case in cases if case.kind == "model" and (arguments.full or case.name in STARTS)]
    if "start" in kinds and not arguments.filter:
        yield "import", partial(measure_starts, trio, None, False, kinds)
    for case in started if kinds else ():
        yield f"{case.name}, start", partial(measure_starts, trio, case, False, kinds)
        if "start" in kinds and case.name in COLD:
            yield f"{case.name}, cold start", partial(measure_starts, trio, case, True, kinds)
    if "size" in arguments.only:
        yield "wheel", partial(_one, partial(measure_wheels, trio))


def _one(measure: partial[Figure]) -> list[Figure]:
    return [measure()]


def _report(trio: Trio, figures: Sequence[Figure], preparation: float, seconds: float) -> Report:
    changed, base = (lines_of_code(side.source) for side in (trio.changed, trio.base))
    lines = {folder: (changed.get(folder, 0), base.get(folder, 0)) for folder in sorted({*changed, *base})}
    name, features = cpu()
    return Report(trio.changed.name, trio.base.name, name, features, tuple(figures), lines, preparation, seconds)


if __name__ == "__main__":
    sys.exit(main())
