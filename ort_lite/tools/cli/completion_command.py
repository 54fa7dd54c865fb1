"""`ort-lite completion SHELL`: print a script with which a shell completes the command line."""

import argparse
from collections.abc import Iterator

from ort_lite.tools.cli.parser import command_parser
from ort_lite.tools.cli.printing import print_text

FILES = ("FILE", "FOLDER", "DIR", ".onnx")
"""Parts of the metavar of arguments that are paths."""


def main(arguments: argparse.Namespace) -> None:
    """Run `ort-lite completion`."""
    print_text(script(arguments.shell))


def script(shell: str) -> str:
    """Return the completion script for a shell that `shtab` knows."""
    import shtab

    parser = command_parser()
    for action in _actions(parser):
        if isinstance(action.metavar, str) and any(part in action.metavar for part in FILES):
            vars(action)["complete"] = shtab.FILE  # the attribute that shtab looks for
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
