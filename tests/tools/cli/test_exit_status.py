"""The exit status of each kind of outcome."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_lite import errors
from ort_lite.__main__ import main
from ort_lite.tools.cli.exit_status import ExitStatus, status_of
from tests.provider.numpy_provider import NumpyProvider
from tests.tools.saved_model import save

MODEL = '<ir_version: 8, opset_import: ["": 17]> m (float[N] x) => (float[N] y) { y = Abs(x) }'
WRONG = MODEL.replace("Abs", "Abz")
NEEDS_INDICES = '<ir_version: 8, opset_import: ["": 17]> m (float[2] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }'


class Broken(NumpyProvider):
    """Runs Abs, and fails."""

    name = "BrokenExecutionProvider"

    def __init__(self) -> None:
        super().__init__(operators=("Abs",))

    def compile(self, partitions: Sequence[Any]) -> Sequence[Any]:
        return [fail for _ in partitions]


def fail(inputs: Sequence[Any]) -> list[Any]:
    raise RuntimeError("the device is gone")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    made = {"missing": str(tmp_path / "missing.onnx")}
    for name, text in {"model": MODEL, "wrong": WRONG, "indices": NEEDS_INDICES}.items():
        made[name] = save(tmp_path / f"{name}.onnx", text)
    np.savez(tmp_path / "other.npz", z=np.zeros(1, np.float32))
    return made | {"feeds": str(tmp_path / "other.npz")}


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("run {model}", ExitStatus.DONE),
        ("check {model}", ExitStatus.DONE),
        ("check {wrong}", ExitStatus.FINDINGS),
        ("check {indices} --value i=7", ExitStatus.FINDINGS),
        ("run {model} --feeds {feeds}", ExitStatus.USAGE),
        ("run {model} --strict --providers NoSuchExecutionProvider", ExitStatus.PROVIDER),
        ("run {model} --nosuch", ExitStatus.USAGE),
        ("check-provider NoSuchExecutionProvider", ExitStatus.USAGE),
        ("run {missing}", ExitStatus.MODEL),
        ("run {wrong}", ExitStatus.MODEL),
        ("run {indices} --value i=7", ExitStatus.MODEL),
    ],
)
def test_the_exit_status(command: str, status: ExitStatus, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(command.format(**files)) == status, capsys.readouterr().err


def exit_status(command: str) -> int | str | None:
    try:
        return main(command.split())
    except SystemExit as ended:  # as argparse ends a program
        return ended.code


def test_a_provider_that_fails(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_lite.tools.cli import session_arguments

    monkeypatch.setattr(session_arguments, "providers", lambda _: [Broken(), "CPUExecutionProvider"])
    assert main(["run", files["model"], "-q"]) == ExitStatus.PROVIDER


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.VerificationError("y differs"), ExitStatus.FINDINGS),
        (errors.InvalidArgument("--dim N"), ExitStatus.USAGE),
        (OSError("no space left"), ExitStatus.USAGE),
        (errors.DeadlineExceeded("too long"), ExitStatus.MODEL),
        (errors.NotImplemented("nobody runs it"), ExitStatus.MODEL),
        (errors.OutOfMemory("too large"), ExitStatus.MODEL),
        (errors.CompileError("no"), ExitStatus.PROVIDER),
        (errors.RuntimeException("no").about(provider="MyExecutionProvider"), ExitStatus.PROVIDER),
        (errors.RuntimeException("no").about(provider="CPUExecutionProvider"), ExitStatus.MODEL),
    ],
)
def test_the_status_of_an_error(error: errors.OrtLiteError | OSError, status: ExitStatus) -> None:
    assert status_of(error) == status
