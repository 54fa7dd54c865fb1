"""What a terminal shows of work that takes longer than a second."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import onnx
import onnx.parser
import pytest

TEXT = """<ir_version: 8, opset_import: ["": 17]> main (float[N, 64] x) => (float[N, 64] y) <float[64, 64] w>
{ a = MatMul(x, w) b = Softmax(a) c = Erf(b) y = LpNormalization(c) }"""
SESSION = "import ort_lite; ort_lite.InferenceSession({path!r}, providers=['CPUExecutionProvider'])"
PROGRAM = "import onnxruntime; onnxruntime.InferenceSession({path!r}, providers=['CPUExecutionProvider'])"
PROVIDER = "ort_lite_accelerator.provider:AcceleratorExecutionProvider"
LIMIT = 120.0


def show(words: list[str], folder: Path, terminal: bool = True) -> str:
    """Return what a command writes to standard error, which is a terminal or a pipe. Its kernel cache is empty."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    environment = {**os.environ, "ORT_LITE_CACHE_DIR": str(folder / "cache"), "TERM": "xterm", "COLUMNS": "120"}
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=theirs, env=environment, cwd=folder)
    os.close(theirs)
    shown, end = b"", time.monotonic() + LIMIT
    while time.monotonic() < end and select.select([ours], [], [], LIMIT)[0]:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # a terminal whose other side is closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert child.wait(LIMIT) in (0, 1), shown
    return shown.decode()


@pytest.fixture
def model(tmp_path: Path) -> str:
    made = onnx.parser.parse_model(TEXT.replace("<float[64, 64] w>", ""))
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    made.graph.initializer.append(onnx.helper.make_tensor("w", 1, [64, 64], [0.5] * 64 * 64))
    onnx.save(made, tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def command(name: str, model: str) -> list[str]:
    python, ort_lite = sys.executable, [sys.executable, "-m", "ort_lite"]
    return {
        "session": [python, "-c", SESSION.format(path=model)],
        "exec": [*ort_lite, "exec", python, "-c", PROGRAM.format(path=model)],
        "exec -q": [*ort_lite, "exec", "-q", python, "-c", PROGRAM.format(path=model)],
        "view": [*ort_lite, "view", model],
        "view -q": [*ort_lite, "view", "-q", model],
        "check-provider": [*ort_lite, "check-provider", PROVIDER, "--only", "claims", "--operators", "Relu"],
    }[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("session", "creating the session"),
        ("exec", "creating the session"),
        ("view", "creating the session"),
        ("check-provider", "check"),
    ],
)
def test_a_terminal_shows_a_line_that_vanishes(name: str, expected: str, model: str, tmp_path: Path) -> None:
    shown = show(command(name, model), tmp_path)
    assert expected in shown
    assert re.search(r"\d+/\d+", shown), shown
    assert shown.rstrip("\r\n").endswith(("\x1b[2K", "\x1b[?25h")), repr(shown[-80:])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exec -q", "view -q"])
def test_one_option_turns_it_off(name: str, model: str, tmp_path: Path) -> None:
    assert show(command(name, model), tmp_path) == ""


@pytest.mark.slow
def test_a_pipe_gets_nothing(model: str, tmp_path: Path) -> None:
    assert show(command("session", model), tmp_path, terminal=False) == ""
