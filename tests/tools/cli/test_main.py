"""The command line, over stand-in providers."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_lite import __main__ as command_line
from ort_lite.native import cache, loader
from ort_lite.plugins import Registry, plugins
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.tools.cli.exit_status import ExitStatus
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate
from tests.tools.cli.output import parse
from tests.tools.saved_model import save

MODEL = (
    '<ir_version: 8, opset_import: ["": 17]> main (float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Identity(a)  y = Neg(b) }'
)


class AbsOnly(NumpyProvider):
    """Takes Abs."""

    name = "AbsExecutionProvider"
    default = False

    def __init__(self) -> None:
        super().__init__(operators=("Abs",))


class Planned(CpuStandIn):
    """The default one in these tests."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [Compiled(p) for p in partitions]


class Compiled:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.runs = 0

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        self.runs += 1
        return evaluate(self.partition, inputs)

    def facts(self) -> dict[str, int | str]:
        return {"python_steps": 0}

    def memory_plan(self) -> str:
        return f"planned for {self.runs} runs"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Registry(paths=[])
    made.register_provider("CPUExecutionProvider", Planned)
    made.register_provider("AbsExecutionProvider", AbsOnly)
    for name in ("provider", "available_providers", "installed_providers", "origin"):
        monkeypatch.setattr(plugins, name, getattr(made, name))


