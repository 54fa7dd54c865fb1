"""The parser of the command line. Slow imports are avoided, so `--help` and errors appear at once."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from ort_lite._version import __version__
from ort_lite.errors import hint
from ort_lite.tools.cli.commands import COMMANDS

_CHOICES = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_EXIT_STATUS = """\
exit status:
  0    done
  1    findings: a check, a comparison or a verification failed
  2    wrong usage: an option, a provider's name, an input
  3    the model cannot be loaded or run
  4    an execution provider failed
  130  interrupted

`ort-lite COMMAND --help` describes a command and gives examples."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says what is wrong and suggests what was meant."""

    def error(self, message: str) -> NoReturn:
        """Print a usage error and exit with status 2."""
        found = _CHOICES.search(message)
        if found:
            known = re.findall(r"[\w.-]+", found["known"])
            message = (
                message[: found.start()] + f"{found['given']!r} is none of {', '.join(known)}{hint(found['given'], known)}"
            )
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse as argparse does, but let the subcommand report an unknown option."""
        found, rest = self.parse_known_args(arguments)
        if rest:
            parser = self._subcommand(getattr(found, "command", ""))
            known = [option for action in parser._actions for option in action.option_strings]
            word = rest[0].partition("=")[0]
            what = "unknown option" if word.startswith("-") else "unexpected argument"
            parser.error(f"{what} {word}{hint(word, known) if word.startswith('-') else ''}")
        return found

    def _subcommand(self, name: str) -> argparse.ArgumentParser:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                chosen: argparse.ArgumentParser = action.choices[name]
                return chosen
        return self


def command_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        "ort-lite",
        description="An ONNX runtime in which an accelerator is a Python package.",
        epilog=_EXIT_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ort-lite {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        chosen = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog="\n  ".join(["examples:", *command.examples]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(chosen)
    return parser
