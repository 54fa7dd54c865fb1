"""`ort-lite coverage MODELS --provider X`: report how much of some models a provider runs, and what to implement next."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from ort_lite.errors import InvalidArgument
from ort_lite.log.progress_line import ProgressLine
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import feeds_of, free_sizes
from ort_lite.tools.cli.printing import many, print_json, print_table, print_text
from ort_lite.tools.coverage import CoverageGap, CoverageReport, ModelCoverage, coverage_of
from ort_lite.tools.coverage.coverage_page import page, summarize
from ort_lite.tools.coverage.coverage_report import Sums

COLUMNS = ("nodes", "ms", "share", "models", "last gap of")


def main(arguments: Namespace) -> ExitStatus:
    """Run `ort-lite coverage`. Returns MODEL if a model could not be partitioned or run."""
    providers = session_arguments.providers(arguments)
    if not providers or len(providers) != 1:
        raise InvalidArgument("--provider: expected the name of one execution provider")
    paths = list(session_arguments.model_paths(arguments.models))
    feeds = None if arguments.no_run else lambda inputs, size: feeds_of(arguments, inputs, free_sizes(inputs, size), False)
    models: list[ModelCoverage] = []
    with ProgressLine("coverage") as line:
        for done, path in enumerate(paths):
            line.update(path, done, len(paths))
            models += coverage_of([path], providers[0], feeds, session_arguments.options(arguments)).models
    found = CoverageReport(arguments.providers, tuple(models))
    if arguments.html:
        Path(arguments.html).write_text(page(found, list(_summary(found))), encoding="utf-8")
    if arguments.json:
        print_json("coverage", found.as_dict())
    else:
        _show(found, arguments.top)
    return ExitStatus.MODEL if any(model.error for model in found.models) else ExitStatus.DONE


def _summary(found: CoverageReport) -> Iterator[str]:
    on, off = found.sums(True), found.sums(False)
    whole = Sums(on.nodes + off.nodes, on.operations + off.operations, on.seconds + off.seconds)
    yield summarize("On the device", on, whole)
    yield summarize("Off the device", off, whole)
    if found.models_on_cpu:
        yield f"The device could not run {many(len(found.models_on_cpu), 'model')}; their times are the CPU provider's."


def _show(found: CoverageReport, top: int) -> None:
    print_text("\n".join(_summary(found)))
    rows = [
        (
            model["path"],
            *(str(model[side]["nodes"]) for side in ("on_device", "off_device")),
            model["timed_on"],
            str(model["size"] or ""),
            model["error"],
        )
        for model in found.as_dict()["models"]
    ]
    print_table(("model", "on", "off", "timed on", "free size", "error"), rows, ("on", "off", "free size"))
    print_text("\nImplement these operators next; the time is the most that each can gain:")
    _print_gaps("operator", found.next_operators(), top)
    print_text("\nWhy nodes are off the device:")
    _print_gaps("reason", found.reasons(), top)


def _print_gaps(name: str, ranked: Sequence[CoverageGap], top: int) -> None:
    rows = [
        (one.name, str(one.nodes), f"{one.seconds * 1e3:.3f}", f"{one.share:.1%}", str(one.models), str(one.last))
        for one in (ranked[:top] if top > 0 else ranked)
    ]
    print_table((name, *COLUMNS), rows, COLUMNS)
