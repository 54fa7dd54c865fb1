"""`ort-lite` and `python -m ort_lite`: run a command of `ort_lite.tools.cli.commands`."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module

from ort_lite.errors import OrtLiteError
from ort_lite.tools.cli.exit_status import ExitStatus, status_of
from ort_lite.tools.cli.parser import command_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, which is an `ExitStatus`, or that of the command that `exec` runs.

    Errors go to standard error, in one line each where they are no list.
    """
    arguments = command_parser().parse(argv)
    command = import_module(f"ort_lite.tools.cli.{arguments.command.replace('-', '_')}_command")
    if arguments.command == "exec":
        done: int = command.main(arguments)  # returns only if the command cannot run
        return done
    try:
        return _run(command.main, arguments)
    except (OrtLiteError, OSError) as error:
        print(f"ort-lite {arguments.command}: {type(error).__name__}: {error}", file=sys.stderr)
        return status_of(error)
    except KeyboardInterrupt:
        print(f"ort-lite {arguments.command}: interrupted", file=sys.stderr)
        return ExitStatus.INTERRUPTED


def _run(command: Callable[[Namespace], int | None], arguments: Namespace) -> int:
    """Run a command with the log messages, the warnings and the progress that -v and -q ask for."""
    from ort_lite.tools.cli.verbosity import use_verbosity

    with use_verbosity(arguments):
        return command(arguments) or ExitStatus.DONE


if __name__ == "__main__":
    sys.exit(main())
