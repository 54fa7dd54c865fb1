"""`ort-lite exec`: run a command whose Python processes get ort_lite when they import onnxruntime.

The command replaces this process (`execve`), so its signals, terminal, standard streams and exit status are its own. Python scripts
and modules run in a new interpreter: `sys.argv`, `sys.path` and `__main__` are what Python itself makes them. The switch travels in
PYTHONPATH, which every child process inherits; ort_lite/compat/site/sitecustomize.py turns it on.
"""

import mmap
import os
import signal
import sys
import sysconfig
from argparse import Namespace

from ort_lite.compat import switch

SITE = os.path.join(os.path.dirname(os.path.abspath(switch.__file__)), "site")
"""The folder in which every Python process that the command starts finds our `sitecustomize`."""
QUIET = f"{SITE}_quiet"
"""The folder of the `sitecustomize` that turns progress lines off; it comes before SITE."""
_SCRIPTS = (".py", ".pyw", ".pyc", ".pyz")
_USAGE, _NOT_EXECUTABLE, _NOT_FOUND = 2, 126, 127
"""Exit statuses; the last two are those of POSIX shells."""
_BUILT_IN = b"libonnxruntime"
"""Text in every native program that links onnxruntime: the library's name, or those of the providers that it can load."""


class _CommandError(Exception):
    """The command cannot run: the exit status and the reason."""


def main(arguments: Namespace) -> int:
    """Replace this process by the command. Return an exit status only if it cannot run."""
    environment = _environment(arguments.quiet)
    try:
        file, argv = _command(arguments, environment["PATH"])
        _execute(file, argv, environment)
    except _CommandError as refused:
        status, reason = refused.args
        sys.stderr.write(f"ort-lite exec: {reason}\n")
        return int(status)
    return 0


def _environment(quiet: bool) -> dict[str, str]:
    """The environment of the command: our `sitecustomize` is first in PYTHONPATH, and the commands that pip installed are on PATH.

    They are missing there when a virtual environment's `ort-lite` is called without activating it; then their folder is put first.
    """
    environment = dict(os.environ)
    own = environment.get("PYTHONPATH", "")
    folders = [QUIET, SITE] if quiet else [SITE]
    others = [entry for entry in own.split(os.pathsep) if entry not in ("", QUIET, SITE)]
    environment["PYTHONPATH"] = os.pathsep.join([*folders, *others])
    path = environment.get("PATH", os.defpath)
    scripts = sysconfig.get_path("scripts")
    known = {os.path.realpath(folder) for folder in path.split(os.pathsep)}
    environment["PATH"] = path if os.path.realpath(scripts) in known else os.pathsep.join([scripts, path])
    return environment


def _command(arguments: Namespace, path: str) -> tuple[str, list[str]]:
    """Return the file to execute and its arguments. Raises _CommandError."""
    if arguments.module:
        return sys.executable, [*_python(), "-m", *arguments.module]
    argv = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not argv:
        raise _CommandError(
            _USAGE, "which command? `ort-lite exec COMMAND arguments...` or `ort-lite exec -m MODULE arguments...`"
        )
    name = argv[0]
    if name.endswith(_SCRIPTS) and os.path.isfile(name):
        return sys.executable, [*_python(), *argv]
    files = [name] if os.sep in name else [os.path.join(folder, name) for folder in path.split(os.pathsep)]
    files = [file for file in files if os.path.isfile(file)]
    for file in files:
        if os.access(file, os.X_OK):
            return file, argv
    if os.path.isfile(os.path.join(name, "__main__.py")):
        return sys.executable, [*_python(), *argv]
    raise _refusal(name, files)


def _python() -> list[str]:
    """Return this interpreter with the options it was started with. Raises _CommandError if they make it ignore PYTHONPATH."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise _CommandError(
            _USAGE, "Python's options -E, -I and -S turn off what makes the program use ort_lite; start ort-lite without them"
        )
    import subprocess  # takes as long as the rest of this module; other commands do not need it

    options: list[str] = vars(subprocess)["_args_from_interpreter_flags"]()  # private, and what multiprocessing calls
    return [sys.executable, *options]


def _refusal(name: str, files: list[str]) -> _CommandError:
    """Explain why a name is not a command. `files` have that name but are not executable."""
    if os.path.isdir(name):
        return _CommandError(_NOT_EXECUTABLE, f"{name} is a directory without a __main__.py")
    if files:
        return _CommandError(
            _NOT_EXECUTABLE, f"{files[0]} is not executable; if it is a Python program: ort-lite exec python {files[0]}"
        )
    if os.path.isfile(name):
        return _CommandError(_NOT_FOUND, f"{name}: command not found; for the file in this folder: ort-lite exec ./{name}")
    what = "no such file" if os.sep in name or name.endswith(_SCRIPTS) else "command not found"
    return _CommandError(_NOT_FOUND, f"{name}: {what}")


def _execute(file: str, argv: list[str], environment: dict[str, str]) -> None:
    """Replace this process. Raises _CommandError if the system cannot execute the file."""
    if _has_onnxruntime_built_in(file):
        sys.stderr.write(
            f"ort-lite exec: {file} has onnxruntime built in and does not use ort-lite; Python processes that it starts do\n"
        )
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and ignored signals stay so in what is executed
    try:
        os.execve(file, argv, environment)
    except OSError as error:
        raise _CommandError(_NOT_EXECUTABLE, f"cannot execute {file}: {error.strerror}") from error


def _has_onnxruntime_built_in(file: str) -> bool:
    """Return True for a native program (ELF) that links onnxruntime, such as Magika's. Takes about 1 ms per megabyte."""
    try:
        with open(file, "rb") as stream:
            if stream.read(4) != b"\x7fELF":
                return False
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(_BUILT_IN) >= 0
    except OSError:  # executable, but not readable: the command runs without this check
        return False
