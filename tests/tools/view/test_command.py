"""`ort-lite view`."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from ort_lite.__main__ import main
from ort_lite.tools.cli.exit_status import ExitStatus
from tests.tools.view.models import CHAIN, check, model


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in a folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)
    onnx.save(model(CHAIN), "chain.onnx")
    return "chain.onnx"


def test_it_writes_a_page_of_the_models_name_and_says_which(chain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", chain, "--no-run"]) == 0
    assert capsys.readouterr().out == "chain.html\n"
    assert "<title>chain.onnx" in Path("chain.html").read_text(encoding="utf-8")


def test_it_runs_the_model_for_what_its_nodes_take(chain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", chain, "--dim", "N=3", "--json", "--providers", "CPUExecutionProvider"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["costs"].keys() == document["placements"].keys()
    assert not list(Path().glob("*.html"))


def test_other_providers_are_beside_it(chain: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--providers", "SampleExecutionProvider", "--compare", "CPUExecutionProvider"]
    assert main(["view", chain, "--no-run", "--json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    both = [{part["provider"] for part in found["partitions"]} for found in (document, document["other"])]
    assert both == [{"SampleExecutionProvider", "CPUExecutionProvider"}, {"CPUExecutionProvider"}]


def test_other_formats(chain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", chain, "--no-run", "--format", "model-explorer", "--annotate", "told.onnx"]) == 0
    assert capsys.readouterr().out.splitlines() == ["chain.json", "told.onnx"]
    assert json.loads(Path("chain.json").read_text(encoding="utf-8"))["label"] == "chain.onnx"
    assert onnx.load("told.onnx").graph.node[0].metadata_props


def test_a_model_that_does_not_run_on_what_is_made_up_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model("(float[1] x, int64[8] i) => (float[8] y) { y = Gather(x, i) }"), "gather.onnx")
    assert main(["view", "gather.onnx"]) == 0
    told = capsys.readouterr()
    assert told.out == "gather.html\n"
    assert told.err.startswith("ort-lite view: not run, since inputs that are made up do not do (Gather")
    assert len(told.err.splitlines()) == 1
    np.save("i.npy", np.full(8, 5))
    assert main(["view", "gather.onnx", "--input", "i=i.npy"]) == ExitStatus.MODEL
    assert capsys.readouterr().err.startswith("ort-lite view: InvalidData: Gather")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--profile", "chain.onnx"], "it is no trace of a session"),
        (["--profile", "nowhere.json"], "No such file"),
        (["--annotate", "nowhere/model.onnx"], "No such file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(chain: str, options: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", chain, "--no-run", *options]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert why in told[0]
