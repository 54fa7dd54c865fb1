"""The onnxruntime provider in sessions, beside a CPU provider: results, borders, threads, options."""

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from ort_lite_onnxruntime import OnnxRuntimeExecutionProvider

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import NoDevice, ProviderError
from ort_lite.inference import ShapeRules
from ort_lite.load.load import load
from ort_lite.provider import GraphView, Rejection

LAYERS = (
    "(float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, -0.5}>"
    "{ a = Tanh(x)  p = MatMul(a, w)  s = Add(p, b)  y = Relu(s) }"
)
BRANCHES = (
    "(bool c, float[N] x) => (float[N] y) { z = Mul(x, x)  y = If(c) <then_branch = a () => (float[N] t) { t = Exp(z) },"
    " else_branch = b () => (float[N] e) { e = Neg(z) }> }"
)


def layers(x: Array) -> Array:
    w, b = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([0.5, -0.5], np.float32)
    expected: Array = np.maximum(np.tanh(x) @ w + b, 0)
    return expected


def session(text: str, opset: int = 17, optimise: bool = False, **options: Any) -> ort_lite.InferenceSession:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')
    chosen = ort_lite.SessionOptions()
    if not optimise:
        chosen.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    provider = OnnxRuntimeExecutionProvider(**options)
    return ort_lite.InferenceSession(model, chosen, providers=[provider, "CPUExecutionProvider"])


def runs_on(made: ort_lite.InferenceSession) -> list[str]:
    return [partition.provider.name for partition in made.explain().assignment.partitions]


def reasons(made: ort_lite.InferenceSession) -> dict[str, str]:
    """operator -> why onnxruntime does not run it."""
    places = made.explain().assignment.placements.values()
    return {p.node.op_type: str(p.reasons[0]) for p in places if p.provider != OnnxRuntimeExecutionProvider.name}


def test_one_partition_takes_any_number_of_rows() -> None:
    made = session(LAYERS)
    assert runs_on(made) == ["OnnxRuntimeExecutionProvider"]
    for rows in (1, 5, 0, 64, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 3), dtype=np.float32)
        np.testing.assert_allclose(made.run(None, {"x": x})[0], layers(x), rtol=1e-5)


