"""The provider in sessions: what it takes and why not, its options, and what it owes to callers."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_xla import XLAExecutionProvider

import ort_lite
from ort_lite.errors import NoDevice, ProviderError, RuntimeException
from ort_lite.graph.released import DroppedConstant
from ort_lite.load.load import load
from ort_lite.provider import GraphView
from ort_lite_cpu import CPUExecutionProvider
from tests.threads import run_together

XLA = XLAExecutionProvider.name
NETWORK = (
    "(float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, -0.5}>"
    "{ a = MatMul(x, w)  c = Add(a, b)  y = Softmax(c) }"
)


def session(text: str, opset: int = 17, optimise: bool = False, **options: Any) -> ort_lite.InferenceSession:
    header = f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]>'
    settings = ort_lite.SessionOptions()
    if not optimise:
        settings.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = onnx.parser.parse_model(f"{header} main {text}").SerializeToString()
    return ort_lite.InferenceSession(made, settings, providers=[(XLA, options), "CPUExecutionProvider"])


def reasons(made: ort_lite.InferenceSession) -> dict[str, str]:
    """operator -> why the provider does not run it, "" where it does."""
    rows = made.explain().assignment.rows()
    return {place.node.op_type: next((str(r) for r in place.reasons if r.provider == XLA), "") for _, place in rows}


def facts(made: ort_lite.InferenceSession) -> dict[str, Any]:
    return dict(made.explain().facts[f"{XLA}_0"])


# What it takes


def test_a_network_is_one_partition() -> None:
    made = session(NETWORK)
    assert [p.provider.name for p in made.explain().assignment.partitions] == [XLA]
    x = np.array([[0.5, -1, 2], [3, 0, -0.25]], np.float32)
    scores = x @ np.array([[1, 2], [3, 4], [5, 6]], np.float32) + np.array([0.5, -0.5], np.float32)
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(made.run(None, {"x": x})[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("opset", "text", "reason"),
    [
        (17, "(float[N] x) => (int64[1,M] y) { y = NonZero(x) }", "shape: the size of NonZero's result depends on"),
        (17, "(string[N] x) => (string[N] y) { y = Identity(x) }", "type: 'x' is string, takes"),
        (17, "(float[N] x) => (float[N] y) { y = Bernoulli(x) }", "operator: there is no lowering of Bernoulli"),
        (6, "(float[N] x) => (float[N] y) { y = Add(x, x) }", "opset: Add of opset 6, takes 7 and newer"),
        (
            18,
            "(float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1, 0.5, 0.5}>"
            '{ y = Resize<antialias = 1, mode = "linear">(x, , s) }',
            "attribute: antialias is not supported",
        ),
        (
            19,
            '(float[3,5] x) => (float[A,B] y) <int64[4] p = {-1, 1, 2, 0}> { y = Pad<mode = "reflect">(x, p) }',
            "attribute: mode reflect with pads that may be negative",
        ),
        (
            19,
            "(float[1,1,9] x) => (float[1,1,A] y)"
            '{ y = MaxPool<kernel_shape = [2], dilations = [2], auto_pad = "SAME_UPPER">(x) }',
            "attribute: auto_pad with dilations",
        ),
        (
            17,
            "(float[N] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) }",
            "contents: the contents of 's' must follow from constants and shapes",
        ),
        (
            17,
            "(float[N] x, int64[2] s) => (float[A,B] y) { t = Abs(s)  y = Reshape(x, t) }",
            "contents: the contents of 't' must follow from constants and shapes; they depend on 's'",
        ),
    ],
)
def test_what_it_declines_has_a_reason(opset: int, text: str, reason: str) -> None:
    graph = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')).graph
    from ort_lite.inference.annotate import annotate
    from ort_lite.plugins import plugins

    annotate(graph, plugins.shape_rules())
    answers = list(XLAExecutionProvider().get_capability(GraphView(graph, rules=plugins.shape_rules())))
    assert any(str(answer).startswith(reason) for answer in answers), answers


def test_a_shape_computed_from_shapes_is_known_while_tracing() -> None:
    text = """(float[A,B,6] x) => (float[A,C,3] y) <int64[1] zero = {0}, int64[2] rest = {-1, 3}> {
        s = Shape(x)  a = Gather(s, zero)  t = Concat<axis = 0>(a, rest)  y = Reshape(x, t) }"""
    made = session(text)
    assert set(reasons(made).values()) == {""}
    x = np.arange(60, dtype=np.float32).reshape(2, 5, 6)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], x.reshape(2, 10, 3))


def test_a_shape_that_another_provider_computes_is_read_at_the_border() -> None:
    class TakesShape(CPUExecutionProvider):
        name = "TakesShape"

        def get_capability(self, graph: GraphView) -> Any:
            return [a for a in super().get_capability(graph) if any(n.op_type == "Shape" for n in getattr(a, "nodes", ()))]

    text = "(float[A,B] x, float[C] z) => (float[A,B] y) { s = Shape(x)  e = Exp(z)  y = Reshape(e, s) }"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}').SerializeToString()
    both = ort_lite.InferenceSession(made, providers=[TakesShape(), XLA, "CPUExecutionProvider"])
    assert {p.node.op_type: p.provider for _, p in both.explain().assignment.rows()}["Reshape"] == XLA
    for shape in ((2, 3), (3, 2), (1, 6)):
        (y,) = both.run(None, {"x": np.zeros(shape, np.float32), "z": np.zeros(6, np.float32)})
        assert y.shape == shape


def test_groups_below_the_minimum_go_to_the_next_provider() -> None:
    assert reasons(session("(float[N] x) => (float[N] y) { y = Exp(x) }", minimum=2)) == {
        "Exp": "lost: group too small: 1 node, takes 2 or more"
    }


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": 1}, "knows no option colour"),
        ({"precision": "low"}, "precision is 'low'; expected one of float32, tf32, bf16"),
        ({"cached_shapes": 0}, "cached_shapes is 0; expected 1 or more"),
        ({"minimum": "many"}, "minimum is 'many'; expected 1 or more"),
        ({"buckets": "perhaps"}, "buckets is 'perhaps'; expected 0 or 1"),
        ({"preallocate": "half"}, "preallocate is 'half'; expected 0 or 1"),
        ({"device": "abacus"}, "device is 'abacus'; expected one of cpu, gpu, tpu"),
        ({"device_id": "first"}, "device_id is 'first'; expected 0 or more"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        XLAExecutionProvider(**options)


def test_a_device_that_is_missing_is_no_device() -> None:
    with pytest.raises(NoDevice, match=r"no device cpu 99; there are .*cpu 0"):
        XLAExecutionProvider(device="cpu", device_id=99)


def test_options_may_be_strings_and_are_reported() -> None:
    made = session(NETWORK, device="cpu", buckets="0", cached_shapes="3", precision="tf32", minimum="2")
    assert made.get_provider_options()[XLA] == {
        "device": "cpu",
        "device_id": 0,
        "precision": "tf32",
        "buckets": False,
        "cached_shapes": 3,
        "minimum": 2,
        "attention": "xla",
        "preallocate": False,
    }


def test_it_is_available() -> None:
    assert XLA in ort_lite.get_available_providers()


# What callers may rely on


def test_64_bit_types_are_right_and_the_program_around_keeps_its_settings() -> None:
    import jax
    import jax.numpy as jnp

    made = session("(int64[N] x, double[N] z) => (int64[N] y, double[N] w) { y = Add(x, x)  w = Exp(z) }")
    x, z = np.array([2**40, -3]), np.array([1e-12, 700.0])
    y, w = made.run(None, {"x": x, "z": z})
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_allclose(w, np.exp(z), rtol=1e-14)
    assert not jax.config.jax_enable_x64
    assert jnp.arange(3).dtype == np.int32


def test_a_guard_of_the_program_around_is_for_its_own_copies() -> None:
    import jax

    made = session(NETWORK)
    with jax.transfer_guard("disallow"):
        for size in (2, 5, 6):
            assert made.run(None, {"x": np.ones((size, 3), np.float32)})[0].shape == (size, 2)


def test_outputs_belong_to_the_caller() -> None:
    text = "(float[N,64] x) => (float[N,64] a, float[N,64] b, float[N,64] c, float[64,64] d) {{ {} }}".format(
        "a = Identity(x)  b = Neg(x)  c = Neg(x)  e = Identity(k)  d = Identity(e)"
    ).replace("{ a", "<float[64,64] k = {" + ", ".join(["1"] * 4096) + "}> { a")
    made = session(text)
    x = np.ones((64, 64), np.float32)
    first = made.run(None, {"x": x})
    for k, output in enumerate(first):
        assert output.flags.writeable and output.flags.c_contiguous
        assert not any(np.shares_memory(output, other) for other in (x, *first[:k], *first[k + 1 :]))
        output[...] = 7 + k
    second = made.run(None, {"x": x})
    np.testing.assert_array_equal(x, 1)
    assert [float(output[0, 0]) for output in second] == [1, -1, -1, 1]
    assert [float(output[0, 0]) for output in first] == [7, 8, 9, 10]


def test_inputs_may_be_unaligned_and_stay_as_they_are() -> None:
    made = session("(float[N] x) => (float[N] y) { a = Add(x, x)  y = Sqrt(a) }")
    buffer = np.zeros(4001, np.float32)
    for offset in range(4):
        x = buffer[offset : offset + 3997]
        x[...] = 2
        np.testing.assert_array_equal(made.run(None, {"x": x})[0], 2)
        np.testing.assert_array_equal(x, 2)


def test_a_result_stays_when_its_input_changes() -> None:
    made = session("(float[N] x) => (float[N] y) { y = Mul(x, x) }")
    x = np.full(1 << 20, 3, np.float32)
    (y,) = made.run(None, {"x": x})
    x[...] = 0
    np.testing.assert_array_equal(y, 9)


def test_quotients_are_no_products_with_an_inverse() -> None:
    """Of which 49 / 49 is less than 1, and the inverse of 3e38 nothing."""
    numbers = np.array([*range(1, 400), 3e38], np.float32)
    made = session("(float[N] x, float[N,1] y) => (float[N,N] q) { q = Div(x, y) }")
    (q,) = made.run(None, {"x": numbers, "y": numbers[:, None]})
    np.testing.assert_array_equal(np.diag(q), 1)


def test_outputs_that_only_shapes_decide_need_no_executable() -> None:
    made = session("(float[A,B] x) => (int64[2] y) <int64[2] two = {2, 2}> { s = Shape(x)  y = Mul(s, two) }", buckets=0)
    (y,) = made.run(None, {"x": np.zeros((3, 4), np.float32)})
    assert y.tolist() == [6, 8]


def test_a_node_whose_operands_do_not_fit_is_named() -> None:
    made = session("(float[A,B] x, float[C,D] z) => (float[A,D] y) { y = MatMul(x, z) }")
    with pytest.raises(
        RuntimeException, match=r"MatMul '.*' \(XLAExecutionProvider\): .*'x' float32\[2, 3\], 'z' float32\[4, 2\]"
    ):
        made.run(None, {"x": np.zeros((2, 3), np.float32), "z": np.zeros((4, 2), np.float32)})


def test_the_session_gives_up_the_arrays_of_constants_on_the_device() -> None:
    text = "(float[N,100] x) => (float[N] y) <float[100] w = {" + ", ".join(["2"] * 100) + "}> { y = MatMul(x, w) }"
    made = session(text)
    (partition,) = made.explain().assignment.partitions
    assert isinstance(partition.constants[0].constant, DroppedConstant)
    for size in (2, 9):
        assert made.run(None, {"x": np.ones((size, 100), np.float32)})[0].tolist() == [200.0] * size


def test_a_failed_shape_does_not_spoil_the_next_one() -> None:
    made = session("(float[A,B] x, float[C,D] z) => (float[A,D] y) { y = MatMul(x, z) }")
    with pytest.raises(RuntimeException):
        made.run(None, {"x": np.zeros((2, 3), np.float32), "z": np.zeros((4, 2), np.float32)})
    assert made.run(None, {"x": np.ones((2, 3), np.float32), "z": np.ones((3, 2), np.float32)})[0].tolist() == [[3, 3], [3, 3]]


def test_many_threads_and_shapes_at_once_get_the_bits_of_serial_runs() -> None:
    made, alone = session(NETWORK), session(NETWORK)
    feeds = [np.random.default_rng(k).standard_normal((5 + 4 * (k % 4), 3)).astype(np.float32) for k in range(8)]
    expected = [alone.run(None, {"x": x})[0] for x in feeds]
    wrong: list[int] = []

    def work(number: int) -> None:
        same = [np.array_equal(made.run(None, {"x": feeds[number]})[0], expected[number]) for _ in range(100)]
        wrong.extend(number for equal in same if not equal)

    run_together(work, len(feeds))
    assert wrong == []
    assert facts(made)["executables"] == 4  # one a bucket, whoever came first


def test_the_executables_used_last_are_kept() -> None:
    made = session(NETWORK, buckets=0, cached_shapes=2)
    for size in (3, 4, 5, 5, 4):
        assert made.run(None, {"x": np.zeros((size, 3), np.float32)})[0].shape == (size, 2)
    assert (facts(made)["executables"], facts(made)["compilations"]) == (2, 3)
    made.run(None, {"x": np.zeros((3, 3), np.float32)})
    assert (facts(made)["compilations"], facts(made)["loaded"]) == (3, 1)
