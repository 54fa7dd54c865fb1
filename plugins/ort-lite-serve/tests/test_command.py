"""`ort-lite serve`: which models it finds, what it prints, how it ends, and what it says of arguments that do not fit."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import onnx
import onnx.parser
import pytest
from ort_lite_serve.folders import load
from ort_lite_serve.model import ServedModel

import ort_lite
from ort_lite.errors import InvalidArgument
from tests.processes import child

TEXT = '<ir_version: 10, opset_import: ["": 21]> g ({side} x) => ({side} y) {{ y = Identity(x) }}'


def write(path: Path, side: str = "float[N]") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(TEXT.format(side=side)), path)
    return str(path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ort_lite", "serve", *arguments]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_a_folder_until_it_is_told_to_end(end: signal.Signals, tmp_path: Path) -> None:
    write(tmp_path / "one.onnx")
    write(tmp_path / "two" / "9" / "model.onnx")
    write(tmp_path / "two" / "10" / "model.onnx")
    arguments = command(str(tmp_path), "--port", "0", "--grpc-port", "0")
    with child(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("gRPC on 127.0.0.1:")
        line = process.stdout.readline()
        assert line.endswith("/v2, models: one, two\n")
        address = line.split()[2].rstrip(",")
        with urllib.request.urlopen(f"{address}/models/two", timeout=10) as answer:
            assert json.load(answer)["versions"] == ["10"]
        process.send_signal(end)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


def test_what_does_not_fit_is_one_line(tmp_path: Path) -> None:
    model = write(tmp_path / "one.onnx")
    (tmp_path / "empty").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        for given, said in (
            ([str(tmp_path / "empty")], "neither NAME.onnx nor NAME/VERSION/model.onnx is in it"),
            ([model, model], "another model is called 'one' already"),
            ([model, "--queue", "0"], "--queue 0: expected more than 0"),
            ([model, "--port", taken, "--no-grpc"], "Address already in use"),
            ([model, "--port", "0", "--grpc-port", taken], f"gRPC cannot listen on 127.0.0.1:{taken}"),
        ):
            done = subprocess.run(command(*given), capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 2, done
            assert done.stdout == "" and said in done.stderr.splitlines()[-1]


def test_what_the_protocol_cannot_say_is_not_served(tmp_path: Path) -> None:
    path = write(tmp_path / "four.onnx", "int4[N]")
    with pytest.raises(InvalidArgument, match=r"model 'four': 'x' is a tensor\(int4\)"):
        load([path], lambda file: ort_lite.InferenceSession(file, providers=["CPUExecutionProvider"]))


@pytest.mark.parametrize(("side", "joins"), [("float[N, 3]", True), ("float[2, N]", False), ("float", False)])
def test_models_whose_first_dimension_is_free_are_joined(side: str, joins: bool, tmp_path: Path) -> None:
    session = ort_lite.InferenceSession(write(tmp_path / "one.onnx", side), providers=["CPUExecutionProvider"])
    assert ServedModel("one", session).joins == joins


def test_first_dimensions_of_two_names_are_not_joined(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x, float[M] y) => (float[N] a, float[M] b) { a = Abs(x) b = Abs(y) }'
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    assert not ServedModel("two", session).joins