@pytest.mark.parametrize(("op_type", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
def test_recurrent_networks_over_nothing_end_no_process_but_in_zeros(op_type: str, gates: int) -> None:
    cell = (", float[2,N,3] c", ", c", ", float[2,N,3] m", ", m") if op_type == "LSTM" else ("",) * 4
    text = (
        f"(float[T,N,4] x, float[2,{3 * gates},4] w, float[2,{3 * gates},3] r, float[2,N,3] h{cell[0]}) => "
        f"(float[T,2,N,3] y, float[2,N,3] z{cell[2]}) {{ s = Neg(x)  "
        f'y, z{cell[3]} = {op_type}<hidden_size = 3, direction = "bidirectional">(s, w, r, , , h{cell[1]}) }}'
    )
    made = session(text, 14)
    assert runs_on(made) == ["OnnxRuntimeExecutionProvider"]
    shapes = {"w": (2, 3 * gates, 4), "r": (2, 3 * gates, 3)}
    for steps, count in ((2, 1), (0, 2), (2, 0), (0, 0)):
        given = {**shapes, "x": (steps, count, 4), **dict.fromkeys("hc" if cell[0] else "h", (2, count, 3))}
        y, *states = made.run(None, {name: np.full(shape, 0.5, np.float32) for name, shape in given.items()})
        assert y.shape == (steps, 2, count, 3)
        for state in states:
            assert state.shape == (2, count, 3)
            assert steps or (state == 0).all()


def test_a_reshape_of_nothing_finds_what_is_left() -> None:
    made = session(
        "(float[N,5,6] x) => (float y) <int64[3] s = {0, -1, 3}> "
        "{ r = Reshape(x, s)  z = Shape(r)  t = Cast<to = 1>(z)  y = ReduceSum<keepdims = 0>(t) }"
    )
    assert runs_on(made) == ["OnnxRuntimeExecutionProvider"]
    assert [float(made.run(None, {"x": np.zeros((n, 5, 6), np.float32)})[0]) for n in (2, 0)] == [15, 13]


@pytest.mark.parametrize(
    ("opset", "text", "reason"),
    [
        (17, "(float[1,C,5,5] x, float[1,C,3,3] w) => (float[1,1,3,3] y) { y = Conv(x, w) }", "1, C, 3, 3 of its dimensions"),
        (17, "(float[1,1,D,4,4] x, float[1,1,3,3,3] w) => (float[1,1,E,6,6] y) { y = ConvTranspose(x, w) }", "D, 4, 4 of its"),
        (23, "(float[1,H,4,8] q, float[1,H,6,8] k) => (float[1,H,4,8] y) { y = Attention(q, k, k) }", "H of its dimensions"),
        (
            14,
            "(float[T,2,I] x, float[1,3,I] w, float[1,3,3] r) => (float[T,1,2,3] y) { y = RNN<hidden_size = 3>(x, w, r) }",
            "1, 3, I of its dimensions",
        ),
        (
            8,
            "(float[T,2,4] x, float[1,3,4] w, float[1,3,3] r) => (float[T,1,2,3] y) { y = RNN<hidden_size = 3>(x, w, r) }",
            "lengths that may be 0 with opset 8",
        ),
        (
            8,
            "(float[1,N] s, float[1,T,N] x) => (float[1,N] y) { y = Scan<num_scan_inputs = 1, "
            "body = b (float[N] a, float[N] c) => (float[N] d) { d = Add(a, c) }>(, s, x) }",
            "Scan of opset 8",
        ),
    ],
)
def test_what_would_end_the_process_for_nothing_is_declined(opset: int, text: str, reason: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')
    (answer,) = OnnxRuntimeExecutionProvider().get_capability(GraphView(load(model).graph, rules=ShapeRules(())))
    assert isinstance(answer, Rejection)
    assert reason in str(answer)


def test_texts_and_sequences_go_through() -> None:
    made = session("(string[N] x) => (string[N] y) { y = Identity(x) }")
    assert runs_on(made) == ["OnnxRuntimeExecutionProvider"]
    assert made.run(None, {"x": np.array(["a", "bc"], object)})[0].tolist() == ["a", "bc"]
    made = session("(float[N] x) => (float[] y) { s = SequenceConstruct(x, x)  y = ConcatFromSequence<axis=0>(s) }")
    np.testing.assert_array_equal(made.run(None, {"x": np.array([1, 2], np.float32)})[0], [1, 2, 1, 2])


def test_control_flow_is_taken_with_its_bodies() -> None:
    made = session(BRANCHES)
    assert runs_on(made) == ["OnnxRuntimeExecutionProvider"]
    for choice, expected in ((True, np.exp(4)), (False, -4)):
        (y,) = made.run(None, {"c": np.array(choice), "x": np.full(2, 2, np.float32)})
        np.testing.assert_allclose(y, [expected] * 2, rtol=1e-6)


def test_a_body_with_a_node_that_it_lacks_leaves_the_node_around_it() -> None:
    made = session(BRANCHES.replace("Exp(z)", "Dropout(z, r, m)").replace("x) =>", "x, float r, bool m) =>"))
    assert reasons(made)["Dropout"].startswith("declined random")
    assert made.run(
        None, {"c": np.array(False), "x": np.full(2, 2, np.float32), "r": np.array(0, np.float32), "m": np.array(False)}
    )[0].tolist() == [-4, -4]


def test_the_fusions_of_the_transforms_are_operators_that_it_knows() -> None:
    made = session(LAYERS, optimise=True)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(made.run(None, {"x": x})[0], layers(x), rtol=1e-5)
    assert runs_on(made) == ["OnnxRuntimeExecutionProvider"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(bfloat16[N] x) => (bfloat16[N] y) { y = Exp(x) }", "type: 'x' is bfloat16"),
        ("(bool[N] x) => (bool[N] y) { y = CumSum(x, x) }", "type: [ONNXRuntimeError]"),
        ("(float[N] x) => (float[N] y) { y = my.Own(x) }", "operator: [ONNXRuntimeError]"),
        ("(float[1,N,1] x) => (float[1,N,2] y) { y = DFT(x) }", "precision: DFT is off by 1e-5"),
    ],
)
def test_a_node_that_stays_says_why(text: str, reason: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "my": 1]> main {text}')
    view = GraphView(load(model).graph, rules=ShapeRules(()))
    (answer,) = OnnxRuntimeExecutionProvider().get_capability(view)
    assert isinstance(answer, Rejection)
    assert str(answer).startswith(reason)


def test_outputs_are_the_callers_own() -> None:
    made = session("(float[N] x) => (float[N] y, float[N] z) { y = Identity(x)  z = Neg(x) }")
    x = np.array([1, 2, 3], np.float32)
    y, z = made.run(None, {"x": x})
    made.run(None, {"x": x * 2})
    np.testing.assert_array_equal(y, [1, 2, 3])
    y[:] = z[:] = 7
    np.testing.assert_array_equal(x, [1, 2, 3])


def test_one_session_is_made_for_nodes_that_differ_in_names_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = onnxruntime.InferenceSession

    def counted(*args: Any, **more: Any) -> onnxruntime.InferenceSession:
        made.append(1)
        return original(*args, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", counted)
    session("(float[N] x, float[3] z) => (float[N] y, float[3] v) { a = Exp(x)  y = Exp(a)  v = Exp(z) }")
    assert len(made) == 2  # for Exp, and for the partition


def test_its_options_are_checked() -> None:
    with pytest.raises(ProviderError, match="knows no option treads"):
        OnnxRuntimeExecutionProvider(treads=3)
    with pytest.raises(ProviderError, match="num_threads is -1; expected a number"):
        OnnxRuntimeExecutionProvider(num_threads=-1)
    with pytest.raises(
        ProviderError, match=r"'MyExecutionProvider' is none of onnxruntime's.*available: .*CPUExecutionProvider"
    ):
        OnnxRuntimeExecutionProvider(execution_provider="MyExecutionProvider")


def test_a_provider_that_is_not_built_in_is_no_device() -> None:
    lacking = next(n for n in onnxruntime.get_all_providers() if n not in onnxruntime.get_available_providers())
    with pytest.raises(NoDevice, match="is not in the installed onnxruntime"):
        OnnxRuntimeExecutionProvider(execution_provider=lacking)


def test_the_sessions_threads_hold_where_none_are_given() -> None:
    provider, options = OnnxRuntimeExecutionProvider(), ort_lite.SessionOptions()
    options.intra_op_num_threads = 3
    provider.configure(options)
    assert provider.get_options() == {"execution_provider": "CPUExecutionProvider", "provider_options": {}, "num_threads": 3}


def test_it_takes_part_only_where_it_is_named() -> None:
    assert OnnxRuntimeExecutionProvider.name not in ort_lite.get_available_providers()
    made = session(LAYERS)
    (facts,) = made.explain().facts.values()
    assert facts["providers"] == "CPUExecutionProvider"
