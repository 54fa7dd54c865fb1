"""A profile by node: what events are put together, and the bytes and operations beside them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument
from ort_lite.log.events import Event
from ort_lite.native.cpu import host
from ort_lite.native.instructions import loops
from ort_lite.tools.cli.benchmark.machine_peaks import Peaks, cpu, peaks
from ort_lite.tools.cli.benchmark.nodes import profile
from ort_lite.tools.view.node_times import FEWEST, NodeTime, Profile, medians, quiet, together
from tests.models.light_models import randomised
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider

HEADER = '<ir_version: 10, opset_import: ["": 21]> main '


def profiled(model: Any, feeds: Mapping[str, Any], providers: Any = None) -> Profile:
    chosen = ort_lite.SessionOptions()
    chosen.intra_op_num_threads = 1
    with ort_lite.InferenceSession(model, chosen, providers=providers or ["CPUExecutionProvider"]) as session:
        return profile(session, feeds, 0)


def text(body: str) -> Any:
    return onnx.parser.parse_model(HEADER + body)


def test_the_median_over_runs_is_of_what_a_run_takes() -> None:
    spans = [(0, 100), (100, 200), (200, 300)]
    events = [
        Event("early", -9, -5),
        *(Event("a", start, start + length) for start, length in ((10, 1), (20, 2), (110, 30), (210, 5))),
        Event("once", 150, 160),
        Event("late", 305, 310),
    ]
    assert medians(events, spans) == {"a": pytest.approx(5e-9), "once": 0}


def test_the_shortest_quarter_of_the_runs_counts() -> None:
    spans = [(100 * k, 100 * k + length) for k, length in enumerate((9, 1, 8, 2, 9, 3, 9, 9, 4, 9, 9, 9, 9, 9, 9, 9))]
    assert quiet(spans) == [(100, 101), (300, 302), (500, 503), (800, 804)]
    assert quiet(spans[:4]) == [(100, 101), (200, 208), (300, 302)]


def test_a_node_that_was_joined_before_it_was_fused_counts() -> None:
    model = text("""(float[1,3,9,9] x) => (float[1,16,9,9] y) <float[16,3,3,3] w, float[16] s> {
        a = Conv<pads = [1,1,1,1]>(x, w)  b = BatchNormalization(a, s, s, s, s)  y = Relu(b) }""")
    for value in model.graph.value_info:
        array = np.ones([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    lines = profiled(model, {"x": np.zeros((1, 3, 9, 9), np.float32)}).lines
    conv = next(line for line in lines if "Conv" in line.operator)
    assert (conv.name.count("+"), conv.operations) == (2, 16 * 81 * (2 * 27 + 1))


def test_what_is_inside_of_an_event_is_not_its_own() -> None:
    events = [Event("inner", 20, 30), Event("if", 10, 60), Event("inmost", 22, 24), Event("after", 60, 70)]
    expected = {"if": 40e-9, "inner": 8e-9, "inmost": 2e-9, "after": 10e-9}
    assert medians(events, [(0, 100)]) == pytest.approx(expected)


def test_nodes_of_one_loop_are_a_line_with_what_goes_in_and_out() -> None:
    model = text("""(float[N,4] x, float[4,8] w) => (float[N,8] y) {
        [a] a = Mul(x, x) [b] b = Sigmoid(a) [c] c = Add(b, x) [m] d = MatMul(c, w) [s] y = Softmax(d) }""")
    found = profiled(model, {"x": np.ones((5, 4), np.float32), "w": np.ones((4, 8), np.float32)})
    by_name = {line.name: line for line in found.lines}
    assert {name: (line.operator, line.operations, line.nbytes) for name, line in by_name.items()} == {
        "c": ("Mul+Sigmoid+Add", 3 * 20, 4 * (20 + 20)),
        "m": ("MatMul", 2 * 5 * 4 * 8, 4 * (20 + 32 + 40)),
        "s": ("Softmax", 4 * 40, 4 * (40 + 40)),
    }
    assert by_name["m"].shapes == "float32[5, 4], float32[4, 8] -> float32[5, 8]"
    assert found.runs == FEWEST
    assert list(found.lines) == sorted(found.lines, key=lambda line: -line.seconds)
    assert all(line.seconds > 0 and line.share == pytest.approx(line.seconds / found.seconds) for line in found.lines)


def test_nodes_that_became_another_operator_are_its_line() -> None:
    """Five nodes of an exported Gelu, and the product before it, which nobody may count among them."""
    model = text("""(float[4,8] x, float[8,8] w) => (float[4,8] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
        [m] p = MatMul(x, w) [a] a = Div(p, root) [b] b = Erf(a) [c] c = Add(b, one) [d] d = Mul(p, c) [e] y = Mul(d, half) }""")
    found = profiled(model, {"x": np.ones((4, 8), np.float32), "w": np.ones((8, 8), np.float32)})
    assert {line.operator: line.operations for line in found.lines} == {"MatMul": 2 * 4 * 8 * 8, "Div+Erf+Add+Mul+Mul": 5 * 32}
    (gelu,) = (line for line in found.lines if "Erf" in line.operator)
    assert gelu.nbytes == 4 * (32 + 32 + 3)


def test_a_fusion_of_fusions_is_a_line_of_all_its_nodes() -> None:
    """The activation of a convolution that was made of five nodes, which the name of the fused node does not have."""
    model = text("""(float[1,8,9,9] x, float[8,8,1,1] w) => (float[1,8,9,9] y) <float three = {3}, float zero = {0}, float six = {6}> {
        [conv] c = Conv(x, w) [add] a = Add(c, three) [clip] l = Clip(a, zero, six) [mul] m = Mul(c, l) [div] y = Div(m, six) }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((8, 8, 1, 1), np.float32), "w"))
    del model.graph.input[1]
    [line] = (line for line in profiled(model, {"x": np.ones((1, 8, 9, 9), np.float32)}).lines if line.nodes)
    assert (line.name, line.operator) == ("conv+HardSwish_div", "Conv+Add+Clip+Mul+Div")


