"""`ort-lite desk`: what it prints, how it ends, and what it says of arguments that do not fit."""

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from ort_lite.__main__ import main
from ort_lite.errors import InvalidArgument
from ort_lite.tools.cli.desk_command import playground_page
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.parser import command_parser
from ort_lite.tools.playground import models
from ort_lite.tools.playground.models import models_of
from ort_lite.tools.playground.playground import Playground
from tests.processes import child
from tests.tools.cli.output import parse
from tests.tools.playground.served import arguments, write


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("start", ["python", "python with SIGINT ignored"])
def test_it_prints_its_address_and_ends_on_a_signal(start: str, end: signal.Signals, tmp_path: Path) -> None:
    write(tmp_path / "chain.onnx")
    command = [sys.executable, "-m", "ort_lite", "desk", str(tmp_path), "--no-open"]
    if start != "python":
        command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert b"<!doctype html>" in answer.read(100)
            assert answer.headers["Referrer-Policy"] == "no-referrer"
        process.send_signal(end)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


def test_its_address_and_models_as_json(tmp_path: Path) -> None:
    write(tmp_path / "chain.onnx")
    command = [sys.executable, "-m", "ort_lite", "desk", str(tmp_path), "--no-open", "--json"]
    with child(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("\n}\n") and (line := process.stdout.readline()):
            text += line
        found = parse(text)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert found["models"] == ["chain.onnx"] and found["address"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "given", [["/no/such/folder"], ["{empty}"], ["{empty}", "--port", "65536"], ["{model}", "--port", "{taken}"]]
)
def test_what_does_not_fit_is_one_line(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        places = {"empty": tmp_path / "empty", "model": write(tmp_path / "chain.onnx"), "taken": other.getsockname()[1]}
        assert main(["desk", "--no-open", *(text.format(**places) for text in given)]) == (
            ExitStatus.MODEL if given == ["/no/such/folder"] else ExitStatus.USAGE
        )
    said = capsys.readouterr().err
    assert said.startswith("ort-lite desk: ")
    assert said.count("\n") == 1


def test_models_of_one_name_keep_their_paths(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = write(tmp_path / "chain.onnx"), write(tmp_path / "other" / "chain.onnx")
    assert models_of([str(first), str(second)]) == {"chain.onnx": first, str(second): second}
    assert models_of([str(tmp_path)]) == {"chain.onnx": first, "other/chain.onnx": second}


def test_a_folder_of_too_many_models_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST", 2)
    for number in range(3):
        (tmp_path / f"{number}.onnx").touch()
    with pytest.raises(InvalidArgument, match="more than 2 models"):
        models_of([str(tmp_path)])


def test_the_page_has_its_panel_and_no_imports_left() -> None:
    page = playground_page()
    assert "openPlayground()" in page
    assert "<!--more" not in page
    assert 'from "../' not in page


def test_at_first_the_providers_of_a_session_without_a_list_are_chosen(tmp_path: Path) -> None:
    write(tmp_path / "chain.onnx")
    playground = Playground(arguments(tmp_path, providers=None))
    assert playground.about()["chosen"]["providers"] == ["CPUExecutionProvider"]
    defaults = {each["name"]: each["default"] for each in playground.about()["providers"]}
    assert defaults.get("SampleExecutionProvider", False) is False
    playground.close()


def test_a_strict_playground_starts_with_its_config_entry(tmp_path: Path) -> None:
    write(tmp_path / "chain.onnx")
    given = command_parser().parse_args(["desk", str(tmp_path), "--config", "ort_lite.compile=wait", "--strict"])
    playground = Playground(given)
    assert playground.about()["chosen"]["config"] == ["ort_lite.compile=wait", "ort_lite.strict=1"]
    playground.close()
