"""Generate models, run them with ort-lite, and compare the results with oracles.

    python -m tests.generated --models 1000 [--operators Conv,com.microsoft.Gelu] [--journal FILE] [--failures DIR]
    python -m tests.generated --repeat DIR

Exit status 1 if a difference is unexplained. A run with a journal goes on where it ended.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.generated import saved
from tests.generated.claims import claimed_targets, generator
from tests.generated.journal import Journal
from tests.generated.reducing import reduce_failure
from tests.generated.run import REDUCED, Run, Settings
from tests.generated.summary import missing, summary
from tests.generated.verdict import DIFFERENT, EXPLAINED
from tests.generated.workers import Task, Worker

FAILURES = Path("build/generated")


def main() -> int:
    arguments = _arguments()
    if arguments.repeat is not None:
        return _repeat(arguments.repeat, arguments.reduce)
    operators, transforms = ([name for name in text.split(",") if name] for text in (arguments.operators, arguments.transforms))
    try:
        source = generator(arguments.seed, operators, transforms)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    steering = {"seed": arguments.seed, "operators": sorted(operators), "transforms": sorted(transforms)}
    journal = Journal(arguments.journal, steering)
    settings = Settings(
        models=arguments.models,
        operators=operators,
        transforms=transforms,
        jobs=arguments.jobs,
        failures=arguments.failures,
        thorough_every=arguments.thorough_every,
        stop_at_first=arguments.stop_at_first,
        minutes=arguments.minutes,
    )
    run = Run(source, journal, settings)
    try:
        _follow(run, Console(stderr=True))
        for failure in run.reductions() if arguments.reduce else ():
            sys.stdout.write(f"{failure.folder}: {failure.target}, reduced to {len(failure.model.graph.node)} nodes\n")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    journal.close()
    entries = list(journal.entries.values())
    claimed = source.coverage.targets if operators or transforms else claimed_targets()
    sys.stdout.write(summary(entries, source, claimed))
    if arguments.coverage:
        sys.stdout.write("\n" + missing(source, claimed))
    return 1 if any(entry.status == DIFFERENT for entry in entries) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.generated", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=1000, metavar="N", help="number of models (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generator (default: 0)")
    parser.add_argument(
        "--operators", default="", metavar="NAMES", help="only models with one of these, as Conv,com.microsoft.Gelu"
    )
    parser.add_argument(
        "--transforms", default="", metavar="NAMES", help="only models with nodes that one of these transforms rewrites"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of processes (default: 2)")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="write a line for each model; go on where the file ends")
    parser.add_argument(
        "--failures", type=Path, default=FAILURES, metavar="DIR", help=f"folder of failures (default: {FAILURES})"
    )
    parser.add_argument(
        "--thorough-every", type=int, default=10, metavar="K", help="all oracles on each K-th model (default: 10)"
    )
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first unexplained difference")
    parser.add_argument("--minutes", type=float, metavar="M", help="start no more models after this time")
    parser.add_argument("--coverage", action="store_true", help="list what operator versions and types no model has, and why")
    parser.add_argument(
        "--reduce",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="reduce failing models and write them into DIR/reduced",
    )
    parser.add_argument("--repeat", type=Path, metavar="DIR", help="judge a saved failure again: its folder or its model file")
    return parser.parse_args()


def _follow(run: Run, console: Console) -> None:
    """Go through the run; on a terminal a bar shows how far it is."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    counts = Counter(entry.status for entry in run.journal.entries.values())
    # The bar draws no lines of its own accord: a thread that does could hold a lock while a process is forked.
    with Progress(*columns, console=console, auto_refresh=False, disable=not console.is_terminal) as progress:
        bar = progress.add_task("models", total=run.settings.models, completed=len(run.journal.entries))
        for entry in run.entries():
            counts[entry.status] += 1
            progress.update(
                bar,
                description=f"models, {counts[EXPLAINED]} explained, {counts[DIFFERENT]} different",
                completed=len(run.journal.entries),
                refresh=True,
            )


def _repeat(path: Path, reduced: bool) -> int:
    model, feeds = saved.load(path)
    worker = Worker()
    verdict = worker.verdict(Task(0, model.SerializeToString(), feeds, thorough=True))
    worker.stop()
    sys.stdout.write(saved.describe(model, verdict, path))
    if reduced and verdict.status == DIFFERENT:
        small, inputs, verdict = reduce_failure(model, feeds, verdict)
        saved.save(path / REDUCED, small, inputs, verdict)
        sys.stdout.write(saved.describe(small, verdict, path / REDUCED))
    return 1 if verdict.status == DIFFERENT else 0


if __name__ == "__main__":
    sys.exit(main())