def test_lines_have_the_kernel_and_its_predicted_time() -> None:
    model = text("(float[1,64,20,20] x) => (float[1,64,18,18] y) { [conv] y = Conv(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64, 3, 3), np.float32), "w"))
    with ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        choice = session.explain(kernels=True).kernels["conv"]
        found = profile(session, {"x": np.ones((1, 64, 20, 20), np.float32)}, 0)
    (line,) = (line for line in found.lines if line.name == "conv")
    assert (line.kernel, line.runner_up) == (choice.taken, choice.runner_up) and choice.runner_up
    assert line.predicted == pytest.approx(choice.costs[choice.taken].kernel / 1e6)
    assert found.with_choices({}) == found


def test_events_of_one_name_are_counted_together() -> None:
    events = [Event("(inserted)", 0, 1, {"op_name": "Copy", "shapes": shapes, "bytes": "10"}) for shapes in "ababab"]
    assert together(events, 3) == {"op_name": "Copy", "shapes": "2 sets of shapes", "bytes": "20.0"}
    assert together(events[:1], 1) == {"op_name": "Copy", "shapes": "a", "bytes": "10.0"}
    assert together([Event("x", 0, 1)], 1) == {"op_name": "", "shapes": "", "bytes": "0.0"}


def test_the_nodes_of_a_network_are_the_models() -> None:
    """Convolutions and what was fused with them have the operations of the nodes that the model has."""
    found = profiled(randomised("squeezenet"), {"data_0": np.ones((1, 3, 224, 224), np.float32)})
    (first,) = (line for line in found.lines if "float32[64, 3, 3, 3]" in line.shapes)
    assert (first.operator, first.operations) == ("Conv+Relu", 2 * 64 * 111**2 * 27 + 64 * 111**2)
    assert first.nbytes == 4 * (3 * 224**2 + 64 * 27 + 64 + 64 * 111**2)


def test_bodies_are_lines_of_their_own() -> None:
    model = text("""(float[64] x, bool c) => (float[64] y) { [choice] y = If (c) <
        then_branch = t () => (float[64] z) { [twice] z = Add(x, x) },
        else_branch = e () => (float[64] w) { [square] w = Mul(x, x) }> }""")
    found = profiled(model, {"x": np.ones(64, np.float32), "c": np.array(True)})
    assert {line.name for line in found.lines} == {"choice", "twice"}
    (twice,) = (line for line in found.lines if line.name == "twice")
    assert twice.operations == 64


def test_sizes_that_data_tells_are_the_providers() -> None:
    nodes = "[where] i = NonZero(x) [flat] j = Squeeze(i) [pick] g = Gather(x, j) [last] y = Neg(g)"
    model = text(f"(float[8] x) => (float[M] y) {{ {nodes} }}")
    found = {line.name: line for line in profiled(model, {"x": np.ones(8, np.float32)}).lines}
    assert found["last"].operations is None
    assert found["last"].nbytes == 2 * 8 * 4


def test_a_session_without_events_is_an_error() -> None:
    model = text("(float[8] x) => (float[8] y) { y = Identity(x) }")
    with pytest.raises(InvalidArgument, match="none of NumpyExecutionProvider, CPUExecutionProvider records"):
        profiled(model, {"x": np.ones(8, np.float32)}, [NumpyProvider(), CpuStandIn()])


@pytest.mark.parametrize(
    ("operations", "nbytes", "threads", "expected"),
    [
        (50.0, 1.0, 1, (0.5, "fma f32")),
        (1.0, 8.0, 1, (0.8, "memory")),
        (50.0, 8.0, 2, (0.4, "memory")),
        (None, 5.0, 1, (0.5, "memory")),
    ],
)
def test_the_nearer_limit_counts(operations: float | None, nbytes: float, threads: int, expected: tuple[float, str]) -> None:
    line = NodeTime("m", "MatMul", "", 1.0, 1.0, nbytes, operations)
    assert Peaks(operations={"fma f32": 100.0}, bandwidth=10.0).share(line, threads) == expected


@pytest.mark.parametrize(
    ("arithmetic", "instruction", "expected"),
    [
        ("float32", "", (0.5, "fma f32")),
        ("int8", "", (0.125, "amx u8s8")),
        ("int8", "dots u8s8", (0.25, "dots u8s8")),
        ("int8", "fma f32", (0.5, "fma f32")),
        ("bfloat16", "", (0.5, "fma f32")),
    ],
)
def test_a_kernel_has_the_peak_of_its_instruction(arithmetic: str, instruction: str, expected: tuple[float, str]) -> None:
    """Without one, the peak is that of the fastest instruction for the element type."""
    limits = Peaks({"fma f32": 100.0, "dots u8s8": 200.0, "amx u8s8": 400.0, "dots bf16": 50.0}, bandwidth=10.0)
    assert limits.shortest_time(50.0, 1.0, 1, arithmetic, instruction) == expected


def test_without_a_measured_instruction_memory_is_the_limit() -> None:
    assert Peaks({}, bandwidth=10.0).shortest_time(50.0, 1.0, 1) == (0.1, "memory")


def test_copies_of_few_bytes_have_the_bandwidth_of_caches() -> None:
    limits = Peaks(operations={}, bandwidth=10.0, caches={1 << 16: 80.0, 1 << 20: 40.0})
    assert [limits.shortest_time(0.0, n, 1)[0] for n in (8, 1 << 16, 1 << 18, 1 << 20)] == [
        n / r for n, r in ((8, 80), (1 << 16, 80), (1 << 18, 60), (1 << 20, 40))
    ]
    assert limits.shortest_time(0.0, 1 << 28, 1)[0] == (1 << 28) / 10
    assert limits.shortest_time(0.0, 1 << 17, 2)[0] == (1 << 16) / 80, "each thread moves half"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(float[4,8] x, float[8,8] w) => (float[4,8] y) { [m] y = MatMul(x, w) }", "float32"),
        ("(uint8[4,8] x, int8[8,8] w) => (int32[4,8] y) { [m] y = MatMulInteger(x, w) }", "int8"),
        ("(bfloat16[4,8] x, bfloat16[8,8] w) => (bfloat16[4,8] y) { [m] y = MatMul(x, w) }", "bfloat16"),
        ("(float16[4,8] x, float16[8,8] w) => (float16[4,8] y) { [m] y = MatMul(x, w) }", "float32"),
        (
            """(uint8[4,8] x, int8[8,8] w, float s, float t) => (float[4,8] y) {
            a = DequantizeLinear(x, s) b = DequantizeLinear(w, t) [m] y = MatMul(a, b) }""",
            "int8",
        ),
    ],
)
def test_products_have_the_arithmetic_of_their_operands(body: str, expected: str) -> None:
    model = text(body)
    random = np.random.default_rng(0)
    kinds = {value.name: onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.input}
    shapes = {v.name: [dim.dim_value for dim in v.type.tensor_type.shape.dim] for v in model.graph.input}
    feeds = {name: np.asarray(random.integers(1, 3, shapes[name])).astype(kinds[name]) for name in shapes}
    (line,) = (line for line in profiled(model, feeds).lines if "MatMul" in line.operator)
    assert line.arithmetic == expected


def test_peaks_are_measured() -> None:
    found = peaks(0.0)
    assert found.operations.keys() == loops(host()).keys()
    assert min(found.operations.values()) > 1e8
    assert found.bandwidth > 1e7
    assert list(found.caches.values()) == sorted(found.caches.values(), reverse=True)
    assert min(found.caches.values()) >= found.bandwidth


def test_a_cpu_has_its_name_and_its_vectors() -> None:
    intel = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu sse2 fma avx2 avx512f\n\nmodel name\t: Other\n"
    assert cpu(intel) == ("Some CPU @ 2 GHz", ("avx2", "fma", "avx512f"))
    assert cpu("Features\t: fp asimd sve\n")[1] == ("asimd", "sve")
    assert cpu("model name\t: AMD EPYC\n", "znver4")[0] == "AMD EPYC (Zen 4)"
    assert cpu(intel, "sapphirerapids")[0] == "Some CPU @ 2 GHz"
    assert cpu()[0]
