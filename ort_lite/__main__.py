"""`ort-lite` and `python -m ort_lite`: run, dump, explain, view, desk, serve, bench, step, exec, providers, new-provider,
check-provider, warmup, cache.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

from ort_lite.errors import InvalidArgument, InvalidGraph, InvalidProtobuf, NotImplemented, OrtLiteError
from ort_lite.tools.cli.parser import command_parser

_INTERRUPTED = 130
_GIVEN = InvalidArgument, InvalidGraph, InvalidProtobuf, NotImplemented, OSError
"""Errors about what the user gave."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status. 0: done. 1: it failed, or what it looked for is wrong. 2: something that was given is wrong: arguments, files,
    a model. 130: Ctrl-C, as shells have it. `exec` has those of its command. What went wrong is printed, in one line where it is no
    list.
    """
    arguments = command_parser().parse(argv)
    command = import_module(f"ort_lite.tools.cli.{arguments.command.replace('-', '_')}_command")
    if arguments.command == "exec":
        done: int = command.main(arguments)  # returns only if the command cannot run
        return done
    from ort_lite.native.progress import listen
    from ort_lite.tools.cli.compiling import Shown

    try:
        with listen(Shown()):
            status: int | None = command.main(arguments)
    except (OrtLiteError, OSError) as error:
        print(f"ort-lite {arguments.command}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2 if isinstance(error, _GIVEN) else 1
    except KeyboardInterrupt:
        print(f"ort-lite {arguments.command}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
