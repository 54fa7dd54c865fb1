"""The kernels of nodes and the candidates that were compared: `explain(kernels=True)`, pins, and what predictions use."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.errors import OrtLiteError
from ort_lite.native.calibration import read_factors, write_factors
from ort_lite.native.cpu import host, parse_target
from ort_lite.shapes import symbol
from ort_lite.tools.cli.benchmark.candidates import NodeCandidates, factors_of, summarize
from ort_lite_cpu.costs import calibrated_costs, nominal, parse_costs, shipped_costs
from tests.tools.cli.output import parse

CONVOLUTIONS = {
    "pointwise": ("float[1,64,1,3] x", (48, 64, 1, 1), "", "channels", "pointwise", "3 pixels, at least"),
    "general": ("float[1,64,9,9] x", (64, 64, 3, 3), "dilations = [2, 2]", "conv", "winograd-4", "no transform of tiles of 4"),
    "deep": ("float[1,64,20,20] x", (64, 64, 3, 3), "", "winograd", "channels", "an output pixel sees several pixels"),
    "depthwise": ("float[1,64,9,9] x", (64, 1, 3, 3), "group = 64, dilations = [2, 2]", "depthwise", "conv_pixels", "it is point"),
    "few outputs": ("float[1,32,30,30] x", (1, 32, 3, 3), "", "conv_pixels", "depthwise", "its groups have several channels"),
}  # fmt: skip


def model(image: str, shape: tuple[int, ...], attributes: str) -> onnx.ModelProto:
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> g ({image}) => (float[A,B,C,D] y) {{ [conv] y = Conv<{attributes}>(x, w) }}'
    )
    made = onnx.parser.parse_model(text.replace("<>", ""))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), "w"))
    return made


def session(name: str, pins: Mapping[str, str] | None = None) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    if pins is not None:
        options.add_session_config_entry("ort_lite.kernels", json.dumps(pins))
    return ort_lite.InferenceSession(model(*CONVOLUTIONS[name][:3]), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_names_its_kernel_and_the_reasons_against_others(name: str) -> None:
    kernel, rejected, reason = CONVOLUTIONS[name][3:]
    explanation = session(name).explain(kernels=True)
    choice = explanation.kernels["conv"]
    assert any(one.partition("<")[0] == kernel for one in choice.kernels) and choice.taken.partition("-")[0] == kernel
    assert choice.rejected[rejected].startswith(reason)
    assert choice.taken in choice.costs and not {*choice.costs} & {*choice.rejected}
    assert choice.costs[choice.taken].total == min(cost.total for cost in choice.costs.values())
    assert f"    * {choice.taken}: {choice.predicted:.1f} us" in str(explanation) and f"    not {rejected}: " in str(
        explanation
    )
    assert session(name).explain().kernels == {} and "    not " not in str(session(name).explain())


def test_the_runner_up_is_the_cheapest_of_the_others() -> None:
    choice = session("deep").explain(kernels=True).kernels["conv"]
    others = {name: cost.total for name, cost in choice.costs.items() if name != choice.taken}
    assert {"winograd-2", "winograd-4", "conv", "conv_pixels"} == {*choice.costs} and choice.runner_up == min(
        others, key=others.__getitem__
    )
    alone = session("pointwise").explain(kernels=True).kernels["conv"]
    assert alone.runner_up == "conv"


@pytest.mark.parametrize("candidate", ["winograd-4", "winograd-2", "conv", "conv_pixels"])
def test_an_entry_pins_a_candidate(candidate: str) -> None:
    feeds = {"x": np.arange(64 * 400, dtype=np.float32).reshape(1, 64, 20, 20) / 64 / 400}
    pinned = session("deep", {"conv": candidate, "another": "conv"})
    assert pinned.explain(kernels=True).kernels["conv"].taken == candidate
    [got], [want] = pinned.run(None, feeds), session("deep").run(None, feeds)
    assert np.allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"conv": "depthwise"}', "'conv'.* asks for 'depthwise': its groups have several channels"),
        ('{"conv": "winograd4"}', "it has no such candidate, but .*did you mean 'winograd-4'"),
        ("conv", "ort_lite.kernels is no JSON"),
        ("[1]", r"ort_lite.kernels is \[1\], expected"),
        ('{"conv": 4}', "expected"),
    ],
)
def test_entries_that_cannot_be(entry: str, message: str) -> None:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.kernels", entry)
    with pytest.raises(OrtLiteError, match=message):
        ort_lite.InferenceSession(model(*CONVOLUTIONS["deep"][:3]), options, providers=["CPUExecutionProvider"])


def test_the_command_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/model.onnx"
    onnx.save(model(*CONVOLUTIONS["general"][:3]), path)
    assert main(["explain", path, "--kernels", "--json"]) == 0
    found = parse(capsys.readouterr().out)["kernels"]["conv"]
    assert found["taken"] == "conv" and found["costs"]["conv"]["kernel"] > 0 and "pointwise" in found["rejected"]
    assert main(["explain", path, "--kernels"]) == 0
    assert "    not pointwise: an output pixel sees several pixels" in capsys.readouterr().out


def test_a_node_without_candidates_cannot_be_pinned() -> None:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.kernels", '{"norm": "conv"}')
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,4] y) { [norm] y = Softmax(x) }'
    with pytest.raises(OrtLiteError, match=r"'norm'.* the operator has no choice of kernels"):
        ort_lite.InferenceSession(onnx.parser.parse_model(text), options, providers=["CPUExecutionProvider"])


# --- Measured costs
def test_bench_times_every_candidate_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/model.onnx"
    onnx.save(model(*CONVOLUTIONS["deep"][:3]), path)
    assert main(["bench", path, "--candidates", "--seconds", "0", "--json"]) == 0
    report = parse(capsys.readouterr().out)
    [row] = [row for row in report["candidates"]["model.onnx"] if row["node"] == "conv"]
    assert {*row["candidates"]} == {"winograd-4", "winograd-2", "conv", "conv_pixels"} and row["fastest"] in row["candidates"]
    assert all(one["measured"] > 0 for one in row["candidates"].values()) and "factors" not in report


def test_calibration_corrects_later_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path / "cache"))
    onnx.save(model(*CONVOLUTIONS["deep"][:3]), f"{tmp_path}/model.onnx")
    assert calibrated_costs(host()) is shipped_costs(host())
    before = session("deep").explain(kernels=True).kernels["conv"]
    assert write_factors(host(), {"another-model": 2.0})
    assert main(["bench", f"{tmp_path}/model.onnx", "--calibrate", "--seconds", "0", "--json"]) == 0
    factors = parse(capsys.readouterr().out)["factors"]
    assert read_factors(host()) == pytest.approx(factors, rel=1e-3) and "winograd-4" in factors
    assert factors["another-model"] == 2.0
    after = session("deep").explain(kernels=True).kernels["conv"]
    for name, cost in before.costs.items():
        assert after.costs[name].kernel == pytest.approx(cost.kernel * factors[name], rel=1e-3)
    assert write_factors(host(), {"conv": 1e-3})
    assert session("deep").explain(kernels=True).kernels["conv"].taken == "conv"


def test_summaries_count_time() -> None:
    choice = session("deep").explain(kernels=True).kernels["conv"]
    near, other = choice.predicted * 1.2, choice.costs[choice.runner_up].kernel
    good = NodeCandidates("good", choice, {choice.taken: near, choice.runner_up: 10 * near})
    bad = NodeCandidates("bad", choice, {choice.taken: 3 * choice.predicted, choice.runner_up: other / 3})
    short = NodeCandidates("short", choice, {choice.taken: 1e-3})
    found = summarize([good, bad, short])
    share = near / (near + 3 * choice.predicted)
    assert found == pytest.approx({"measured": near + 3 * choice.predicted, "close": share, "best": share})
    assert factors_of([good])[choice.taken] == pytest.approx(1.2) and factors_of([short]) == {}


# --- Constants
TABLE = "# a comment\nkernel avx2 avx512f\nconv 1.5 0.5\ngemm 2 3\n"


@pytest.mark.parametrize(("target", "expected"), [("x86-64-v3", 1.5), ("x86-64-v4", 0.5), ("aarch64", 1.5)])
def test_constants_are_those_of_the_class_of_the_target(target: str, expected: float) -> None:
    assert parse_costs(TABLE, parse_target(target)) == {"conv": expected, "gemm": 2.0 if expected == 1.5 else 3.0}


def test_open_dimensions_count_as_a_number() -> None:
    assert nominal(7) == 7 and nominal(symbol("N") * 2 + 1) == 513
    assert shipped_costs(host()).predict("no such kernel", 5.0) == 5.0
