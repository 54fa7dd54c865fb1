"""Fusions come after the claim: what providers are asked about, what they compile, and what nobody else sees.

Long, and one file: one provider, `Wanting`, is what everything here is about.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite.errors import Fail, InvalidArgument, ProviderError
from ort_lite.graph import Graph, Model, Node, Value
from ort_lite.options import GraphOptimizationLevel, SessionOptions
from ort_lite.plugins import plugins
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection
from ort_lite.session.composite import CompositeProvider
from ort_lite.transform import Done, Rewriter, Skip, Transform, graph_pass, op, rule
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider, evaluate
from tests.text_graphs import model, random_feeds
from tests.transforms.test_all import CONSTANTS, random_body

RESNET = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
CPU = "CPUExecutionProvider"
WEIGHTS = """<float[4,4] w = {1, -1, 2, 0.5, 0, 1, 0, -2, 1, 1, 0.5, 0, 2, 0, 0, 1}, float[4] b = {1, 2, -1, 0.5},
  float[4,4,1,1] k = {1, -1, 2, 0.5, 0, 1, 0, -2, 1, 1, 0.5, 0, 2, 0, 0, 1}>"""
MLP = "{ p = MatMul(x, w) q = Add(p, b) r = Relu(q) s = MatMul(r, w) y = Add(s, b) }"
MATRIX = "(float[N,4] x) => (float[N,4] y)"
IMAGE = "(float[N,4,3,3] x) => (float[N,4,3,3] y)"


class Plain(ExecutionProvider):
    """Takes the operators and runs them on the CPU provider, unfused: a stand-in for an accelerator that knows few."""

    name: ClassVar[str] = "PlainExecutionProvider"
    operators: ClassVar[Sequence[str]] = ("Conv", "MatMul", "Add", "Relu")

    def __init__(self, takes: Callable[[Node], bool] = lambda node: True) -> None:
        super().__init__()
        self.takes = takes
        self.given: list[Partition] = []

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        for node in graph:
            if node.op_type in self.operators and not node.domain and self.takes(node):
                yield Capability([node])
            else:
                yield Rejection(node, "operator", "not taken")

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        self.given += partitions
        cpu = plugins.provider(CPU)()
        return list(cpu.compile(partitions))


class Wanting(Plain):
    """The same, with fusions."""

    name = "WantingExecutionProvider"

    def __init__(self, *wanted: Transform | str, takes: Callable[[Node], bool] = lambda node: True) -> None:
        super().__init__(takes)
        self.wanted = wanted

    def fusions(self) -> Iterable[Transform | str]:
        return self.wanted


def session(source: Model | Path, *providers: Any, options: SessionOptions | None = None, **keywords: Any) -> Any:
    return ort_lite.InferenceSession(source, options, providers=[*providers, CPU], **keywords)


def at_level(level: GraphOptimizationLevel) -> SessionOptions:
    options = SessionOptions()
    options.graph_optimization_level = level
    return options


def fused(made: Any) -> list[str]:
    """Operators of the fused copies, in order."""
    copies = made._stage_results.compiled.fused.values()
    return [node.op_type for copy in copies for node in copy.partition.nodes]


def claimed(made: Any) -> list[str]:
    """Operators that were dealt out."""
    return [place.node.op_type for _, place in made.explain().assignment.rows()]


def same(made: Any, source: Model | Path, feeds: dict[str, Any]) -> None:
    """The session gives what the model gives without any optimisation."""
    plain = ort_lite.InferenceSession(source, at_level(GraphOptimizationLevel.ORT_DISABLE_ALL), providers=[CPU])
    for got, want in zip(made.run(None, feeds), plain.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max(initial=1)))


# Who is asked about what


def test_a_provider_of_plain_operators_gets_all_of_them() -> None:
    """53 convolutions, 49 activations behind them, 16 sums."""
    rows = [place for _, place in session(RESNET, Plain()).explain().assignment.rows()]
    assert {place.node.domain for place in rows} == {""}
    mine = Counter(place.node.op_type for place in rows if place.provider == Plain.name)
    assert mine == {"Add": 16, "Conv": 53, "Relu": 49} and mine == Counter(
        place.node.op_type for place in rows if place.node.op_type in Plain.operators
    )


# What is fused


BYTES, BYTE = "(uint8[N,4] x) => (float[A,B] y)", "a = DequantizeLinear(x, half)"
FUSIONS = {
    "fuse_conv_activation": (IMAGE, "{ a = Conv(x, k) y = Relu(a) }", ["FusedConv"]),
    "fuse_conv_sum": (IMAGE, "{ a = Conv(x, k) y = Add(a, x) }", ["FusedConv"]),
    "fuse_matmul_bias": (MATRIX, "{ a = MatMul(x, w) y = Add(a, b) }", ["Gemm"]),
    "fuse_gemm_bias": (MATRIX, "{ a = Gemm(x, w) y = Add(a, b) }", ["Gemm"]),
    "fuse_gemm_activation": (MATRIX, "{ a = Gemm(x, w, b) y = Tanh(a) }", ["FusedGemm"]),
    "fuse_gemm_batch_norm": (
        "(float[N,4] x) => (float[N,4] y)",
        "{ a = MatMul(x, w) c = Add(a, b) e = Abs(b) y = BatchNormalization(c, b, b, b, e) }",
        ["Gemm"],
    ),
    "compose_attention": (
        "(float[N,2,S,4] q, float[N,2,5,4] l, float[N,2,5,6] v) => (float[N,2,S,6] y)",
        "{ a = Transpose<perm=[0,1,3,2]>(l) s = MatMul(q, a) p = Softmax<axis=-1>(s) y = MatMul(p, v) }",
        ["Attention"],
    ),
    "append_past": (
        """(float[N,2,S,4] q, float[N,2,S,4] l, float[N,2,S,4] v, float[N,2,P,4] pk, float[N,2,P,4] pv)
           => (float[N,2,S,4] y, float[N,2,A,4] nk, float[N,2,A,4] nv)""",
        """{ nk = Concat<axis=2>(pk, l) nv = Concat<axis=-2>(pv, v) a = Transpose<perm=[0,1,3,2]>(nk) s = MatMul(q, a)
             p = Softmax<axis=-1>(s) y = MatMul(p, nv) }""",
        ["Attention"],
    ),
    "compose_swish": (MATRIX, "{ a = Sigmoid(x) y = Mul(x, a) }", ["QuickGelu"]),
    "compose_gelu": (MATRIX, "{ a = Div(x, root) c = Erf(a) d = Add(c, one) e = Mul(x, d) y = Mul(e, half) }", ["Gelu"]),
    "compose_hard_sigmoid": (MATRIX, "{ a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six) }", ["HardSigmoid"]),
    "compose_hard_swish": (MATRIX, "{ a = Add(x, three) c = Clip(a, zero, six) d = Mul(x, c) y = Div(d, six) }", ["HardSwish"]),
    "compose_gated_hard_swish": (MATRIX, "{ a = HardSigmoid<alpha=0.16666667>(x) y = Mul(x, a) }", ["HardSwish"]),
    "fuse_layer_norm_bias": (MATRIX, "{ a = LayerNormalization(x, b) y = Add(a, b) }", ["LayerNormalization"]),
    "compose_layer_norm": (
        MATRIX,
        """{ a = ReduceMean(x, last) c = Sub(x, a) d = Mul(c, c) e = ReduceMean(d, last) f = Add(e, half) g = Sqrt(f)
             h = Div(c, g) y = Mul(h, b) }""",
        ["LayerNormalization"],
    ),
    "sink_transpose_below_unary": (
        "(float[N,2,4] x) => (float[N,2,4] y)",
        "{ a = Transpose<perm=[0,2,1]>(x) c = Sigmoid(a) d = Mul(a, c) y = Transpose<perm=[0,2,1]>(d) }",
        ["QuickGelu"],
    ),
    "multiply_integers": (
        BYTES,
        f"{{ {BYTE} c = DequantizeLinear(n, half) y = MatMul(a, c) }}",
        ["MatMulIntegerToFloat"],
    ),
    "multiply_blocks": (
        "(float[N,16] x) => (float[N,2] y)",
        "{ a = DequantizeLinear<axis=0,block_size=16>(m, halves) y = MatMul(x, a) }",
        ["MatMulNBits"],
    ),
    "fuse_integer_scales": (
        "(uint8[N,4] x, float t) => (float[A,B] y)",
        "{ a = MatMulInteger(x, n) c = Cast<to=1>(a) d = Mul(t, half) y = Mul(c, d) }",
        ["MatMulIntegerToFloat"],
    ),
    "fuse_integer_bias": (
        "(uint8[N,4] x, float t) => (float[A,B] y)",
        "{ a = MatMulInteger(x, n) c = Cast<to=1>(a) s = Mul(t, half) d = Mul(c, s) y = Add(d, two) }",
        ["MatMulIntegerToFloat"],
    ),
    "move_integers": (BYTES, f"{{ {BYTE} y = Transpose(a) }}", ["Transpose", "DequantizeLinear"]),
    "join_integers": (BYTES, f"{{ {BYTE} y = Concat<axis=0>(a, a) }}", ["Concat", "DequantizeLinear"]),
    "keep_integers": (
        BYTES,
        f"{{ {BYTE} c = Transpose(a) d = QuantizeLinear(c, half) y = Cast<to=1>(d) }}",
        ["Cast", "Transpose"],
    ),
}
NUMBERS = """, float root = {1.4142135}, float one = {1}, float half = {0.5}, float three = {3}, float zero = {0}, float six = {6},
  int64[1] last = {-1}, int8[4,2] n = {1, -2, 3, -4, 5, -6, 127, -128}, float[2] two = {1, 2}, float[1,2] halves = {0.5, 0.25},
  int8[16,2] m = {1, -2, 3, -4, 5, -6, 127, -128, 1, 1, 1, 1, 1, 1, 1, 1, 1, -2, 3, -4, 5, -6, 7, -8, 1, 1, 1, 1, 1, 1, 1, 1}>"""


@pytest.mark.parametrize("name", FUSIONS)
def test_each_fusion_happens_inside_the_partition_of_the_cpu(name: str) -> None:
    signature, body, expected = FUSIONS[name]
    source = model(signature, body, WEIGHTS[:-1] + NUMBERS, opset=21 if name == "multiply_blocks" else 19)
    made = session(source)
    assert fused(made) == expected
    assert claimed(made) != expected
    changes = [change.transform for copy in made._stage_results.compiled.fused.values() for change in copy.changes]
    assert name in changes
    same(made, source, random_feeds(source.graph))


def test_every_fusion_has_a_case() -> None:
    before = {transform.name for transform in plugins.transforms()}
    listed = {transform.name for transform in plugins.fusions()}
    assert listed - before <= set(FUSIONS) and listed & before == {
        "fuse_gemm_batch_norm",
        "merge_transposes",
        "sink_transpose_below_unary",
    }


def test_an_error_of_a_fused_node_names_its_parts() -> None:
    made = session(model("(float[A,B] x, float[C,4] v) => (float[A,4] y)", "{ a = MatMul(x, v) y = Add(a, b) }", WEIGHTS))
    with pytest.raises(ort_lite.errors.OrtLiteError, match=re.escape("Gemm 'MatMul_0+Add_0'")):
        made.run(None, {"x": np.ones((2, 3), np.float32), "v": np.ones((5, 4), np.float32)})


def test_profiles_name_the_parts_too(tmp_path: Path) -> None:
    options = SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    made = session(model(IMAGE, "{ a = Conv(x, k) y = Relu(a) }", WEIGHTS), options=options)
    made.run(None, {"x": np.ones((1, 4, 3, 3), np.float32)})
    assert "Conv_0+Relu_0" in Path(made.end_profiling()).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_shared_out_at_random_compute_the_same(seed: int) -> None:
    signature, body = random_body(seed)
    source = model(signature, body, CONSTANTS, opset=24)
    rng = np.random.default_rng(seed)
    chance: dict[str, bool] = {}
    provider: Any = Wanting("all", takes=lambda node: chance.setdefault(node.name, bool(rng.integers(2))))
    provider.operators = ("MatMul", "Gemm", "Add", "Mul", "Div", "Relu", "Sigmoid", "Erf", "Transpose", "Sub")
    made = session(source, provider)
    same(made, source, {**random_feeds(source.graph), "flag": np.array(bool(seed % 2))})
    compiled = made._stage_results.compiled
    for partition in made.explain().assignment.partitions:
        if partition.name in compiled.fused:
            copy = compiled.fused[partition.name].partition
            assert [v.name for v in copy.inputs] == [v.name for v in partition.inputs]
            assert [v.name for v in copy.outputs] == [v.name for v in partition.outputs]
            assert {v.producer for v in copy.outputs} <= set(copy.nodes)


# Borders


def test_nothing_is_fused_across_a_border() -> None:
    source = model(IMAGE, "{ a = Conv(x, k) c = Relu(a) d = Conv(c, k) y = Relu(d) }", WEIGHTS)
    provider = Wanting("all", takes=lambda node: node.name in ("Conv_0", "Conv_1", "Relu_1"))
    made = session(source, provider)
    assert [[node.op_type for node in p.nodes] for p in provider.given] == [["Conv"], ["FusedConv"]]
    same(made, source, random_feeds(source.graph))


def test_a_value_that_leaves_the_partition_stays() -> None:
    source = model("(float[N,4,3,3] x) => (float[N,4,3,3] a, float[N,4,3,3] y)", "{ a = Conv(x, k) y = Relu(a) }", WEIGHTS)
    made = session(source)
    assert fused(made) == []
    same(made, source, random_feeds(source.graph))


def test_where_nothing_can_be_fused_the_partition_is_no_copy() -> None:
    provider = Wanting("all")
    made = session(
        model(IMAGE, "{ a = Relu(x) c = Conv(a, k) y = Add(c, b2) }", WEIGHTS[:-1] + ", float[3] b2 = {1, 2, 3}>"), provider
    )
    [given], [partition] = provider.given, made.explain().assignment.partitions
    assert given.nodes == partition.nodes and made._stage_results.compiled.fused == {}


# Who decides


def test_the_graph_as_it_was_dealt_out_knows_no_fused_node(tmp_path: Path) -> None:
    options = SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    source = model(IMAGE, "{ a = Conv(x, k) c = Add(a, x) y = Relu(c) }", WEIGHTS)
    made = session(source, options=options)
    unfused = ["Conv", "Add", "Relu"]
    assert fused(made) == ["FusedConv"] and claimed(made) == unfused
    assert [node.op_type for node in onnx.load(tmp_path / "saved.onnx").graph.node] == unfused
    assert [place.node.op_type for _, place in ort_lite.plan(source, [CPU]).assignment.rows()] == unfused
    assert all(
        reader in set(made._stage_results.model.graph) for v in made._stage_results.model.graph.inputs for reader in v.readers
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (GraphOptimizationLevel.ORT_DISABLE_ALL, []),
        (GraphOptimizationLevel.ORT_ENABLE_BASIC, ["Gemm", "Relu"]),
        (GraphOptimizationLevel.ORT_ENABLE_EXTENDED, ["FusedGemm"]),
        (GraphOptimizationLevel.ORT_ENABLE_LAYOUT, ["FusedGemm"]),
    ],
)
def test_the_optimisation_level_decides(level: GraphOptimizationLevel, expected: list[str]) -> None:
    source = model(MATRIX, "{ a = MatMul(x, w) c = Add(a, b) y = Relu(c) }", WEIGHTS)
    assert fused(session(source, options=at_level(level))) == expected


def by_keyword(names: list[str]) -> dict[str, Any]:
    return {"disabled_optimizers": names}


def by_entry(names: list[str]) -> dict[str, Any]:
    options = SessionOptions()
    options.add_session_config_entry("optimization.disable_specified_optimizers", "; ".join(names))
    return {"options": options}


@pytest.mark.parametrize("disabling", [by_keyword, by_entry])
def test_a_fusion_can_be_disabled(disabling: Callable[[list[str]], dict[str, Any]], caplog: pytest.LogCaptureFixture) -> None:
    source = model(MATRIX, "{ a = MatMul(x, w) c = Add(a, b) y = Relu(c) }", WEIGHTS)
    assert fused(session(source, **disabling(["fuse_gemm_activation"]))) == ["Gemm", "Relu"]
    assert fused(session(source, **disabling(["fuse_matmul_bias"]))) == []
    assert caplog.messages == []


def test_a_composite_s_children_get_their_fusions() -> None:
    source = model(MATRIX, "{ a = MatMul(x, w) c = Add(a, b) y = Relu(c) }", WEIGHTS)
    for disabled, expected in (([], ["FusedGemm"]), (["fuse_gemm_activation"], ["Gemm", "Relu"])):
        provider = Wanting("all")
        made = session(source, CompositeProvider(children=[provider]), disabled_optimizers=disabled)
        assert [node.op_type for partition in provider.given for node in partition.nodes] == expected
        same(made, source, random_feeds(source.graph))


# A provider's own


@rule(op("Neg", op("Abs", "x", name="inner"), name="root"), level="basic", private=True)
def negated_magnitude(rewriter: Rewriter, x: Value, inner: Node, root: Node) -> Done | Skip:
    return rewriter.replace(root, rewriter.op("NegAbs", x, domain="test"))


class Fusing(NumpyProvider):
    """Knows Abs, Neg and, of its own making, both in one; may fail with it."""

    name = "FusingExecutionProvider"

    def __init__(self, *wanted: Any, fails: bool = False) -> None:
        super().__init__(lambda node: node.op_type in ("Abs", "Neg"))
        self.wanted, self.fails = wanted or (negated_magnitude,), fails

    def fusions(self) -> Any:
        return self.wanted

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [partial(self._run, partition) for partition in partitions]

    def _run(self, partition: Partition, inputs: Sequence[Any]) -> Sequence[Any]:
        if self.fails:
            raise OSError("bus")
        if [node.op_type for node in partition.nodes] == ["NegAbs"]:
            return [-np.abs(inputs[0])]
        return list(evaluate(partition, inputs))


OWN = model("(float[N] x) => (float[N] y)", "{ a = Abs(x) b = Neg(a) y = Tanh(b) }")
X = np.array([-1, 2, 0], np.float32)


def test_a_provider_has_fusions_of_its_own() -> None:
    provider = Fusing()
    made = ort_lite.InferenceSession(OWN, providers=[provider, CpuStandIn()])
    [[partition]] = provider.compiled
    [node] = partition.nodes
    assert (node.op_type, node.name, node.domain) == ("NegAbs", "Abs_0+Neg_0", "test")
    assert [v.name for v in (*partition.inputs, *partition.outputs)] == ["x", "b"]
    np.testing.assert_allclose(made.run(None, {"x": X})[0], np.tanh(-np.abs(X)), rtol=1e-6)
    assert [place.node.op_type for _, place in made.explain().assignment.rows()] == ["Abs", "Neg", "Tanh"]


def test_it_can_be_disabled_like_others(caplog: pytest.LogCaptureFixture) -> None:
    provider = Fusing()
    ort_lite.InferenceSession(OWN, providers=[provider, CpuStandIn()], disabled_optimizers=["negated_magnitude"])
    assert [node.op_type for [partition] in provider.compiled for node in partition.nodes] == ["Abs", "Neg"]
    assert caplog.messages == []


def test_what_fails_in_a_run_goes_on_unfused() -> None:
    made = ort_lite.InferenceSession(OWN, providers=[(Fusing(fails=True), {"on_run_error": "next"}), CpuStandIn()])
    np.testing.assert_allclose(made.run(None, {"x": X})[0], np.tanh(-np.abs(X)), rtol=1e-6)


def test_a_transform_is_wanted_by_its_name() -> None:
    provider = Wanting("fuse_matmul_bias", "fold_constants")
    session(model(MATRIX, "{ a = MatMul(x, w) c = Add(a, b) y = Relu(c) }", WEIGHTS), provider)
    assert [node.op_type for partition in provider.given for node in partition.nodes] == ["Gemm", "Relu"]


def test_what_is_wanted_twice_is_there_once() -> None:
    provider = Wanting("all", "fuse_matmul_bias", "all")
    session(model(MATRIX, "{ a = MatMul(x, w) y = Add(a, b) }", WEIGHTS), provider)
    assert [node.op_type for partition in provider.given for node in partition.nodes] == ["Gemm"]


def test_a_name_that_no_transform_has_is_refused() -> None:
    meant = "WantingExecutionProvider: fusions names 'fuse_matmul_bais', and no transform is called so; did you mean 'fuse_matmul_bias'"
    with pytest.raises(ProviderError, match=re.escape(meant)):
        session(model(MATRIX, MLP, WEIGHTS), Wanting("fuse_matmul_bais"))


@pytest.mark.parametrize("wanted", ["all", 7, [7]])
def test_what_is_no_list_of_transforms_is_refused(wanted: Any) -> None:
    provider = Fusing()
    provider.wanted = wanted
    with pytest.raises(ProviderError, match=r"FusingExecutionProvider: fusions (returned|failed)"):
        ort_lite.InferenceSession(OWN, providers=[provider, CpuStandIn()])


def test_two_of_one_name_are_refused() -> None:
    @rule(op("Exp"), level="basic", name="negated_magnitude")
    def other(rewriter: Rewriter) -> Skip:
        return Skip("no")

    with pytest.raises(InvalidArgument, match="two transforms are called 'negated_magnitude'"):
        ort_lite.InferenceSession(OWN, providers=[Fusing(negated_magnitude, other), CpuStandIn()])


def test_a_pass_may_not_change_what_enters_or_leaves() -> None:
    @graph_pass(level="basic")
    def renames(graph: Graph, rewriter: Rewriter) -> int:
        before, graph.outputs[0].name = graph.outputs[0].name, "mine"
        return before != "mine"

    with pytest.raises(
        Fail, match=r"renames left 'FusingExecutionProvider_0' an invalid graph: its outputs are mine; expected b"
    ):
        ort_lite.InferenceSession(OWN, providers=[Fusing(renames), CpuStandIn()])


# Bodies


BRANCHES = """{ c = Conv(x, k) r = Relu(c)
  y = If (flag) <then_branch = t () => (float[N,4,3,3] p) { d = Conv(r, k) p = Relu(d) },
                 else_branch = e () => (float[N,4,3,3] q) { q = Add(r, x) }> }"""
LOOP = """{ t = MatMul(x, w) r = Relu(t) u = Add(r, b)
  y = Loop (count, flag, x) <body = l (int64 i, bool go, float[N,4] s) => (bool on, float[N,4] z) {
      on = Identity(go) m = MatMul(s, w) n = Add(m, b) v = Mul(n, half) z = Add(v, r) }> }"""


@pytest.mark.parametrize("flag", [True, False])
def test_branches_are_fused_and_capture_what_was_fused(flag: bool) -> None:
    source = model("(float[N,4,3,3] x, bool flag) => (float[N,4,3,3] y)", BRANCHES, WEIGHTS)
    made = session(source)
    assert sorted(fused(made)) == ["FusedConv", "FusedConv", "If"]
    same(made, source, {**random_feeds(source.graph), "flag": np.array(flag)})


def test_loops_are_fused_and_capture_what_was_fused() -> None:
    source = model("(float[N,4] x, int64 count, bool flag) => (float[N,4] y)", LOOP, WEIGHTS[:-1] + ", float half = {0.125}>")
    made = session(source)
    assert "Gemm" in fused(made)
    same(
        made,
        source,
        {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "count": np.array(3), "flag": np.array(True)},
    )


def test_bodies_of_another_provider_are_left_to_it() -> None:
    """The CPU provider runs the If, whose body has a partition of its own on a provider that wants no fusions."""
    source = model("(float[N,4,3,3] x, bool flag) => (float[N,4,3,3] y)", BRANCHES, WEIGHTS)
    provider = Plain(takes=lambda node: node.name in ("Conv_1", "Relu_1"))
    made = session(source, provider)
    assert [[node.op_type for node in partition.nodes] for partition in provider.given] == [["Conv", "Relu"]]
    assert sorted(fused(made)) == ["FusedConv", "If"]
    for flag in (True, False):
        same(made, source, {**random_feeds(source.graph), "flag": np.array(flag)})


def test_bodies_are_linked_anew_where_a_partition_in_them_fails_to_compile() -> None:
    """The outer partition, fused and compiled already, must run the body as it is afterwards."""
    source = model("(float[N,4,3,3] x, bool flag) => (float[N,4,3,3] y)", BRANCHES, WEIGHTS)

    class Refusing(Plain):
        name = "RefusingExecutionProvider"

        def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
            raise OSError("full")

    provider = Refusing(takes=lambda node: node.name in ("Conv_1", "Relu_1"))
    made = session(source, provider)
    for flag in (True, False):
        same(made, source, {**random_feeds(source.graph), "flag": np.array(flag)})


# Constants that are given up


class Absorbing(Wanting):
    """Holds every constant in a form of its own."""

    name = "AbsorbingExecutionProvider"
    operators = ("Gemm", "Add")

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        self.given += partitions
        return [Absorbed(partition) for partition in partitions]


class Absorbed:
    def __init__(self, partition: Partition) -> None:
        self.absorbed = partition.constants
        self.own = {value: np.array(value.constant) for value in partition.constants}

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        w, b = self.own.values()
        return [inputs[0] @ w + b]


def test_constants_of_a_fused_copy_are_given_up_with_the_original() -> None:
    source = model(MATRIX, "{ a = Gemm(x, w, b) y = Add(a, b) }", WEIGHTS)
    provider = Absorbing("all")
    made = session(source, provider)
    [given] = provider.given
    [gemm] = given.nodes
    assert len(given.constants) == 2
    held = [value for value in made._stage_results.model.graph.initializers.values() if value.name in ("w", "b")]
    assert len(held) == 2 and all(not isinstance(value.constant, np.ndarray) for value in (*held, *given.constants))
    x = np.ones((2, 4), np.float32)
    same(made, source, {"x": x})
    assert gemm.op_type == "Gemm"


def test_numbers_in_16_bits_are_fused_before_the_only_provider_widens_them() -> None:
    """Between Casts there would be nothing to find."""
    signature = "(float16[N,4] x) => (float16[N,4] y)"
    body = "{ v = Cast<to=10>(w) c = Cast<to=10>(b) a = MatMul(x, v) y = Add(a, c) }"
    source = model(signature, body, WEIGHTS)
    assert [kind for kind in claimed(session(source)) if kind != "Cast"] == ["Gemm"]
    assert [kind for kind in claimed(session(source, Plain(lambda node: False))) if kind != "Cast"] == ["MatMul", "Add"]


class Refusing(Wanting):
    """Cannot compile what its fusions make: the call as a whole fails."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition | Exception]:
        if any(node.op_type == "Gemm" for partition in partitions for node in partition.nodes):
            raise ProviderError("no kernel for Gemm")
        return super().compile(partitions)


@pytest.mark.parametrize("partitions", [1, 2])
def test_nodes_of_a_fused_copy_that_cannot_be_compiled_go_to_the_next_provider(
    partitions: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The copy's nodes are nobody else's: dealt out once more, the partition would come back for ever."""
    body = "{ p = MatMul(x, w) y = Add(p, b) }"
    apart = "{ p = MatMul(x, w) q = Add(p, b) e = Exp(q) r = MatMul(e, w) y = Add(r, b) }"
    source = model(MATRIX, body if partitions == 1 else apart, WEIGHTS)
    made = session(source, Refusing("all"))
    assert len(caplog.messages) == partitions + 1
    assert "WantingExecutionProvider is assigned no node: " in caplog.messages[-1]
    assert all(re.search("no kernel for Gemm; MatMul '.*', Add '.*' go to the next provider", m) for m in caplog.messages[:-1])
    assert {place.provider for _, place in made.explain().assignment.rows()} == {CPU}
    same(made, source, {"x": np.ones((2, 4), np.float32)})
