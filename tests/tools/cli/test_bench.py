"""`ort-lite bench` as a user calls it; times are whatever they are."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ort_lite import __main__ as command_line
from ort_lite.errors import InvalidArgument
from ort_lite.session.metadata import NodeArg
from ort_lite.tools.cli.benchmark.benchmark_report import PREDICTIONS
from ort_lite.tools.cli.benchmark.operator import attribute_of, operator_model, shape_of
from ort_lite.tools.cli.benchmark.rivals import RIVALS, rival
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import LENGTH, lengths
from tests.tools.cli.output import parse
from tests.tools.saved_model import save

MODEL = (
    '<ir_version: 8, opset_import: ["": 17]> m (float[N,3] x, float[3,2] w) => (float[N,2] y) { a = MatMul(x, w)  y = Relu(a) }'
)
SHORT = ("--seconds", "0", "--threads", "1")


@pytest.fixture
def model(tmp_path: Path) -> str:
    return save(tmp_path / "model.onnx", MODEL)


def bench(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = ExitStatus.DONE) -> str:
    assert command_line.main(["bench", *arguments, *SHORT]) == status
    return capsys.readouterr().out


def test_a_model_against_onnxruntime(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    shown = bench(capsys, model, "--against", "onnxruntime", "--dim", "N=4", "--json", str(file)).splitlines()
    assert shown[1].startswith("model.onnx  ort_lite ")
    found = parse(file.read_text())
    (row,) = found["models"]
    assert (found["threads"], row["name"], row["differences"], row["failed"]) == (1, "model.onnx", [], "")
    assert row["ratio"] == pytest.approx(row["theirs"] / row["ours"])
    assert row["noise"] == pytest.approx(row["theirs"] / row["control"])
    assert set(found["versions"]) == {"ort_lite", "onnxruntime"}


def test_alone_and_as_json_alone(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = parse(bench(capsys, model, "--json", "-"))["models"]
    assert row["ours"] > 0
    assert row["theirs"] is None


@pytest.mark.slow
def test_the_nodes_of_a_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = parse(bench(capsys, model, "--nodes", "--dim", "N=4", "--json", "-"))["profile"]
    (product,) = (row for row in found["nodes"] if "MatMul" in row["operator"])
    assert product["operations"] >= 2 * 4 * 3 * 2
    assert found["peaks_of_a_core"]["operations"]["fma f32"] > 0 and product["instruction"] == "fma f32"
    shown = bench(capsys, model, "--nodes", "--top", "1").splitlines()
    assert shown[3].split()[:6] == ["node", "operator", "ms", "predicted", "ms", "share"]
    assert PREDICTIONS in shown
    assert any(line.startswith("the rest, between nodes: ") for line in shown)


def test_a_folder_is_a_line_a_model_and_a_mean(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner").mkdir()
    save(tmp_path / "inner" / "again.onnx", MODEL)
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    shown = bench(capsys, str(tmp_path), "--against", "onnxruntime", status=ExitStatus.MODEL).splitlines()
    rows = [line for line in shown[1:] if not line.startswith("  ")]
    assert [row.split("  ")[0] for row in rows[:-1]] == ["broken.onnx", "inner/again.onnx", "model.onnx"]
    assert rows[0].startswith("broken.onnx  ort_lite: InvalidProtobuf")
    assert rows[-1].startswith("geometric mean of 2 ratios: ")


def test_where_the_rival_alone_fails_that_is_said(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "other.onnx", MODEL)
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(__version__="1"))
    shown = bench(capsys, str(tmp_path), "--against", "openvino", status=ExitStatus.MODEL).splitlines()
    failure = "openvino: AttributeError: 'types.SimpleNamespace' object has no attribute 'Core'"
    assert [line.split("  ")[1] for line in shown[1:] if not line.startswith(" ")] == [failure] * 2
    assert command_line.main(["bench", model, "--against", "openvino", *SHORT]) == 2
    assert "model.onnx: openvino: AttributeError" in capsys.readouterr().err


def test_an_operator_is_a_model_of_one_node(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--operator", "Conv", "--shape", "1x4x8x8", "--shape", "6x4x3x3", "--constant", "1", "--attribute", "pads=1,1,1,1")
    (row,) = parse(bench(capsys, *given, "--against", "onnxruntime", "--json", "-"))["models"]
    assert row["name"] == "Conv 1x4x8x8 6x4x3x3"
    assert row["differences"] == []
    assert row["ratio"] > 0


def test_the_model_of_an_operator() -> None:
    made = onnx.load_from_string(operator_model("Gather", [(9, 2), (4,)], ["float16", "int64"], {"axis": 0}, [0]))
    onnx.checker.check_model(made)
    assert [(x.name, x.type.tensor_type.elem_type) for x in made.graph.input] == [("i1", onnx.TensorProto.INT64)]
    assert [(x.name, list(x.dims), x.data_type) for x in made.graph.initializer] == [("i0", [9, 2], onnx.TensorProto.FLOAT16)]
    (node,) = onnx.load_from_string(operator_model("com.microsoft.Gelu", [(4,)])).graph.node
    assert (node.domain, node.op_type) == ("com.microsoft", "Gelu")


def test_the_model_of_an_operator_with_values_and_without_an_optional_input() -> None:
    sizes = np.array([1, 1, 4, 4], np.int64)
    made = onnx.load_from_string(
        operator_model("Resize", [(1, 1, 2, 2), None, None, (4,)], ["float32"] * 3 + ["int64"], {}, {3: sizes})
    )
    onnx.checker.check_model(made)
    assert list(made.graph.node[0].input) == ["i0", "", "", "i3"]
    assert [onnx.numpy_helper.to_array(tensor).tolist() for tensor in made.graph.initializer] == [[1, 1, 4, 4]]
    assert [dim.dim_value for dim in made.graph.output[0].type.tensor_type.shape.dim] == [1, 1, 4, 4]
    two = onnx.load_from_string(operator_model("TopK", [(9,), (1,)], ["float32", "int64"], {}, {1: np.array([2])}, outputs=2))
    assert (len(two.graph.node[0].output), len(two.graph.output)) == (2, 1)
    with pytest.raises(InvalidArgument, match="--constant 1: the input is left out"):
        operator_model("Resize", [(1, 1, 2, 2), None], constants=[1])


def test_attributes_and_shapes_are_read() -> None:
    texts = ["axis=-1", "alpha=0.5", "pads=1,1", "perm=[0]", "mode=edge", "equation=ij,jk->ik"]
    expected = {"axis": -1, "alpha": 0.5, "pads": [1, 1], "perm": [0], "mode": "edge", "equation": "ij,jk->ik"}
    assert dict(map(attribute_of, texts)) == expected
    assert [shape_of(text) for text in ("512x64", "7", "")] == [(512, 64), (7,), ()]


def test_lengths_of_texts_are_chosen_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = [
        NodeArg("ids", "tensor(int64)", ["batch", "sequence_length"]),
        NodeArg("past", "tensor(float)", [1, "past_seq_len", None]),
    ]
    assert lengths(inputs, {}) == {"sequence_length": LENGTH}
    assert lengths(inputs, {"sequence_length": 5}) == {}
    text = '<ir_version: 8, opset_import: ["": 17]> m (float[B,seq] x) => (float[B,seq] y) { y = Relu(x) }'
    path = save(tmp_path / "m.onnx", text)
    assert f"free dimensions B is set to 1, seq is set to {LENGTH}: use --dim" in bench(capsys, path)
    assert "free dimension B is set to 1: use --dim" in bench(capsys, path, "--dim", "seq=3")
    assert "--dim" not in bench(capsys, path, "--dim", "seq=3", "--dim", "B=2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a model, a folder of models, or --operator, and only one of them"),
        (["MODEL", "--operator", "Relu"], "expected a model, a folder of models, or --operator, and only one of them"),
        (["FOLDER", "--nodes"], "is a folder, expected one model"),
        (["--operator", "Relu", "--shape", "3x"], "--shape 3x: expected sizes with x between them, such as 512x512"),
        (
            ["--operator", "Relu", "--shape", "3", "--dtype", "float23"],
            "--dtype float23: no element type of numbers; did you mean",
        ),
        (["--operator", "Add", "--shape", "3", "--dtype", "int8", "--dtype", "int8"], "--dtype: came 2 times, expected once"),
        (["--operator", "Relu", "--shape", "3", "--constant", "1"], "--constant 1: expected the place of an input, 0 to 0"),
    ],
)
def test_errors_about_what_is_given_are_one_line_and_status_2(
    arguments: list[str], message: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"MODEL": model, "FOLDER": str(tmp_path)}
    assert command_line.main(["bench", *(places.get(argument, argument) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ort-lite bench: ")
    assert message in error


def test_a_rival_that_is_not_installed_is_named(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert command_line.main(["bench", model, "--against", "openvino"]) == 2
    assert "install it with: pip install openvino" in capsys.readouterr().err


def test_openvino_is_called_as_its_guide_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread count, float32, low latency, one request whose inputs are shared, all outputs in order."""
    calls: list[Any] = []

    class Compiled:
        outputs = (0, 0)

        def create_infer_request(self) -> Any:
            def infer(feeds: Any, share_inputs: bool) -> dict[int, Any]:
                calls.append((feeds, share_inputs))
                return {1: "second", 0: "first"}

            return SimpleNamespace(infer=infer)

    def compile_model(model: Any, device: str, config: Any) -> Compiled:
        calls.append((model, device, config))
        return Compiled()

    core = SimpleNamespace(read_model=lambda model: f"read {model}", compile_model=compile_model)
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=lambda: core, __version__="1"))
    found = rival("openvino")
    feeds = {"x": np.ones(3)}
    assert found.open("m.onnx", 3, feeds)() == ["first", "second"]
    assert found.version == "1"
    config = {"INFERENCE_NUM_THREADS": 3, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    assert calls == [("read m.onnx", "CPU", config), (feeds, True)]


@pytest.mark.parametrize(("spin", "expected"), [(True, []), (False, [("session.intra_op.allow_spinning", "0")])])
def test_threads_of_onnxruntime_spin_unless_told(
    spin: bool, expected: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[tuple[str, str]] = []

    class Options:
        def add_session_config_entry(self, *entry: str) -> None:
            entries.append((entry[0], entry[1]))

    session = SimpleNamespace(run=lambda names, feeds: [feeds["x"]])
    module = SimpleNamespace(SessionOptions=Options, InferenceSession=lambda *_, **__: session)
    monkeypatch.setitem(sys.modules, "onnxruntime", module)
    assert rival("onnxruntime").create("m.onnx", 1, spin)({"x": 3}) == [3]
    assert entries == expected


def test_the_command_line_knows_the_rivals(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["bench", "--help"])
    assert f"--against {{{','.join(RIVALS)}}}" in capsys.readouterr().out