@pytest.fixture
def model(tmp_path: Path) -> str:
    return save(tmp_path / "model.onnx", MODEL)


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that runs `warmup` has no sessions but its own."""
    monkeypatch.setattr(loader, "_left", {})


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command_line.main(arguments) == 0
    return capsys.readouterr().out


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


BOTH = ("--providers", "AbsExecutionProvider,CPUExecutionProvider")


def test_run_writes_a_trace(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", model, "--trace", str(tmp_path / "trace.json"))
    assert [path.name for path in tmp_path.iterdir() if "trace" in path.name] == ["trace.json"]
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))}
    assert names >= {"get_capability", "compile_partitions", "model_run", "thread_name"}


def test_run_shows_each_output(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "feeds.npz", x=np.array([[1, -2, 3]], np.float32))
    shown = lines(call(capsys, "run", model, "--feeds", str(tmp_path / "feeds.npz"), "--output", str(tmp_path / "y.npz")))
    assert shown[0] == ["output", "type", "shape", "min", "mean", "max", "first"]
    assert shown[1] == ["y", "tensor(float)", "[1,", "3]", "-3", "-2", "-1", "-1.0,", "-2.0,", "-3.0"]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], [[-1, -2, -3]])


def test_run_makes_inputs_up(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    (output,) = parse(call(capsys, "run", model, "--dim", "N=5", "--json"))["outputs"]
    assert output["shape"] == [5, 3]
    again = parse(call(capsys, "run", model, "--dim", "N=5", "--json"))["outputs"]
    assert again == [output]
    assert parse(call(capsys, "run", model, "--dim", "N=5", "--seed", "1", "--json"))["outputs"] != [output]


def test_dump_shows_the_loaded_graph(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "dump", model, "--stage", "load").splitlines() == [
        "main (float32[N, 3] x) => (float32[N, 3] y) {",
        "  a = Abs(x)",
        "  b = Identity(a)",
        "  y = Neg(b)",
        "}",
    ]
    data = parse(call(capsys, "dump", model, "--stage", "load", "--json"))
    assert [node["operator"] for node in data["nodes"]] == ["Abs", "Identity", "Neg"]


def test_dump_shows_what_transforms_did(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "dump", model, "--stage", "transform")
    assert text.startswith("level all: 3 nodes became 2 in ")
    assert text.splitlines()[-4:] == ["main (float32[N, 3] x) => (float32[N, 3] y) {", "  a = Abs(x)", "  y = Neg(a)", "}"]
    data = parse(call(capsys, "dump", model, "--stage", "transform", "--level", "disable", "--json"))
    assert len(data["nodes"]) == 3


def test_dump_shows_who_runs_what_and_why(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "dump", model, *BOTH)
    assert [line.rstrip() for line in text.splitlines()] == [
        "node   operator  runs on               partition               why not the others",
        "Abs_0  Abs       AbsExecutionProvider  AbsExecutionProvider_0  "
        "CPUExecutionProvider lost: earlier provider AbsExecutionProvider takes it",
        "Neg_0  Neg       CPUExecutionProvider  CPUExecutionProvider_0  "
        "AbsExecutionProvider declined operator: Neg is not known",
    ]
    data = parse(call(capsys, "dump", model, *BOTH, "--json"))
    assert [node["provider"] for node in data["nodes"]] == ["AbsExecutionProvider", "CPUExecutionProvider"]


def test_dump_shows_compiled_partitions(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(call(capsys, "dump", model, *BOTH, "--stage", "compile"))
    assert shown[1:] == [
        ["AbsExecutionProvider_0", "cpu:0", "1", "x", "a"],
        ["CPUExecutionProvider_0", "cpu:0", "1", "a", "y", "python_steps", "0"],
    ]
    data = parse(call(capsys, "dump", model, *BOTH, "--stage", "compile", "--json"))
    assert data["partitions"][1]["facts"] == {"python_steps": 0} and data["partitions"][1]["fusions"] == []


def test_dump_shows_what_was_fused(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real CPU provider, which wants fusions
    text = "g (float[N,2] x, float[2,2] w, float[2] b) => (float[N,2] y) { p = MatMul(x, w) y = Add(p, b) }"
    path = save(tmp_path / "layer.onnx", f'<ir_version: 10, opset_import: ["": 21]> {text}')
    arguments = ("dump", path, "--providers", "CPUExecutionProvider", "--stage", "compile")
    done = "fuse_matmul_bias: Add_0, MatMul_0 -> MatMul_0+Add_0"
    assert call(capsys, *arguments).splitlines()[-1] == f"CPUExecutionProvider_0: {done}"
    assert parse(call(capsys, *arguments, "--json"))["partitions"][0]["fusions"] == [done]


def test_dump_shows_memory_plans_after_a_run(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "dump", model, *BOTH, "--stage", "plan").splitlines() == [
        "AbsExecutionProvider_0: states no plan",
        "CPUExecutionProvider_0: planned for 1 runs",
    ]
    assert parse(call(capsys, "dump", model, "--stage", "plan", "--json"))["memory_plans"] == {
        "CPUExecutionProvider_0": "planned for 1 runs"
    }


def test_providers_are_listed_with_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    here = "registered in this process"
    assert parse(call(capsys, "providers", "--json"))["providers"] == [
        {
            "name": "AbsExecutionProvider",
            "default": False,
            "device": "cpu:0",
            "from": here,
            "module": __name__,
            "about": "Takes Abs.",
        },
        {
            "name": "CPUExecutionProvider",
            "default": True,
            "device": "cpu:0",
            "from": here,
            "module": __name__,
            "about": "The default one in these tests.",
        },
    ]
    assert lines(call(capsys, "providers"))[1][:2] == ["AbsExecutionProvider", "no"]


def test_warmup_runs_each_model_and_those_of_folders(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(Path(model).parent)
    shown = call(capsys, "warmup", model, folder).splitlines()
    assert [line.partition(": warm after ")[0] for line in shown] == [model, model]
    assert shown[0].endswith(", 0 kernels compiled")


def test_warmup_goes_on_behind_a_model_that_fails(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"junk")
    assert command_line.main(["warmup", str(tmp_path), "none.onnx", "--json"]) == ExitStatus.MODEL
    broken, warm, none = parse(capsys.readouterr().out)["models"]
    assert broken["error"].startswith("InvalidProtobuf: ")
    assert (warm["model"], warm["kernels"], warm.get("error")) == (model, 0, None)
    assert none["error"].startswith("NoSuchFile: ")


def test_warmup_compiles_for_targets_and_says_so(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the real CPU provider, which knows targets
    assert command_line.main(["warmup", model, "--target", "host", "--target", "a-toaster", "--json"]) == ExitStatus.MODEL
    host, toaster = parse(capsys.readouterr().out)["models"]
    assert (host["target"], host.get("error")) == ("host", None)
    assert "target 'a-toaster'" in toaster["error"]


def test_the_cache_is_looked_after(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, stale = str(tmp_path / "kernels"), "0" * 40
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", folder)
    assert call(capsys, "cache", "dir") == folder + "\n"
    cache.write(folder, stale, b"code")
    found = parse(call(capsys, "cache", "list", "--json"))
    sums = {"count": 1, "bytes": 42}
    assert (found["folder"], found["all"], found["stale"], found["today"]) == (folder, sums, sums, sums)
    shown = lines(call(capsys, "cache", "list"))
    assert shown[:3] == [[folder], ["objects", "count", "MB"], ["all", "1", "0.0"]]
    assert lines(call(capsys, "cache", "verify")) == [["1", "objects,", "0", "broken"]]
    Path(folder, stale).write_bytes(b"junk")
    assert command_line.main(["cache", "verify"]) == ExitStatus.FINDINGS
    assert capsys.readouterr().out.splitlines() == [f"{stale} is not what was written", "1 objects, 1 broken"]
    assert list(parse(call(capsys, "cache", "verify", "--delete", "--json"))["broken"]) == [stale]
    assert os.listdir(folder) == []
    cache.write(folder, stale, b"code")
    assert call(capsys, "cache", "prune", "--keep-bytes", "1k") == "removed 0 objects, 0 bytes\n"
    assert call(capsys, "cache", "prune", "--stale") == "removed 1 objects, 42 bytes\n"
    file = str(tmp_path / "kernels.tar")
    assert call(capsys, "cache", "export", file) == f"{file}: 0 objects\n"
    told = parse(call(capsys, "cache", "import", file, "--json"))
    assert told == {"action": "import", "folder": folder, "file": file, "imported": 0, "stale": 0}


def test_ctrl_c_is_status_130(model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Compiled, "__call__", interrupt)
    assert command_line.main(["run", model]) == 130
    assert capsys.readouterr().err == "ort-lite run: interrupted\n"


@pytest.mark.parametrize(
    "command",
    [["run"], ["dump"], ["check"], ["plan"], ["explain"], ["inspect"], ["verify"], ["view", "--no-run"], ["profile"], ["step"]],
)
def test_commands_that_create_sessions_have_a_creation_timeout(
    model: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main([*command, model, "--creation-timeout", "1e-9"]) == ExitStatus.MODEL
    out, err = capsys.readouterr()
    assert "longer than its creation_timeout of 1e-09 s, and was ended (stage: load)" in out + err
    assert command_line.main([*command, model, "--creation-timeout", "-1"]) == 2
    assert "creation_timeout: got -1.0, expected seconds" in capsys.readouterr().err


def test_inputs_are_made_up_for_every_element_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    types = ["float16", "double", "int64", "uint8", "bool", "string"]
    inputs = ", ".join(f"{type_}[N] x{k}" for k, type_ in enumerate(types))
    outputs = ", ".join(f"{type_}[N] y{k}" for k, type_ in enumerate(types))
    nodes = " ".join(f"y{k} = Identity(x{k})" for k in range(len(types)))
    path = save(tmp_path / "types.onnx", f'<ir_version: 8, opset_import: ["": 17]> m ({inputs}) => ({outputs}) {{ {nodes} }}')
    rows = parse(call(capsys, "run", path, "--dim", "N=2", "--json"))["outputs"]
    assert [row["shape"] for row in rows] == [[2]] * len(types)
    assert rows[-1]["first"] == "text, text"


def test_explain_says_who_runs_what_and_why(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "explain", model, *BOTH)
    assert "why not the others" in text
    assert "declined operator" in text
    assert parse(call(capsys, "explain", model, *BOTH, "--json"))["providers"][-1] == "CPUExecutionProvider"


def test_explain_says_what_making_a_session_did(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in call(capsys, "explain", model, *BOTH, "--trace").splitlines()]
    assert rows[0] == ["what", "provider", "calls", "ms", "nodes", "details"]
    asked = [row[1] for row in rows if row[0] == "get_capability"]
    assert asked == ["AbsExecutionProvider", "CPUExecutionProvider"]
    events = parse(call(capsys, "explain", model, *BOTH, "--trace", "--json"))["events"]
    assert events[0]["name"] == "session_initialization"
