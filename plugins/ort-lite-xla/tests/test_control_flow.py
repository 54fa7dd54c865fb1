"""If, whose branches become programs of their own, compared with the CPU provider."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.lower import lower
from ort_lite_xla.outline import outline

import ort_lite
from ort_lite.dtypes import Array
from tests.single_node import close, ramp

XLA, CPU = XLAExecutionProvider.name, "CPUExecutionProvider"
WEIGHT = ramp((4, 40))


def model(text: str, weights: Iterable[tuple[str, str, Array]] = ()) -> onnx.ModelProto:
    """Weights are (branch, name, array): initializers of one branch of the first If, or of the main graph."""
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> main {text}')
    branches = {"": made.graph}
    branches |= {at.g.name: at.g for node in made.graph.node if node.op_type == "If" for at in node.attribute}
    for branch, name, array in weights:
        branches[branch].initializer.append(numpy_helper.from_array(array, name))
    return made


def session(made: onnx.ModelProto, *providers: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_lite.InferenceSession(made, options, providers=list(providers))


def compare(
    made: onnx.ModelProto, feeds: Iterable[dict[str, Any]], providers: tuple[str, ...] = (XLA,)
) -> ort_lite.Explanation:
    """Both providers give the same for all feeds. Returns what the first one explains of its session."""
    ours, cpu = session(made, *providers), session(made, CPU)
    for given in feeds:
        for got, want in zip(ours.run(None, given), cpu.run(None, given), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            close(got, want)
    return ours.explain()


RANKS = """(float[N,M] x) => (float[] y) <int64[1] first = {0}, int64[1] one = {1}, float two = {2}> {
    s = Shape(x)  n = Gather(s, first)  c = Equal(n, one)  a = Neg(x)
    b = If (c) <then_branch = t () => (float[M] p) { p = Squeeze(a, first) },
                else_branch = e () => (float[N,M] q) { q = Mul(a, two) }>
    y = Exp(b) }"""


def test_a_condition_that_follows_from_shapes_chooses_the_branch_of_each_program() -> None:
    """Branches may differ in rank. Padding would change the condition, so there is none."""
    explained = compare(model(RANKS), [{"x": ramp((n, 5))} for n in (1, 5, 6, 1)])
    assert len(explained.assignment.partitions) == 1
    assert explained.facts[f"{XLA}_0"]["compilations"] == 3


def test_a_branch_that_adds_up_an_open_dimension_is_not_padded() -> None:
    text = """(float[N,4] x) => (float s) <int64[1] four = {4}> {
        n = Shape<start = 1>(x)  c = Equal(n, four)
        s = If (c) <then_branch = t () => (float p) { p = ReduceSum<keepdims = 0>(x) },
                    else_branch = e () => (float q) { q = ReduceMax<keepdims = 0>(x) }> }"""
    explained = compare(model(text), [{"x": ramp((n, 4)) + 1} for n in (5, 6)])
    assert explained.facts[f"{XLA}_0"]["compilations"] == 2


OPEN = """(float[N,4] x, float limit) => (float[N,K] y, float[N,L] z) <float zero = {0}> {
    c = Greater(limit, zero)  a = Neg(x)
    y, b = If (c) <then_branch = t () => (float[N,40] p, float[N,4] r) { p = MatMul(a, w)  r = Identity(x) },
                   else_branch = e () => (float[N,40] q, float[N,4] o) { u = MatMul(x, v)  q = Add(u, m)  o = Identity(a) }>
    z = Exp(b) }"""


def test_a_condition_that_depends_on_an_input_divides_partitions() -> None:
    """The branch that is not taken is not compiled. Weights of branches, or captured by them, are operands."""
    made = model(OPEN, [("t", "w", WEIGHT), ("", "v", 2 * WEIGHT), ("e", "m", ramp((40,)))])
    feeds = [{"x": ramp((n, 4)), "limit": np.float32(limit)} for n, limit in ((3, 1), (3, 2), (3, -1), (5, -1))]
    explained = compare(made, feeds)
    parts = {one.nodes[0].op_type: one.name for one in explained.assignment.partitions}
    assert set(parts) == {"Greater", "If", "Exp"}
    facts = explained.facts[parts["If"]]
    assert facts["compilations"] == 3
    assert facts["constant_bytes"] == 2 * WEIGHT.nbytes
    compare(made, feeds, (XLA, CPU))


def test_results_of_branches_may_be_constants_and_values_from_outside() -> None:
    text = """(bool c, float[N] x) => (float[K] y, int64[L] n) {
        y, n = If (c) <then_branch = t () => (float[N] x, int64[1] s) { s = Shape(x) },
                       else_branch = e () => (float[2] k, int64[1] l) {}> }"""
    made = model(text, [("e", "k", ramp((2,))), ("e", "l", np.array([7]))])
    compare(made, [{"c": np.array(c), "x": ramp((3,))} for c in (True, False)])


def test_branches_may_reshape_by_sizes_from_outside_and_contain_branches() -> None:
    text = """(bool[1] c, float[N,6] x, float[K,3] like) => (float[] y) <int64[1] first = {0}, int64 two = {2}> {
        s = Shape(like)
        y = If (c) <then_branch = t () => (float[] p) {
                      n = Gather(s, first)  d = Equal(n, two)
                      p = If (d) <then_branch = u () => (float[K,3] q) { q = Reshape(x, s) },
                                  else_branch = v () => (float[N,6] r) { r = Neg(x) }> },
                    else_branch = e () => (float[N,6] o) { o = Exp(x) }> }"""
    feeds = [{"c": np.array([c]), "x": ramp((1, 6)), "like": ramp((k, 3))} for c in (True, False) for k in (2, 3)]
    explained = compare(model(text), feeds)
    assert {place.provider for place in explained.assignment.placements.values()} == {XLA}


LOOP = """(int64 trips, float[N] x) => (float[N] y) <bool go = {1}, float half = {0.5}> {
    y = Loop (trips, go, x) <body = b (int64 i, bool before, float[N] state) => (bool after, float[N] next) {
        after = Identity(before)  sum = ReduceSum<keepdims = 0>(state)  c = Greater(sum, half)
        next = If (c) <then_branch = t () => (float[N] p) { p = Mul(state, half) },
                       else_branch = e () => (float[N] q) { q = Add(state, half) }> }> }"""


def test_an_if_in_a_loop_on_the_cpu() -> None:
    feeds = [{"trips": np.array(n), "x": ramp((3,))} for n in (0, 1, 5)]
    explained = compare(model(LOOP), feeds, (XLA, CPU))
    left = {place.node.op_type for place in explained.assignment.placements.values() if place.provider == CPU}
    assert left == {"Loop"}


@pytest.mark.parametrize(
    ("branch", "reason"),
    [
        ("{ n = NonZero(x)  p = Cast<to = 1>(n) }", "shape: NonZero 'NonZero_0' in its body: the size of NonZero's result"),
        (
            """{ d = Greater(x, x)  f = ReduceMax<keepdims = 0>(x)  h = Cast<to = 9>(f)
                 p = If (h) <then_branch = u () => (float[] q) { q = Neg(x) },
                             else_branch = v () => (float[] r) { r = Exp(x) }> }""",
            "in its body: the contents of 'h' must follow from constants and shapes; they depend on",
        ),
    ],
)
def test_a_branch_that_is_not_supported(branch: str, reason: str) -> None:
    text = f"""(bool c, float[N] x) => (float[] y) {{
        y = If (c) <then_branch = t () => (float[] p) {branch}, else_branch = e () => (float[] o) {{ o = Abs(x) }}> }}"""
    made = model(text)
    explained = compare(made, [{"c": np.array(c), "x": ramp((3,))} for c in (True, False)], (XLA, CPU))
    (outer,) = [place for place in explained.assignment.placements.values() if place.node.output.name == "y"]
    assert outer.provider == CPU
    assert reason in str(outer.reasons[0])


def test_programs_of_other_branches_have_other_outlines() -> None:
    def outlined(text: str, weight: Array, number: Array) -> bytes:
        made = model(text, [("t", "w", weight), ("", "v", WEIGHT), ("e", "m", number)])
        parts = ort_lite.plan(made, [XLA]).assignment.partitions
        (one,) = [part for part in parts if part.nodes[0].op_type == "If"]
        return outline(one, frozenset(value for value in one.constants if value.name == "v"))

    number = ramp((40,))
    same = outlined(OPEN, WEIGHT, number)
    assert outlined(OPEN, WEIGHT, number) == same
    others = [
        outlined(OPEN, 2 * WEIGHT, number),
        outlined(OPEN, WEIGHT, 2 * number),
        outlined(OPEN.replace("q = Add(u, m)", "q = Sub(u, m)"), WEIGHT, number),
        outlined(OPEN.replace("o = Identity(a)", "o = Identity(x)"), WEIGHT, number),
    ]
    assert len({same, *others}) == 5


def test_a_branch_is_lowered_for_a_gpu() -> None:
    made = model(OPEN, [("t", "w", WEIGHT), ("", "v", WEIGHT), ("e", "m", ramp((40,)))])
    (one,) = [part for part in ort_lite.plan(made, [XLA]).assignment.partitions if part.nodes[0].op_type == "If"]
    (condition,) = [value for value in one.inputs if value.dtype == "bool"]
    for taken, adds in ((True, False), (False, True)):
        assert ("stablehlo.add" in lower(one, {"N": 3}, {condition: np.array(taken)}, "cuda")) is adds


def test_verification_runs_the_branch_on_the_cpu_too() -> None:
    made = model(OPEN, [("t", "w", WEIGHT), ("", "v", WEIGHT), ("e", "m", ramp((40,)))])
    for limit in (1, -1):
        session(made, XLA, CPU).run(None, {"x": ramp((3, 4)), "limit": np.float32(limit)}, verify="partition")
