"""`ort_lite.verify` and `ort-lite verify`, without a session of one's own."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite import __main__ as command_line
from ort_lite.errors import RuntimeException
from ort_lite.plugins import Registry, plugins
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.tools.verify import Verification
from tests.provider.numpy_provider import NumpyProvider
from tests.tools.verify.providers import CHAIN, FEED, Off, model, shifted


class Registered(Off):
    name = "OffExecutionProvider"
    default = False

    def __init__(self) -> None:
        super().__init__(shifted("Tanh"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(CHAIN, tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def test_verify_returns_the_report() -> None:
    assert ort_lite.verify(CHAIN, FEED, [NumpyProvider()]).ok
    report = ort_lite.verify(CHAIN, FEED, [Off(shifted("Tanh"))])
    assert not report.ok and report.wrong[0].culprit is not None and report.wrong[0].culprit.node == "Tanh_0"
    assert ort_lite.verify(CHAIN, FEED, [Off(shifted("Tanh"))], checks=Verification(atol=1)).ok


def test_a_model_on_the_cpu_alone_has_nothing_to_verify() -> None:
    assert str(ort_lite.verify(CHAIN, FEED, ["CPUExecutionProvider"])) == (
        "every node is on the CPU provider: nothing to verify"
    )


class Absorbing(NumpyProvider):
    """Needs no constant any more once it has compiled."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        return [_Absorbed(partition.constants, f) for partition, f in zip(partitions, super().compile(partitions), strict=True)]


class _Absorbed:
    def __init__(self, constants: Any, function: Any) -> None:
        self.absorbed, self.function = constants, function
        self.held = {value: value.constant for value in constants}

    def __call__(self, inputs: Sequence[Any]) -> Any:
        partition = self.function.args[0]
        values = {**self.held, **dict(zip(partition.inputs, inputs, strict=True))}
        return [np.multiply(*(values[value] for value in partition.nodes[0].inputs))]


def test_constants_that_a_provider_absorbed_are_kept_for_it() -> None:
    text = model("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }")
    feed = {"x": FEED["x"][0]}
    report = ort_lite.verify(text, feed, [Absorbing()])
    assert report.ok and not report.omissions
    plain = ort_lite.InferenceSession(text, providers=[Absorbing()])
    plain.run(None, feed, verify="partition")
    assert plain.verification is not None
    assert "constant 'w' was given up" in plain.verification.partitions[0].skipped


def test_a_run_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeException):
        ort_lite.verify(CHAIN, FEED, [Off(lambda node, y: 1 / 0)])


def test_the_command_shows_what_is_off_and_fails(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Registry()
    made.register_provider("OffExecutionProvider", Registered)
    for name in ("provider", "installed_providers"):
        monkeypatch.setattr(plugins, name, getattr(made, name))
    assert command_line.main(["verify", path, "--provider", "OffExecutionProvider", "--dim", "N=2"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("OffExecutionProvider_0 (OffExecutionProvider): WRONG, 5 nodes\n  'y' float32[2, 3] ")
    assert "\n  first bad node Tanh 'Tanh_0', with the nodes before it: 'c' float32[2, 3] 6 of 6 elements off" in shown.out
    assert "ort-lite verify: VerificationError: OffExecutionProvider_0" in shown.err
    np.savez(tmp_path / "feeds.npz", x=FEED["x"])
    arguments = ["verify", path, "--provider", "OffExecutionProvider", "--feeds", str(tmp_path / "feeds.npz")]
    assert command_line.main([*arguments, "--json"]) == 1
    (part,) = json.loads(capsys.readouterr().out)["partitions"]
    assert part["culprit"]["node"] == "Tanh_0" and part["tensors"][0]["shape"] == [1, 3]
    assert command_line.main([*arguments, "--atol", "1"]) == 0
