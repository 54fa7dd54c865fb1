"""The OpenVINO provider in sessions, beside a CPU provider: results, borders, threads, options."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import openvino
import pytest
from onnx import helper, numpy_helper
from ort_lite_openvino import OpenVINOExecutionProvider
from ort_lite_openvino.compiled import compile_partition

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import NoDevice, ProviderError, RuntimeException

LAYERS = (
    "(float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, -0.5}>"
    "{ a = Tanh(x)  p = MatMul(a, w)  s = Add(p, b)  y = Relu(s) }"
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
    provider = OpenVINOExecutionProvider(**options)
    return ort_lite.InferenceSession(model, chosen, providers=[provider, "CPUExecutionProvider"])


def runs_on(made: ort_lite.InferenceSession) -> list[str]:
    return [partition.provider.name for partition in made.explain().assignment.partitions]


def reasons(made: ort_lite.InferenceSession) -> dict[str, str]:
    """operator -> why OpenVINO does not run it."""
    places = made.explain().assignment.placements.values()
    return {p.node.op_type: str(p.reasons[0]) for p in places if p.provider != OpenVINOExecutionProvider.name}


class TestResults:
    def test_one_partition_takes_any_number_of_rows(self) -> None:
        made = session(LAYERS)
        assert runs_on(made) == ["OpenVINOExecutionProvider"]
        for rows in (1, 5, 0, 64, 1):
            x = np.random.default_rng(rows).standard_normal((rows, 3), dtype=np.float32)
            np.testing.assert_allclose(made.run(None, {"x": x})[0], layers(x), rtol=1e-5)

    def test_a_pool_of_no_images_gives_none(self) -> None:
        made = session("(float[N,1,4,4] x) => (float[N,1,3,3] y) { y = MaxPool<kernel_shape=[2,2]>(x) }")
        assert runs_on(made) == ["OpenVINOExecutionProvider"]
        for count in (2, 0, 1):
            assert made.run(None, {"x": np.zeros((count, 1, 4, 4), np.float32)})[0].shape == (count, 1, 3, 3)

    def test_operators_that_others_would_fuse_are_taken_as_they_are(self) -> None:
        made = session(
            "(float[1,1,4,4] x) => (float[1,1,2,2] y) <float[1,1,3,3] w = {1, 0, 2, 0, -1, 0, 3, 0, 1}> "
            "{ c = Conv(x, w)  s = Add(c, c)  y = HardSwish(s) }",
            optimise=True,
        )
        x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 1, 4, 4)
        kernel = np.array([[1, 0, 2], [0, -1, 0], [3, 0, 1]], np.float32)
        c = 2 * np.array([[np.sum(kernel * x[0, 0, i : i + 3, j : j + 3]) for j in range(2)] for i in range(2)])
        expected = c * np.clip(c / 6 + 0.5, 0, 1)
        np.testing.assert_allclose(made.run(None, {"x": x})[0][0, 0], expected, rtol=1e-5)
        assert runs_on(made) == ["OpenVINOExecutionProvider"]

    @pytest.mark.parametrize(
        "text",
        [
            "(float[1,1,4,4] x) => (float[1,1,2,2] y) <float[1,1,3,3] w = {1, 0, 2, 0, -1, 0, 3, 0, 1}> "
            '{ y = com.microsoft.FusedConv<activation = "HardSwish">(x, w) }',
            '(float[2,2] x) => (float[2,2] y) { y = com.microsoft.FusedGemm<activation = "LeakyRelu">(x, x) }',
        ],
    )
    def test_a_model_s_own_fused_operators_are_declined(self, text: str) -> None:
        assert runs_on(session(text)) == ["CPUExecutionProvider"]

    def test_a_number_divided_by_itself_is_one(self) -> None:
        made = session("(float[N] x) => (float[N] y) { q = Div(x, x)  y = Floor(q) }")
        assert (made.run(None, {"x": np.arange(1, 500, dtype=np.float32)})[0] == 1).all()

    @pytest.mark.parametrize(
        ("opset", "text"),
        [
            (7, "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }"),
            (11, "(float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis=-1>(x) }"),
            (11, "(float[2,3,4] x) => (float[2,1,4] y) { y = ReduceSum<axes=[1]>(x) }"),
            (
                11,
                "(float[2,3,4] x) => (float[3,8] y) { y = ReduceLogSumExp<axes=[0], keepdims=0>(z)  z = Unsqueeze<axes=[0]>(f)"
                "  f = Flatten<axis=2>(t)  t = Transpose<perm=[1,0,2]>(x) }",
            ),
            (9, "(float[2,3,4] x) => (float[1,3,2] y) { y = Slice<starts=[1,-3], ends=[9,-1], axes=[0,2]>(x) }"),
            (10, '(float[2,3,4] x) => (float[4,3,6] y) { y = Pad<pads=[1,0,1,1,0,1], mode="reflect">(z)  z = Relu(x) }'),
            (7, "(float[2,3,4] x) => (float[2,3,4] y) { y = Clip<min=-0.5, max=0.25>(x) }"),
            (
                9,
                "(float[2,3,4] x) => (float[2,3,4] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}, float[3] m = {1, 0, 1}, "
                "float[3] v = {1, 4, 9}> { y = BatchNormalization(x, s, b, m, v) }",
            ),
            (9, "(float[2,3,4] x) => (float[2,1,4] y) { y, z = Split<axis=1, split=[1,2]>(x) }"),
            (9, "(float[2,3,4] x) => (float[2,3,2] y) { y, i = TopK<k=2, axis=-1>(x) }"),
            (8, "(float[2,3,4] x) => (float[2,3,3] y) { y = MaxPool<kernel_shape=[2]>(x) }"),
            (
                11,
                "(float[2,3,4] x) => (float[2,3,8] y) <float[3] s = {1, 1, 2}, float[0] r = {}>"
                '{ y = Resize<mode="linear">(x, r, s) }',
            ),
        ],
    )
    def test_operators_of_older_opsets_give_what_the_cpu_provider_gives(self, opset: int, text: str) -> None:
        x = np.random.default_rng(0).standard_normal((2, 3, 4), dtype=np.float32)
        made = session(text, opset)
        assert runs_on(made) == ["OpenVINOExecutionProvider"]
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')
        expected = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
        np.testing.assert_allclose(made.run(None, {"x": x})[0], expected[0], rtol=1e-5, atol=1e-6)


class TestBorders:
    @pytest.mark.parametrize("size", ["3", "N"])
    def test_an_output_that_is_an_input_is_the_callers_own(self, size: str) -> None:
        made = session(f"(float[{size}] x) => (float[{size}] y, float[{size}] z) {{ y = Sum(x)  z = Neg(x) }}")
        x = np.array([1, 2, 3], np.float32)
        for _ in range(2):
            y, z = made.run(None, {"x": x})
            np.testing.assert_array_equal(y, [1, 2, 3])
            np.testing.assert_array_equal(z, [-1, -2, -3])
            y[:] = z[:] = 7
            np.testing.assert_array_equal(x, [1, 2, 3])

    def test_int64_beyond_32_bits_is_an_error_and_not_another_number(self) -> None:
        made = session("(int64[N] x) => (int64[N] y) { y = Abs(x) }")
        np.testing.assert_array_equal(made.run(None, {"x": np.array([-(2**31) + 1, 5])})[0], [2**31 - 1, 5])
        with pytest.raises(RuntimeException, match=r"'x' has the element 1099511627776; OpenVINO computes int64 in 32"):
            made.run(None, {"x": np.array([2**40, 5])})

    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize("of_one", ["x", "y"])
    def test_sizes_that_do_not_fit_are_an_error_and_spoil_nothing(self, threads: int, of_one: str) -> None:
        made = session("(bool[A,B] x, bool[C,D] y) => (bool[E,F] z) { z = And(x, y) }", num_threads=threads)
        feed = {"x": np.array([[True, False, True, True]] * 3), "y": np.array([[True, True, False, True]] * 3)}
        expected = feed["x"] & feed["y"]
        for _ in range(3):
            np.testing.assert_array_equal(made.run(None, feed)[0], expected)
            with pytest.raises(RuntimeException, match="input shapes dim index: 1"):
                made.run(None, {**feed, of_one: np.ones((3, 5), np.bool_)})


class TestCapability:
    @pytest.mark.parametrize(
        ("text", "operator", "reason"),
        [
            ("(double[N] x) => (double[N] y) { y = Exp(x) }", "Exp", "declined type: 'x' is float64, takes float16, float32"),
            (
                "(float[N] x) => (float[N] y) { y = Hardmax(x) }",
                "Hardmax",
                "declined operator: Hardmax is none of its operators",
            ),
            (
                "(int64[N] x) => (int64[N] y) { y = Add(x, x) }",
                "Add",
                "declined type: 'x' may be large; OpenVINO computes int64 in 32 bits",
            ),
            (
                "(float[N] x, int64[1] a) => (float[] y) { y = ReduceSum<keepdims=0>(x, a) }",
                "ReduceSum",
                "declined constant: 'a' is computed, takes a constant",
            ),
            (
                "(float[N] x) => (float[M] y) <int64[1] z = {0}> { e = ConstantOfShape(z)  y = Exp(e) }",
                "Exp",
                "declined shape: 'e' is empty",
            ),
            (
                "(float[N] x) => (uint8[N] y) <float s = {0.5}, uint8 z = {3}> { y = QuantizeLinear(x, s, z) }",
                "QuantizeLinear",
                "declined rounding: 'y' is read by more than ConvInteger, DequantizeLinear, MatMulInteger, QLinearConv, "
                "QLinearMatMul; halves are rounded otherwise",
            ),
            (
                "(float[N] x, int64[1] k) => (float[M] y, int64[M] i) { y, i = TopK(x, k) }",
                "TopK",
                "declined order: 'i' is read; it does not keep equal elements in order",
            ),
            (
                "(float[N,1,5] x, float[1,8,5] w, float[1,8,2] r) => (float[N,1,1,2] y) "
                "{ y = LSTM<hidden_size=2, clip=3.0>(x, w, r) }",
                "LSTM",
                "declined attribute: activations or clip are given, takes the default",
            ),
        ],
    )
    def test_a_node_that_stays_says_why(self, text: str, operator: str, reason: str) -> None:
        assert reasons(session(text))[operator] == reason

    def test_sums_of_sizes_are_taken(self) -> None:
        made = session("(float[N,M] x) => (int64[2] y) { s = Shape(x)  y = Add(s, s) }")
        assert runs_on(made) == ["OpenVINOExecutionProvider"]
        np.testing.assert_array_equal(made.run(None, {"x": np.zeros((2, 3), np.float32)})[0], [4, 6])

    def test_zero_points_that_keep_halves_even_and_quantised_operands_are_taken(self) -> None:
        even = "(float[N] x) => (uint8[N] y) <float s = {0.5}, uint8 z = {4}> { y = QuantizeLinear(x, s, z) }"
        steps = "{ q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"
        assert reasons(session(even)) == {}
        assert reasons(session(f"(float[N] x) => (float[N] y) <float s = {{0.5}}, uint8 z = {{3}}> {steps}")) == {}

    @pytest.mark.parametrize(
        ("opset", "axis", "declined"), [(7, 1, False), (11, 1, True), (12, 2, False), (12, -2, True), (13, 1, False)]
    )
    def test_softmax_over_several_dimensions_is_declined(self, opset: int, axis: int, declined: bool) -> None:
        made = session(f"(float[A,B,C] x) => (float[A,B,C] y) {{ y = Softmax<axis={axis}>(x) }}", opset)
        why = {"Softmax": f"declined attribute: axis is {axis} in opset {opset}, takes the last"}
        assert reasons(made) == (why if declined else {})

    def test_operators_before_opset_7_are_declined(self) -> None:
        assert reasons(session("(float[3] x) => (float[3] y) { y = Relu(x) }", opset=6))["Relu"].startswith("declined opset")

    def test_bodies_run_on_openvino_and_their_node_does_not(self) -> None:
        made = session(
            "(bool c, float[N] x) => (float[N] y) { y = If(c) <then_branch = a () => (float[N] t) { t = Exp(x) },"
            " else_branch = b () => (float[N] e) { e = Neg(x) }> }"
        )
        assert sorted(runs_on(made)) == ["CPUExecutionProvider", "OpenVINOExecutionProvider", "OpenVINOExecutionProvider"]
        for choice, expected in ((True, np.e), (False, -1)):
            (y,) = made.run(None, {"c": np.array(choice), "x": np.ones(2, np.float32)})
            np.testing.assert_allclose(y, [expected] * 2, rtol=1e-6)


class TestOptions:
    def test_they_are_checked(self) -> None:
        with pytest.raises(ProviderError, match="knows no option treads"):
            OpenVINOExecutionProvider(treads=3)
        with pytest.raises(ProviderError, match="num_threads is 'many'; expected a number"):
            OpenVINOExecutionProvider(num_threads="many")
        with pytest.raises(ProviderError, match="precision is 'f8'; expected one of f32, f16, bf16"):
            OpenVINOExecutionProvider(precision="f8")

    @pytest.mark.parametrize("device", ["GPU.7", "HETERO:GPU.7,CPU"])
    def test_a_device_that_is_not_there_is_an_error_that_lists_those_that_are(self, device: str) -> None:
        with pytest.raises(NoDevice, match=r"there is no GPU\.7 here; available: .*CPU"):
            OpenVINOExecutionProvider(device_type=device)

    def test_a_word_that_is_no_device_is_an_error(self) -> None:
        with pytest.raises(ProviderError, match="there is no CPX here"):
            OpenVINOExecutionProvider(device_type="CPX")

    @pytest.mark.parametrize(
        ("options", "device"), [({}, "CPU"), ({"device_type": "AUTO:CPU"}, "CPU"), ({"num_streams": 2}, "CPU")]
    )
    def test_it_says_on_which_device_it_runs(self, options: dict[str, Any], device: str) -> None:
        made = session(LAYERS, **options)
        x = np.ones((2, 3), np.float32)
        np.testing.assert_allclose(made.run(None, {"x": x})[0], layers(x), rtol=1e-5)
        (facts,) = made.explain().facts.values()
        assert device in str(facts["device"])

    def test_the_sessions_threads_hold_where_none_are_given(self) -> None:
        provider, options = OpenVINOExecutionProvider(), ort_lite.SessionOptions()
        options.intra_op_num_threads = 3
        provider.configure(options)
        assert provider.get_options()["num_threads"] == 3
        own = OpenVINOExecutionProvider(num_threads="2")
        own.configure(options)
        assert own.get_options() == {
            "device_type": "CPU",
            "precision": "f32",
            "num_threads": 2,
            "num_streams": 0,
            "cache_dir": "",
        }

    def test_compiled_models_are_kept_in_the_cache(self, tmp_path: Path) -> None:
        x = np.ones((2, 3), np.float32)
        for _ in range(2):
            np.testing.assert_allclose(session(LAYERS, cache_dir=str(tmp_path)).run(None, {"x": x})[0], layers(x), rtol=1e-5)
        assert len(list(tmp_path.glob("*.blob"))) == 1

    def test_it_is_available(self) -> None:
        assert OpenVINOExecutionProvider.name in ort_lite.get_available_providers()
        assert openvino.Core().available_devices


@pytest.mark.parametrize("shared", [False, True])
def test_the_bias_of_a_convolution_is_added_in_it_also_where_layers_share_it(shared: bool) -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((16, 16, 3, 3), dtype=np.float32) for _ in range(3)]
    biases = [rng.standard_normal(16, dtype=np.float32) for _ in range(3)]
    nodes, constants = [], []
    for k in range(3):
        bias = "b0" if shared else f"b{k}"
        nodes.append(helper.make_node("Conv", [f"r{k}", f"w{k}", bias], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k + 1}"]))
        constants.append(numpy_helper.from_array(weights[k], f"w{k}"))
        if k == 0 or not shared:
            constants.append(numpy_helper.from_array(biases[k], bias))
    ends = [helper.make_tensor_value_info(name, 1, [1, 16, 12, 12]) for name in ("r0", "r3")]
    graph = helper.make_graph(nodes, "main", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    provider, x = OpenVINOExecutionProvider(), rng.standard_normal((1, 16, 12, 12), dtype=np.float32)
    made = ort_lite.InferenceSession(model, providers=[provider, "CPUExecutionProvider"])
    expected = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"r0": x})[0]
    np.testing.assert_allclose(made.run(None, {"r0": x})[0], expected, rtol=1e-3, atol=1e-2)
    core = openvino.Core()
    (part,) = made.explain().assignment.partitions
    compiled = compile_partition(core, part, "CPU", {})._pool.compiled
    kinds = {str(operation.get_rt_info()["layerType"].value) for operation in compiled.get_runtime_model().get_ops()}
    assert "Convolution" in kinds
    assert not kinds & {"Subgraph", "Eltwise", "Add"}, kinds


def test_numbers_of_half_the_width_are_computed_in_float32() -> None:
    made = session("(float16[N] x) => (float16[N] y) { s = Mul(x, x)  y = Sqrt(s) }")
    x = np.array([300, 2, 0.5], np.float16)
    np.testing.assert_allclose(made.run(None, {"x": x})[0], x, rtol=1e-3)
