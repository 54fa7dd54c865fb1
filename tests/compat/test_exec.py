"""`ort-lite exec` runs any command, and Python programs in it get ort_lite when they import onnxruntime.

What a program sees of itself is compared with what it sees when Python runs it.
"""

import os
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.tools.cli.exec_command import SITE
from tests.processes import child

SERVED = ort_lite.get_build_info()
SHOW = "import sys; print(sys.argv, sys.path[0], __name__, __file__, __spec__ and __spec__.name, sys.prefix)\n"
VERSION = "import onnxruntime; print(onnxruntime.get_build_info())\n"
CHILDREN = """
import multiprocessing, os, subprocess, sys
import onnx.parser
import numpy as np
import onnxruntime as ort

def version(_):
    import onnxruntime
    return onnxruntime.get_build_info()

if __name__ == "__main__":
    session = ort.InferenceSession(onnx.parser.parse_model(sys.argv[1]).SerializeToString())
    print(session.run(None, {"x": np.ones(2, np.float32)})[0].tolist())
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(*pool.map(version, [0]))
    one = [sys.executable, "-c", "import onnxruntime; print(onnxruntime.get_build_info())"]
    print(subprocess.run(one, capture_output=True, text=True).stdout, end="", flush=True)
    os.execv(one[0], one)
"""
MODEL = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Add(x, x) }'
PATH = os.pathsep.join(["/usr/bin", "/bin"])
"""Without the folder of this environment's Python."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a program in every form."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "program.py").write_text(SHOW + VERSION)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(SHOW + VERSION)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", SHOW + VERSION)
    (tmp_path / "tool").write_text(f"#!{sys.executable}\n{SHOW}{VERSION}")
    (tmp_path / "tool").chmod(0o755)
    return tmp_path


def run(*command: str, python: tuple[str, ...] = (), stdin: str = "") -> subprocess.CompletedProcess[str]:
    ort_lite_exec = [sys.executable, *python, "-m", "ort_lite", "exec"]
    return subprocess.run([*ort_lite_exec, *command], input=stdin, capture_output=True, text=True, check=False, timeout=240)


PYTHON = [
    ["program.py", "a", "-m", "--flag", "--", "b"],
    ["./program.py", "--help"],
    ["-m", "program", "-m", "--version"],
    ["folder", "a"],
    ["archive.pyz"],
]


@pytest.mark.parametrize("arguments", PYTHON, ids=" ".join)
def test_a_python_program_sees_what_python_itself_shows_it(folder: Path, arguments: list[str]) -> None:
    own = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=240)
    for command in (arguments, ["python", *arguments]):
        done = run(*command)
        assert done.stdout.splitlines()[0] == own.stdout.splitlines()[0]
        assert (done.stdout.splitlines()[1:], done.stderr, done.returncode) == ([SERVED], "", 0)


COMMANDS = [
    ["bash", "-c", "python program.py 'a b'"],
    ["--", "bash", "-c", "exec python program.py"],
    ["./tool", "-m", "x"],
    ["env", "python", "program.py"],  # a native program
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_python_in_any_command_gets_ort_lite(folder: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(*command)
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), PATH]))
    own = subprocess.run([word for word in command if word != "--"], capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout.splitlines() == [own.stdout.splitlines()[0], SERVED]
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_command_that_pip_installed_is_found_without_its_folder_on_the_path(folder: Path) -> None:
    done = run("ort-lite", "exec", "python", "program.py")
    assert done.stdout.endswith(f"{sys.prefix}\n{SERVED}\n"), done.stderr


def test_the_order_of_a_path_that_has_that_folder_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([PATH, os.path.dirname(sys.executable)]))
    assert run("bash", "-c", "echo $PATH").stdout == f"{os.environ['PATH']}\n"


@pytest.mark.slow
def test_children_of_every_kind_get_ort_lite(folder: Path) -> None:
    (folder / "children.py").write_text(CHILDREN)
    done = run("children.py", MODEL)
    assert done.stdout.splitlines() == ["[2.0, 2.0]", *4 * [SERVED]], done.stderr


def test_the_command_replaces_the_process(folder: Path) -> None:
    """So that signals, job control and a terminal are its own."""
    command = [sys.executable, "-m", "ort_lite", "exec", "bash", "-c", "echo $$; exec sleep 60"]
    with child(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT


@pytest.mark.parametrize(
    ("command", "status"),
    [(["bash", "-c", "exit 7"], 7), (["bash", "-c", "kill -TERM $$"], -signal.SIGTERM), (["python", "-c", "1/0"], 1)],
)
def test_the_exit_status_is_the_command_s(folder: Path, command: list[str], status: int) -> None:
    assert run(*command).returncode == status


def test_an_error_of_the_program_is_shown_as_python_shows_it(folder: Path) -> None:
    (folder / "failing.py").write_text("raise ValueError('its own')")
    own = subprocess.run([sys.executable, "failing.py"], capture_output=True, text=True, check=False, timeout=240)
    assert run("failing.py").stderr == own.stderr


def test_standard_streams_are_the_command_s(folder: Path) -> None:
    done = run("bash", "-c", "cat; echo error >&2", stdin="in")
    assert (done.stdout, done.stderr) == ("in", "error\n")


def test_no_signal_stays_ignored(folder: Path) -> None:
    """A writer to a pipe that nobody reads ends in silence, as under a shell."""
    done = run("bash", "-c", "grep SigIgn /proc/self/status")
    assert int(done.stdout.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0


def test_options_of_the_interpreter_are_kept(folder: Path) -> None:
    (folder / "flags.py").write_text("import sys; print(sys.flags.optimize, sys.flags.dev_mode)")
    assert run("flags.py", python=("-O", "-X", "dev")).stdout == "1 True\n"


@pytest.mark.parametrize("flag", ["-E", "-I", "-S"])
def test_options_that_turn_the_switch_off_are_refused(folder: Path, flag: str) -> None:
    where = ("-c", f"import sys; sys.path.extend({sys.path!r}); from ort_lite.__main__ import main; sys.exit(main())")
    command = [sys.executable, flag, *where, "exec", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 2
    assert done.stderr.startswith("ort-lite exec: Python's options -E, -I and -S turn off")


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_a_python_that_ignores_pythonpath_keeps_its_onnxruntime(folder: Path, flag: str) -> None:
    """A limit, which the documentation states."""
    done = run("python", flag, "-c", "import importlib.util; print(importlib.util.find_spec('onnxruntime').origin)")
    assert "ort_lite" not in done.stdout
    assert done.stdout.endswith("site-packages/onnxruntime/__init__.py\n")


def test_a_native_program_that_has_onnxruntime_built_in_is_reported(folder: Path) -> None:
    native = folder / "env"
    native.write_bytes(Path(shutil.which("env") or "").read_bytes() + b"libonnxruntime_providers_cuda.so")
    native.chmod(0o755)
    done = run("./env", "echo", "x")
    assert (done.stdout, done.returncode) == ("x\n", 0)
    assert done.stderr.startswith("ort-lite exec: ./env has onnxruntime built in and does not use ort-lite;")


@pytest.fixture
def other(folder: Path) -> Path:
    """The Python of another environment, which has an onnxruntime and no ort_lite."""
    venv.create(folder / "other", symlinks=True)
    packages = next((folder / "other").glob("lib/python*/site-packages"))
    (packages / "onnxruntime.py").write_text("__version__ = 'other'")
    (packages / "sitecustomize.py").write_text(f"import sys; print('customized', {SITE!r} in sys.path)")
    return folder / "other" / "bin" / "python"


def test_a_python_without_ort_lite_keeps_its_onnxruntime_and_says_so(other: Path) -> None:
    done = run(str(other), "-c", "import onnxruntime, importlib.util; print(onnxruntime.__version__)")
    assert done.stdout == "customized False\nother\n"
    assert done.stderr == (
        f"ort-lite exec: {other} uses its own onnxruntime, as it cannot import ort_lite: No module named 'ort_lite'\n"
    )


def test_a_python_without_ort_lite_is_left_alone_where_onnxruntime_is_not_imported(other: Path) -> None:
    done = run(str(other), "-c", "print(1)")
    assert (done.stdout, done.stderr) == ("customized False\n1\n", "")


def test_a_python_in_which_ort_lite_is_broken_runs(other: Path) -> None:
    next(other.parents[1].glob("lib/python*/site-packages")).joinpath("ort_lite.py").write_text("no Python")
    done = run(str(other), "-c", "import onnxruntime")
    assert done.stdout == "customized False\n"
    assert "cannot import ort_lite: invalid syntax" in done.stderr


def test_a_sitecustomize_of_the_program_runs_on_ort_lite(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sitecustomize.py").write_text(VERSION)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    done = run("python", "-c", "import sitecustomize; print(sitecustomize.__file__)")
    assert done.stdout.splitlines()[-2:] == [SERVED, str(folder / "sitecustomize.py")]


REFUSED = [
    ([], 2, "which command?"),
    (["-m"], 2, "which command?"),
    (["nosuch"], 127, "nosuch: command not found"),
    (["nosuch.py"], 127, "nosuch.py: no such file"),
    (["./nosuch"], 127, "./nosuch: no such file"),
    (["text"], 127, "text: command not found; for the file in this folder: ort-lite exec ./text"),
    (["./text"], 126, "./text is not executable; if it is a Python program: ort-lite exec python ./text"),
    (["."], 126, ". is a directory without a __main__.py"),
]


@pytest.mark.parametrize(("command", "status", "reason"), REFUSED)
def test_a_command_that_cannot_run_is_one_line(
    folder: Path, command: list[str], status: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "text").touch()
    assert main(["exec", *command]) == status
    error = capsys.readouterr().err
    assert error.startswith(f"ort-lite exec: {reason}")
    assert error.count("\n") == 1


def test_a_command_that_the_system_cannot_execute_is_one_line(folder: Path) -> None:
    (folder / "tool").write_text("#!/nosuch/interpreter\n")
    done = run("./tool")
    assert (done.returncode, done.stderr) == (126, "ort-lite exec: cannot execute ./tool: No such file or directory\n")
