"""`ort-lite inspect`, `check`, `plan`, `profile`, `verify --against` and `bench` with several callers, over the CPU provider."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ort_lite.__main__ import main
from ort_lite.tools.cli.benchmark.concurrent_load import Load, measure_load
from ort_lite.tools.cli.printing import table_of
from tests.tools.cli.output import parse
from tests.tools.saved_model import save

LAYERS = """<ir_version: 8, opset_import: ["": 17]> layers (float[N, 3] x) => (float[N, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 1}> { product = MatMul(x, w)  sum = Add(product, b)  y = Relu(sum) }"""
WRONG = """<ir_version: 8, opset_import: ["": 17, "my": 1]> main (float[N, 3] x) => (float[N, 3] y)
{ a = Abz(x)  b = Identity(a, a)  y = my.Other(b) }"""
FOREIGN = """<ir_version: 8, opset_import: ["": 17, "my": 1]> main (float[N, 3] x) => (float[N, 3] y)
{ a = my.Thing(x)  y = my.Other(a) }"""


def saved(folder: Path, text: str) -> str:
    return save(folder / "model.onnx", text)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main([*arguments, "--json"]) == status
    return parse(capsys.readouterr().out)


def test_inspect_counts_operators_weights_and_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "inspect", saved(tmp_path, LAYERS), "--shape", "x=5x3")
    assert found["operators"] == {"Add": 1, "MatMul": 1, "Relu": 1}
    assert found["weights"]["by_type"] == {"float32": {"tensors": 2, "elements": 8, "bytes": 32}}
    assert found["weights"]["largest"][0] == {"name": "w", "type": "float32[3, 2]", "bytes": 24}
    assert found["run"]["dims"] == {"N": 5}
    assert found["run"]["operations_by_operator"] == {"MatMul": 2 * 5 * 3 * 2, "Add": 10, "Relu": 10}


def test_inspect_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", saved(tmp_path, LAYERS), "--dim", "N=1000"]) == 0
    text = capsys.readouterr().out
    assert "2 weights of 8 elements, 32 bytes" in text
    assert "a run with N = 1000: 1.6e-05 GFLOP" in text


def test_a_model_that_is_wrong_is_inspected_nevertheless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "inspect", saved(tmp_path, WRONG))
    assert found["operators"] == {"Abz": 1, "Identity": 1, "my.Other": 1}
    assert "no operator Abz" in found["run"]["doubt"]


def test_check_says_who_would_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, LAYERS)
    nodes = {"CPUExecutionProvider": 3}
    assert shown(capsys, "check", path) == {"runs": True, "problems": [], "ran": True, "nodes": nodes}
    assert shown(capsys, "check", path, "--no-run") == {"runs": True, "problems": [], "ran": False, "nodes": nodes}
    assert main(["check", path]) == 0
    assert capsys.readouterr().out == f"{path} runs: 3 nodes, 3 on CPUExecutionProvider\n"


def test_check_tells_all_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shown(capsys, "check", saved(tmp_path, WRONG), status=1)["problems"]
    assert "no operator Abz" in first and "Identity 'Identity_0' has 2 inputs" in second


def test_check_names_each_node_that_nobody_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shown(capsys, "check", saved(tmp_path, FOREIGN), status=1)["problems"]
    assert "Thing 'Thing_0'" in first and "Other 'Other_0'" in second


def test_plan_has_a_row_for_each_tensor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = LAYERS.replace("y = Relu(sum)", "h = Relu(sum)  s = Softmax(h)  y = CumSum(s, one)").replace("b = ", "b = ")
    text = text.replace("float[2] b = {1, 1}", "float[2] b = {1, 1}, int64 one = {1}")
    found = shown(capsys, "plan", saved(tmp_path, text), "--shape", "x=100x3")["partitions"]["CPUExecutionProvider_0"]
    (proof,) = found["certificates"].values()
    (arena,) = found["arenas"]
    assert arena["bytes"] == proof["peak"] >= proof["lower_bound"] >= 100 * 2 * 4
    for tensor in found["tensors"]:
        assert tensor["offset"] + tensor["bytes"] <= arena["bytes"] and tensor["first_step"] <= tensor["last_step"]


STAGES = """<ir_version: 8, opset_import: ["": 17]> stages (float[N, 64] x) => (float[N, 64] y) {
    a = Relu(x) b = Mul(a, a) c = Relu(b) d = Mul(c, c) e = Add(d, a) f = Softmax(e) y = Relu(f) }"""
LIMITED = ("--dim", "N=16", "--memory", "fast=10K@20G,slow=64K@2G")
ACCELERATED = ("--providers", "AcceleratorExecutionProvider,CPUExecutionProvider")


def test_plan_for_stated_memories_lists_moves_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture = saved(tmp_path, STAGES), tmp_path / "plan.html"
    found = shown(capsys, "plan", path, *LIMITED, "--picture", str(picture))["partitions"]["CPUExecutionProvider_0"]
    assert {arena["arena"] for arena in found["arenas"]} == {"scratch in fast", "scratch in slow"}
    assert all(arena["used"] <= 10 << 10 for arena in found["arenas"] if arena["arena"] == "scratch in fast")
    assert set(found["accesses"]) == {"fast", "slow"}
    assert found["moves"] == [
        {"tensor": "a", "bytes": 4096, "source": "fast", "destination": "slow", "before_step": 2},
    ]
    page = picture.read_text("utf-8")
    assert page.count("<svg") == 2 and "limit 10,240 bytes" in page and "a in fast from op 0: 4,096 bytes" in page
    assert main(["plan", path, *LIMITED]) == 0
    assert "a       4,096  fast  slow  2" in capsys.readouterr().out


def test_plan_for_stated_memories_is_that_of_a_provider_that_runs_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = shown(capsys, "plan", saved(tmp_path, STAGES), *LIMITED, *ACCELERATED)["partitions"]
    assert {name.rpartition("_")[0] for name in found} == {"AcceleratorExecutionProvider", "CPUExecutionProvider"}
    assert any(row["tensor"].startswith("Relu_0:") for row in found["AcceleratorExecutionProvider_0"]["tensors"])


def test_plan_names_a_tensor_whose_size_only_a_run_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = STAGES.replace("(float[N, 64] y)", "(float[N, 64] y, int64[2, M] z)").replace("y = Relu", "z = NonZero(f) y = Relu")
    assert main(["plan", saved(tmp_path, text), *LIMITED]) == 2
    assert "the size of tensor 'z' does not follow from the shapes of the inputs" in capsys.readouterr().err


@pytest.mark.slow
def test_profile_has_nodes_and_totals_by_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    found = shown(capsys, "profile", saved(tmp_path, LAYERS), "--seconds", "0", "--trace", str(trace))
    assert sum(row["times"] for row in found["operators"]) == len(found["nodes"]) >= 1
    assert all(row["kernel"] and row["predicted"] > 0 for row in found["nodes"])
    assert {event["name"] for event in json.loads(trace.read_text("utf-8"))} >= {"model_run", "get_capability"}


def test_outputs_are_compared_with_onnxruntimes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (output,) = shown(capsys, "verify", saved(tmp_path, LAYERS), "--against", "onnxruntime")["outputs"]
    assert output["ok"] and output["name"] == "y" and output["elements"] == 2


def test_outputs_that_are_off_are_the_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ort_lite.compat.inference_session import InferenceSession

    run = InferenceSession.run
    monkeypatch.setattr(InferenceSession, "run", lambda *given, **named: [run(*given, **named)[0] + 1])
    assert main(["verify", saved(tmp_path, LAYERS), "--against", "onnxruntime"]) == 1
    assert "1 of 1 outputs are off" in capsys.readouterr().out


def test_a_model_that_the_other_runtime_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "h = Cast<to=16>(x) s = Sinh(h) y = Cast<to=1>(s)"  # bfloat16, of which onnxruntime has no Sinh
    text = f'<ir_version: 8, opset_import: ["": 22]> main (float[3] x) => (float[3] y) {{ {body} }}'
    assert main(["verify", saved(tmp_path, text), "--against", "onnxruntime"]) == 2
    assert "onnxruntime does not run" in capsys.readouterr().err


def test_bench_of_several_callers_and_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ("--shapes", "x=1x3", "--shapes", "x=7x3")
    found = shown(capsys, "bench", saved(tmp_path, LAYERS), "--duration", "0.02", "--concurrency", "2", *sets)
    assert [result["name"] for result in found["models"]] == ["model.onnx x=1x3", "model.onnx x=7x3"]
    load = found["models"][0]["loads"]["ort_lite"]
    assert load["concurrency"] == 2 and load["runs"] >= 8
    assert 0 < load["p50"] <= load["p90"] <= load["p99"] <= load["longest"]


def test_percentiles_are_of_runs() -> None:
    load = Load(1, tuple(k / 1000 for k in range(1, 101)), 2.0)
    assert [load.percentile(share) for share in (50, 99)] == [0.051, 0.1]
    assert load.throughput == 50


def test_what_a_caller_raises_is_raised() -> None:
    def fail() -> Any:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        measure_load([fail], 2, 0.01)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_width_cuts_a_providers_name(width: int) -> None:
    columns = ("node", "operator", "runs on", "partition", "why not the others")
    why = "SampleExecutionProvider declined operator: Conv is none of its operators"
    row = ["a/long/name/of/a/node/Conv", "Conv", "CPUExecutionProvider", "CPUExecutionProvider_0", why]
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(table_of(columns, [row]))
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    assert any("CPUExecutionProvider " in line for line in lines)
    assert sorted("".join("".join(lines).split())) == sorted("".join("".join([*columns, *row]).split()))
