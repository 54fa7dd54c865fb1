"""`ort-lite check-provider NAME`: run the conformance kit, and report as text, JSON, HTML or JUnit XML."""

import json
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ort_lite.errors import InvalidArgument, ProviderError, describe
from ort_lite.log.progress_line import ProgressLine
from ort_lite.plugins import plugins
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from ort_lite.provider.provider import ExecutionProvider


def main(arguments: Namespace) -> ExitStatus:
    """Run the checks and print the report. Returns FINDINGS if a check has some."""
    from ort_lite.testing.documents import html, junit
    from ort_lite.testing.hosts import find_host
    from ort_lite.testing.report import check_provider, load_class

    aliases = find_host(arguments.host).aliases
    named = {alias: name for name, alias in aliases.items()}.get(arguments.provider, arguments.provider)
    cls = load_class(named) if ":" in named else _find_provider(named)
    with ProgressLine("check") as line:
        report = check_provider(
            partial(cls, **_options(arguments.options)),
            only=_words(arguments.only),
            operators=_words(arguments.operators),
            rtol=arguments.rtol,
            atol=arguments.atol,
            case=arguments.case,
            speed=True,
            save=arguments.save or None,
            progress=line.update,
            host=arguments.host,
            shapes=arguments.shapes,
        )
    for path, write in ((arguments.html, html), (arguments.junit, junit)):
        if path:
            Path(path).write_text(write(report), encoding="utf-8")
    if arguments.json:
        print_json("check-provider", report.as_dict())
    else:
        print_text(f"{report}\n\n{report.details()}" if arguments.verbose else report)
    return ExitStatus.DONE if report.passed else ExitStatus.FINDINGS


def _find_provider(name: str) -> "type[ExecutionProvider]":
    """Return the provider class by name. Raises InvalidArgument if there is none, and ProviderError if its import fails."""
    try:
        return plugins.provider(name)
    except ProviderError as error:
        if name in plugins.installed_providers():
            raise
        raise InvalidArgument(describe(error)) from error


def _words(text: str) -> list[str] | None:
    return text.split(",") if text else None


def _options(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"--options {text!r}: {error}") from error
    if not isinstance(found, dict):
        raise InvalidArgument(f"--options {text!r}: expected a JSON object")
    return found
