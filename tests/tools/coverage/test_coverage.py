"""Coverage of a folder of models: sums, ranked reasons and operators, and what happens without the device."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ort_lite.__main__ import main
from ort_lite.errors import ProviderError
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.exit_status import ExitStatus
from tests.provider.numpy_provider import NumpyProvider
from tests.tools.cli.output import parse
from tests.tools.saved_model import save

HEAD = '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) '
MODELS = {"some.onnx": "{ a = Abs(x) b = Exp(a) c = Erf(b) y = Erf(c) }", "all.onnx": "{ a = Abs(x) y = Neg(a) }"}


class AbsAndNeg(NumpyProvider):
    """Runs Abs and Neg."""

    name = "AbsExecutionProvider"

    def __init__(self) -> None:
        super().__init__(operators=("Abs", "Neg"))


class NoDevice(AbsAndNeg):
    """Says what it would run, and cannot."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        raise ProviderError("there is no device")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, body in MODELS.items():
        save(tmp_path / name, HEAD + body)
    return tmp_path


def report(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    provider: Any,
    *more: str,
    status: int = 0,
) -> dict[str, Any]:
    monkeypatch.setattr(session_arguments, "providers", lambda _: [provider])
    assert main(["coverage", str(folder), "--provider", "X", "--json", *more]) == status
    return parse(capsys.readouterr().out)


def test_a_folder_is_summed_and_ranked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = report(folder, capsys, monkeypatch, AbsAndNeg(), "--html", str(folder / "page.html"))
    assert (found["on_device"]["nodes"], found["off_device"]["nodes"]) == (3, 3)
    erf, exp = sorted(found["next_operators"], key=lambda row: str(row["name"]))
    assert (erf["name"], erf["nodes"], erf["models"], erf["last"]) == ("Erf", 2, 1, 0)
    assert (exp["name"], exp["nodes"]) == ("Exp", 1)
    assert {model["timed_on"] for model in found["models"]} == {"device"}
    assert found["on_device"]["seconds"] > 0 < found["off_device"]["seconds"]
    (reason,) = found["reasons"]
    assert (reason["name"], reason["nodes"], reason["last"]) == ("operator: the provider does not know it", 3, 1)
    assert "Implement these operators next" in (folder / "page.html").read_text(encoding="utf-8")


def test_free_dimensions_take_sizes_with_which_a_model_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first axis is a batch of 1. A kernel of 100 elements does not fit into 64, the first size that is tried."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 1, L] x, float[1, 1, 100] w) => (float[N, 1, M] y) '
    save(folder / "long.onnx", text + "{ a = Abs(x) y = Conv(a, w) }")
    found = {Path(model["path"]).stem: model for model in report(folder, capsys, monkeypatch, AbsAndNeg())["models"]}
    long, some = found["long"], found["some"]
    assert (long["size"], some["size"]) == (512, 64)
    assert long["off_device"]["operations"] == 2 * 100 * (512 - 99)


def test_without_the_device_the_cpu_provider_is_timed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = report(folder, capsys, monkeypatch, (NoDevice(), {"on_compile_error": "raise"}))
    assert {model["timed_on"] for model in found["models"]} == {"CPU"}
    assert found["on_device"]["seconds"] > 0
    assert main(["coverage", str(folder), "--provider", "X"]) == ExitStatus.DONE
    assert "The device could not run 2 models; their times are the CPU provider's." in capsys.readouterr().out


def test_nothing_runs_on_request_and_a_broken_model_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "broken.onnx").write_bytes(b"junk")
    found = report(folder, capsys, monkeypatch, AbsAndNeg(), "--no-run", status=ExitStatus.MODEL)
    assert [bool(model["error"]) for model in found["models"]] == [False, True, False]
    assert found["off_device"] == {"nodes": 3, "operations": found["off_device"]["operations"], "seconds": 0}
    assert found["next_operators"][0]["share"] == 2 / 6
