"""`ort-lite check MODEL.onnx`: check whether these providers can run a model, and list every problem. Nothing is compiled."""

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
from ort_lite.tools.cli.printing import print_json, print_text


def main(arguments: Namespace) -> int:
    """Run `ort-lite check`. Returns 1 if the model cannot run. Raises what loading raises."""
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
    if arguments.json:
        print_json({"runs": not problems, "problems": problems, "nodes": _counts(assignment)})
    else:
        print_text(_format_result(arguments.model, problems, _counts(assignment)))
    return 1 if problems else 0


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
    total = sum(counts.values())
    return f"{name} runs: {total} node{'' if total == 1 else 's'}, {where or 'none of which anybody has to run'}"
