"""`ort-lite check MODEL.onnx`: check whether these providers run a model, and list every problem.

The model is loaded and partitioned, and then run once with the inputs that are given, or random ones. With --no-run nothing is
compiled or run.
"""

from argparse import Namespace
from collections import Counter
from typing import Any

from ort_lite.errors import OrtLiteError, describe
from ort_lite.inference.form import wrong_forms
from ort_lite.options.creation_limits import creating
from ort_lite.partition.assignment import Assignment
from ort_lite.plugins.selection import rules_of
from ort_lite.session.preparation import Arguments, prepare_until
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import many, print_json, print_text


def main(arguments: Namespace) -> int:
    """Run `ort-lite check`. Returns FINDINGS if the model does not run. Raises what loading raises."""
    options, given = session_arguments.options(arguments), Arguments(session_arguments.providers(arguments))
    loaded = prepare_until("load", arguments.model, options, given).loaded
    with creating(options):
        problems = [describe(error) for error in wrong_forms(loaded.model, rules_of(loaded.selection.providers))]
    assignment = None
    if not problems:
        try:
            assignment = prepare_until("partition", arguments.model, options, given).assignment
        except OrtLiteError as error:
            problems = _each(describe(error))
    ran = not (problems or arguments.no_run)
    if ran:
        problems = _run(arguments)
    if arguments.json:
        print_json("check", {"runs": not problems, "problems": problems, "ran": ran, "nodes": _counts(assignment)})
    else:
        print_text(_format_result(arguments.model, problems, _counts(assignment)))
    return ExitStatus.FINDINGS if problems else ExitStatus.DONE


def _run(arguments: Namespace) -> list[str]:
    """Run the model once, as `ort-lite run` does, and return what stops it."""
    try:
        with session_arguments.session(arguments, arguments.model) as session:
            session.run(None, feeds_of(arguments, session.get_inputs()))
    except OrtLiteError as error:
        given = arguments.feeds or arguments.input or arguments.value
        return [describe(error) + ("" if given else " (the inputs were random: --feeds, --input and --value give others)")]
    return []


def _each(text: str) -> list[str]:
    """A list has a line of its own for each thing, behind one that says what they are."""
    first, *rest = text.splitlines()
    return [f"{first.rstrip(':')}: {line.strip()}" for line in rest] or [first]


def _counts(assignment: Assignment | None) -> dict[str, int]:
    """Return the number of nodes by provider, in the order of the providers."""
    if assignment is None:
        return {}
    found = Counter(place.provider for place in assignment.placements.values())
    return {name: found[name] for name in assignment.providers if found[name]}


def _format_result(name: str, problems: list[str], counts: dict[str, Any]) -> str:
    if problems:
        count = f"{len(problems)} {'thing stops' if len(problems) == 1 else 'things stop'} it"
        return "\n".join([f"{name} does not run: {count}", *(f"  {problem}" for problem in problems)])
    where = ", ".join(f"{count} on {provider}" for provider, count in counts.items())
    return f"{name} runs: {many(sum(counts.values()), 'node')}, {where or 'none of which anybody has to run'}"
