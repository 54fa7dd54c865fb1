"""If, Loop and Scan in whole models, against onnx.reference or values that can be read.

Long, and one file: the three share their bodies, and most cases hold for two of them.
"""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RunTerminated, RuntimeException
from ort_lite.tools.machine import Machine
from ort_lite_cpu.program.program import Program
from tests.cpu.check import assert_close, ramp
from tests.threads import join


def model(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> main {text}')


def session(text: str, opset: int = 21, level: str = "ORT_ENABLE_ALL") -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel[level]
    return ort_lite.InferenceSession(model(text, opset).SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(text: str, opset: int | Any = 21, **feeds: Array) -> list[Any]:
    made = session(text, opset)
    first, second = made.run(None, feeds), made.run(None, feeds)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return first


def native(text: str, **feeds: Array) -> list[Any]:
    """What one native call gives: the bits that called bodies give."""
    made = session(text)
    [program] = [step.function for step in made._stage_results.compiled.executable.steps]
    assert isinstance(program, Program)
    assert program.facts()["control_flow_steps"] == 0
    got = made.run(None, feeds)
    want = program._with_calls()([feeds[value.name] for value in program.source.inputs])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b.reshape(a.shape))  # without a turn a call does not know the shape of a row
    return got


def check(text: str, **feeds: Array) -> None:
    for got, want in zip(run(text, **feeds), ReferenceEvaluator(model(text)).run(None, feeds), strict=True):
        assert_close(got, np.asarray(want), 1e-5, 1e-6, text)


# --- If


@pytest.mark.parametrize("dims", ["", "[1]", "[1, 1]", "[N, M]"])
@pytest.mark.parametrize("holds", [True, False])
def test_a_condition_is_one_element_of_any_rank(dims: str, holds: bool) -> None:
    branches = "then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Exp(x) }"
    x, condition = ramp((2,)), np.full((1,) * (dims.count(",") + bool(dims)), holds)
    [y] = run(f"(bool{dims} c, float[2] x) => (float[2] y) {{ y = If(c) <{branches}> }}", c=condition, x=x)
    assert_close(y, -x if holds else np.exp(x), 1e-6, 1e-6, dims)
    if "N" not in dims:
        fixed = f"(float[2] x) => (float[2] y) <bool{dims} c = {{{int(holds)}}}> {{ y = If(c) <{branches}> }}"
        assert_close(run(fixed, x=x)[0], -x if holds else np.exp(x), 1e-6, 1e-6, dims)
    else:
        with pytest.raises(RuntimeException, match="has 2 elements; it should be one element"):
            run(f"(bool{dims} c, float[2] x) => (float[2] y) {{ y = If(c) <{branches}> }}", c=np.ones((2, 1), bool), x=x)


def test_branches_may_differ_in_rank() -> None:
    text = """(bool c, float[N] x) => (float[] z) {
        y = If (c) <then_branch = g () => (float[1,N] a) { zero = Constant<value_ints=[0]>() a = Unsqueeze(x, zero) },
                    else_branch = h () => (float[N] b) { b = Neg(x) }>
        s = Exp(y)
        z = ReduceSum<keepdims=0>(s)
    }"""
    for condition in (True, False):
        check(text, c=np.array(condition), x=ramp((4,)))


def test_a_branch_sees_a_constant_in_the_shape_that_the_run_tells() -> None:
    text = """(bool c, int64[2] shape) => (int64[] y, float[] z) {
        k = Constant<value_floats=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>()
        r = Reshape(k, shape)
        y, z = If (c) <then_branch = g () => (int64[2] a, float[] b) {
                            s = SplitToSequence<axis=1>(r) zero = Constant<value_int=0>()
                            b = SequenceAt(s, zero) a = Shape(b) },
                       else_branch = h () => (int64[2] d, float[] e) { d = Identity(shape) e = Identity(r) }>
    }"""
    whole = np.arange(1, 7, dtype=np.float32)
    for condition, sizes in ((True, (2, 3)), (True, (3, 2)), (False, (3, 2)), (False, (2, 3))):
        want = whole.reshape(sizes)[:, :1] if condition else whole.reshape(sizes)
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
            shape, got = session(text, level=level).run(None, {"c": np.array(condition), "shape": np.array(sizes)})
            np.testing.assert_array_equal(got, want)
            assert tuple(shape) == want.shape


def facts(text: str) -> dict[str, Any]:
    explained = session(text).explain()
    return {p.nodes[0].op_type: explained.facts[p.name] for p in explained.assignment.partitions if p.nested}


def test_bodies_that_are_part_of_the_program_around_them_are_not_lowered_for_themselves() -> None:
    branches = (
        """y = If (c) <then_branch = g () => (float[N] a) {{ a = {0}(x) }}, else_branch = h () => ({1} b) {{ b = {2} }}>"""
    )
    same = branches.format("Exp", "float[N]", "Neg(x)")
    assert facts("(bool c, float[N] x) => (float[N] y) { " + same + " }") == {"Exp": {"inlined": 1}, "Neg": {"inlined": 1}}
    other = branches.format("Exp", "float[N, 1]", "Unsqueeze(x, one)")
    called = facts("(bool c, float[N] x) => (float[] y) <int64[1] one = {1}> { " + other + " }")
    assert [found["instructions"] for found in called.values()] == [1, 1]


def test_a_body_that_cannot_be_lowered_is_told_when_the_session_is_made() -> None:
    text = """(bool c, string[N] x) => (bool[N] y) {
        y = If (c) <then_branch = g () => (bool[N] a) { a = RegexFullMatch<pattern = "(">(x) },
                    else_branch = h () => (bool[N] b) { b = RegexFullMatch<pattern = "a">(x) }>
    }"""
    with pytest.raises(ort_lite.errors.CompileError, match=r"could not compile CPU.*_\d: NotImplemented: RegexFullMatch"):
        session(text)


# --- Loop

SUMS = """(int64 n, float[K] x) => (float[K] last, float[T, K] all) {
    yes = Constant<value = bool {1}>()
    last, all = Loop (n, yes, x) <body = b (int64 i, bool go, float[K] s) => (bool more, float[K] t, float[K] row) {
        more = Identity(go)
        f = Cast<to=1>(i)
        t = Add(s, f)
        row = Mul(t, x)
    }>
}"""


def test_a_carried_value_may_grow() -> None:
    text = """(int64 n, float[K] x) => (float[L] y) {
        yes = Constant<value = bool {1}>()
        y = Loop (n, yes, x) <body = b (int64 i, bool go, float[J] s) => (bool more, float[I] t) {
            more = Identity(go)
            t = Concat<axis=0>(s, x)
        }>
    }"""
    [y] = run(text, n=np.array(3), x=ramp((2,)))
    np.testing.assert_array_equal(y, np.tile(ramp((2,)), 4))


def test_an_error_inside_names_the_inner_node() -> None:
    text = """(int64 n, float[K] x) => (float y) {
        yes = Constant<value = bool {1}>()
        zero = Constant<value_float=0.0>()
        y = Loop (n, yes, zero) <body = b (int64 i, bool go, float s) => (bool more, float t) {
            more = Identity(go)
            [pick] e = Gather(x, i)
            t = Add(s, e)
        }>
    }"""
    assert run(text, n=np.array(2), x=ramp((2,)))[0].shape == ()
    with pytest.raises(RuntimeException, match=r"Gather 'pick' .* out of range"):
        run(text, n=np.array(3), x=ramp((2,)))


# --- Scan


def test_a_state_may_become_a_constant_of_the_body() -> None:
    """The constants of numbers are those of the states' slots."""
    scan = """(float[2] x, float[3] r) => (float[2] y, float[3] z) { y, z = Scan <num_scan_inputs = 1,
        body = b (float[2] s, float q) => (float[2] c, float w) <float[2] c = {3, 4}> { w = Neg(q) }> (x, r) }"""
    rows, seven = ramp((3,)), np.array(7, np.float32)
    y, z = run(scan, x=ramp((2,)), r=rows)
    assert y.tolist() == [3, 4] and z.tolist() == (-rows).tolist()
    y, z = run(scan.replace("[2] c = {3, 4}", " c = {0}").replace("float[2]", "float"), x=seven, r=rows)
    assert y == 0 and z.tolist() == (-rows).tolist()
    loop = """(float x) => (float y, float[3] z) { n = Constant<value_int=3>() t = Constant<value_int=1>() g = Cast<to=9>(t)
        y, z = Loop <body = b (int64 i, bool g0, float s) => (bool g1, float c, float w) <float c = {2}>
            { g1 = Identity(g0) w = Neg(s) }> (n, g, x) }"""
    y, z = run(loop, x=seven)
    assert y == 2 and z.tolist() == [-7, -2, -2]


def scanned(start: Array, xs: Array) -> tuple[Array, Array]:
    sums = start + np.cumsum(xs, 0, dtype=np.float32)
    return (sums[-1] if len(xs) else start), sums * xs


def test_slices_of_a_vector_are_scalars() -> None:
    text = """(float start, float[T] xs) => (float last, float[T] ys) {
        last, ys = Scan (start, xs) <num_scan_inputs = 1, body = b (float s, float x) => (float t, float y) {
            t = Add(s, x)
            y = Identity(t)
        }>
    }"""
    last, ys = run(text, start=np.array(1, np.float32), xs=np.array([1, 2, 3], np.float32))
    assert last.shape == ()
    assert ys.tolist() == [2, 4, 7]


def test_a_state_that_was_folded_to_zeros_has_all_its_elements() -> None:
    text = """(float[T,3] xs) => (float[3] last, float[T,3] ys) {
        size = Constant<value_ints=[3]>()
        zeros = ConstantOfShape(size)
        last, ys = Scan (zeros, xs) <num_scan_inputs = 1, body = b (float[3] s, float[3] x) => (float[3] t, float[3] y) {
            t = Add(s, x)
            y = Identity(s)
        }>
    }"""
    last, ys = run(text, xs=np.arange(6, dtype=np.float32).reshape(2, 3))
    assert last.tolist() == [3, 5, 7]
    assert ys.tolist() == [[0, 0, 0], [0, 1, 2]]


# Scan-8: a batch in front, lengths before it
BATCHED = """(int64[B] n, float[B,3] start, float[B,T,3] xs) => (float[B,3] last, float[B,T,3] ys) {{
    last, ys = Scan ({n}, start, xs) <num_scan_inputs = 1 {attributes}, body = b (float[3] s, float[3] x) => (float[3] t, float[3] y) {{
        t = Add(s, x)
        y = Mul(t, x)
    }}>
}}"""


def scanned_batch(start: Array, xs: Array, lengths: Array, back: bool) -> tuple[Array, Array]:
    rows = [scanned(s, x[:n][::-1] if back else x[:n]) for s, x, n in zip(start, xs, lengths, strict=True)]
    padded = [np.pad(y, ((0, len(xs[0]) - len(y)), (0, 0))) for _, y in rows]
    return np.stack([last for last, _ in rows]), np.stack(padded)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("lengths", [[4, 4], [4, 1], [0, 3], None], ids=str)
def test_before_opset_9_sequences_of_a_batch_have_their_lengths(lengths: list[int] | None, back: bool) -> None:
    start, xs, n = ramp((2, 3)), ramp((2, 4, 3)), np.array(lengths or [4, 4])
    text = BATCHED.format(n="n" if lengths else "", attributes=", directions = [1]" if back else "")
    last, ys = run(text, 8, n=n, start=start, xs=xs)
    want_last, want = scanned_batch(start, xs, n, back)
    np.testing.assert_allclose(last, want_last, rtol=1e-5)
    np.testing.assert_allclose(ys, want, rtol=1e-5)


def test_before_opset_9_there_may_be_no_sequence_and_no_step() -> None:
    text = BATCHED.format(n="n", attributes="")
    for batch, steps in ((0, 4), (2, 0)):
        n, start, xs = np.zeros(batch, np.int64), ramp((batch, 3)), ramp((batch, steps, 3))
        last, ys = run(text, 8, n=n, start=start, xs=xs)
        np.testing.assert_array_equal(last, start)
        assert ys.shape == (batch, steps, 3)


@pytest.mark.parametrize("lengths", [[5, 1], [-1, 1]], ids=str)
def test_a_sequence_is_not_longer_than_its_tensor(lengths: list[int]) -> None:
    feeds = {"n": np.array(lengths), "start": ramp((2, 3)), "xs": ramp((2, 4, 3))}
    with pytest.raises(RuntimeException, match=r"Scan .*sequence_lens is .*; 2 numbers from 0 to 4 are expected"):
        run(BATCHED.format(n="n", attributes=""), 8, **feeds)


# --- What a body gives is what was expected


def test_no_trip_leaves_the_dimensions_that_are_known() -> None:
    """Declared alike and fed otherwise: a program for just these shapes knows the length of a row."""
    text = """(int64 n, float[K] x, float[K] w) => (float[T,K] all, float[T] y) {
        yes = Constant<value = bool {1}>()
        all = Loop (n, yes) <body = b (int64 i, bool go) => (bool more, float[K] row) { more = Identity(go) row = Exp(x) }>
        y = MatMul(all, x)
    }"""
    for trips in (0, 2):
        all_, y = run(text, n=np.array(trips), x=ramp((3,)), w=ramp((5,)))
        assert (len(all_), y.shape) == (trips, (trips,))


def test_padding_of_rows_without_a_turn_is_as_long_as_a_row() -> None:
    """The length of a row is that of an outer tensor."""
    text = """(int64[B] n, float[B,T,3] xs, float[K] w) => (float[B,T,K] ys) {
        rows = Scan (n, xs) <num_scan_inputs = 1, body = b (float[3] x) => (float[K] y) {
            s = ReduceSum<keepdims = 0>(x)
            y = Mul(s, w)
        }>
        ys = Exp(rows)
    }"""
    feeds = {"xs": ramp((2, 4, 3)), "w": ramp((5,))}
    assert run(text, 8, n=np.array([1, 0]), **feeds)[0].shape == (2, 4, 5)
    np.testing.assert_array_equal(run(text, 8, n=np.array([0, 0]), **feeds)[0], np.ones((2, 4, 5)))


ROWLESS = {
    "Loop": "(float[2,3] x, int64 n, bool c, float[2] a) => (float[] y) {{ {before} "
    'y = Loop(n, "") <body = b (int64 i, bool k) => (bool l, float[] o) {{ l = Identity(k) o = {row} }}> }}',
    "Scan": "(float[2,3] x, float[0,2] n, bool c, float[2] a) => (float[] y) {{ {before} "
    "y = Scan(n) <num_scan_inputs = 1, body = b (float[2] e) => (float[] o) {{ o = {row} }}> }}",
}
CAPTURES = {
    "a branch that optimization takes": (
        "z = Constant<value = float {0}>() d = Cast<to = 9>(z) f = If(d) <then_branch = t () => (float[] p) { p = Neg(x) }, "
        "else_branch = e () => (float[] q) { u = Constant<value = int64[1] {0}>() q = Unsqueeze(x, u) }>",
        "Relu(f)",
    ),
    "a branch that the run takes": (
        "f = If(c) <then_branch = t () => (float[] p) { p = Neg(x) }, "
        "else_branch = e () => (float[] q) { u = Constant<value = int64[1] {0}>() q = Unsqueeze(x, u) }>",
        "Relu(f)",
    ),
    "sizes that a feed holds": (
        "w = Constant<value = float[1] {1}>() t = Concat<axis = 0>(w, a) s = Cast<to = 7>(t)",
        "Reshape(x, s)",
    ),
    "an element of a sequence": (
        "w = Constant<value = int64[3] {1,2,3}>() p = Reshape(x, w) s = SequenceConstruct(p, p) z = Constant<value = int64 {0}>()",
        "SequenceAt(s, z)",
    ),
}


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", ROWLESS)
def test_rows_without_a_turn_have_the_shape_that_the_arrays_of_the_run_tell(kind: str, capture: str, level: str) -> None:
    before, row = CAPTURES[capture]
    made = session(ROWLESS[kind].format(before=before, row=row), level=level)
    feeds = {"x": ramp((2, 3)), "n": np.array(0), "c": np.array(False), "a": np.array([2, 3], np.float32)}
    feeds["n"] = np.zeros((0, 2), np.float32) if kind == "Scan" else np.array(0)
    for _ in range(2):
        assert made.run(None, feeds)[0].shape == (0, 1, 2, 3)


def test_optionals_of_a_body_without_a_turn_stay_optionals() -> None:
    """A branch of the body declares them so, whether they hold something in this run or not."""
    text = """(int64 n, int64[M] m, optional(float[A,B]) x, optional(float[A,B]) z, float[K] w) => (optional(float[A,B]) s, float[] y) {
        s, y = Loop(n, "", z) <body = b (int64 i, bool k, optional(float[A,B]) r) => (bool l, optional(float[A,B]) t, float[] o) {
            l = Identity(k)
            t = Identity(r)
            u = If(k) <then_branch = p () => (optional(float[A,B]) p) { p = Identity(x) },
                       else_branch = q () => (optional(float[A,B]) q) { q = Identity(r) }>
            v = OptionalGetElement(u)
            e = Reshape(v, m)
            o = MatMul(e, w)
        }>
    }"""
    feeds = {"n": np.array(0), "m": np.array([2, 3]), "w": ramp((3,)), "x": ramp((3, 2)), "z": ramp((3, 2))}
    s, y = session(text, level="ORT_DISABLE_ALL").run(None, feeds)  # Identity has to stay
    assert (s.shape, y.shape) == ((3, 2), (0, 2))


def test_rows_of_unknown_rank_without_a_turn_have_an_axis_of_their_own() -> None:
    """The rank of a row is unknown if an iteration would read it from an empty sequence."""
    text = """(float[0,2] n) => (float[] y) {
        s = SequenceEmpty()
        y = Scan(n) <num_scan_inputs = 1, scan_output_axes = [1], body = b (float[2] e) => (float[] o) {
            z = Constant<value = int64 {0}>()
            o = SequenceAt(s, z)
        }>
    }"""
    assert run(text, n=np.zeros((0, 2), np.float32))[0].shape == (0,)


def test_a_trip_count_below_zero_is_no_trip_and_none_at_all_an_error() -> None:
    text = """(int64[C] n, float[K] x) => (float[K] y) {
        y = Loop (n, , x) <body = b (int64 i, bool go, float[K] s) => (bool more, float[K] t) { more = Identity(go) t = Add(s, s) }>
    }"""
    np.testing.assert_array_equal(run(text, n=np.array([-5]), x=ramp((3,)))[0], ramp((3,)))
    with pytest.raises(RuntimeException, match=r"M, .*has 0 elements"):
        run(text, n=np.array([], np.int64), x=ramp((3,)))


# --- Bodies inside of the program

EITHER = """(bool c, float[N] x, float[M] z) => (float y) {
    y = If (c) <then_branch = g () => (float a) { [dot] a = MatMul(x, z) },
                else_branch = h () => (float b) { b = ReduceMax<keepdims = 0>(x) }>
}"""


def test_what_a_branch_requires_is_asked_when_its_turn_comes() -> None:
    x = ramp((3,))
    np.testing.assert_allclose(native(EITHER, c=np.array(True), x=x, z=x)[0], x @ x, rtol=1e-6)
    assert native(EITHER, c=np.array(False), x=x, z=ramp((2,)))[0] == x.max()
    with pytest.raises(InvalidArgument, match=r"MatMul 'dot'"):
        run(EITHER, c=np.array(True), x=x, z=ramp((2,)))


SQUEEZED = """(bool c, float[N,K] x) => (float[L] y) {
    two = Constant<value_float = 2.0>()  one = Constant<value_int = 1>()
    y = If (c) <
        then_branch = g () => (float[L] a) {
            k = Shape<start = 1>(x)  few = Equal(k, one)
            a = If (few) <then_branch = p () => (float[L] d) { axis = Constant<value_ints = [1]>()  d = Squeeze(x, axis) },
                          else_branch = q () => (float[N,K] e) { e = Mul(x, two) }>
        },
        else_branch = h () => (float[N] b) { axis = Constant<value_ints = [1]>()  b = ReduceSum<keepdims = 0>(x, axis) }>
}"""


def test_a_program_for_the_likely_branch_gives_way_to_another() -> None:
    """Shapes say what an inner condition is: for those of the other case the bodies are called, in the branch that runs alone."""
    x, wide = ramp((4, 1)), ramp((2, 3))
    assert native(SQUEEZED, c=np.array(True), x=x)[0].shape == (4,)
    assert native(SQUEEZED, c=np.array(False), x=x)[0].shape == (4,)
    assert native(SQUEEZED, c=np.array(True), x=wide)[0].shape == (2, 3)
    assert native(SQUEEZED, c=np.array(False), x=wide)[0].shape == (2,)


def test_states_that_change_places_are_not_mixed_up() -> None:
    text = """(int64 n, float[K] x, float[K] w) => (float[K] a, float[K] b, float[K] c) {
        a, b, c = Loop (n, , x, w, w) <body = body (int64 i, bool go, float[K] p, float[K] q, float[K] r)
            => (bool more, float[K] q1, float[K] p1, float[K] t) {
            more = Identity(go)  q1 = Identity(q)  p1 = Identity(p)  t = Add(r, p)
        }>
    }"""
    a, b, c = native(text, n=np.array(3), x=ramp((2,)), w=10 + ramp((2,)))
    np.testing.assert_array_equal(a, 10 + ramp((2,)))
    np.testing.assert_array_equal(b, ramp((2,)))
    np.testing.assert_allclose(c, 2 * (10 + ramp((2,))) + 2 * ramp((2,)), rtol=1e-6)


def test_a_cache_to_which_a_body_appends_is_not_copied() -> None:
    """The scratch of a run has room for one cache, and each turn writes its row."""
    room, size = 4096, 128
    made = session(
        f"""(int64 n, float[1,{room},{size}] past, float[1,1,{size}] x) => (float[1,{room},{size}] present) {{
            y = Loop(n, , past) <body = b (int64 i, bool go, float[1,{room},{size}] c) => (bool on, float[1,{room},{size}] d) {{
                on = Identity(go)
                axis = Constant<value_ints = [0]>()
                at = Unsqueeze(i, axis)
                number = Cast<to = 1>(at)
                row = Add(x, number)
                d = TensorScatter<axis = 1>(c, row, at)
            }}>
            present = Identity(y)
        }}""",
        24,
    )
    past, x = ramp((1, room, size)), ramp((1, 1, size))
    [present] = made.run(None, {"n": np.array(1000), "past": past, "x": x})
    assert_close(present[0, :1000], x[0] + np.arange(1000, dtype=np.float32)[:, None], 1e-6, 1e-6, "rows")
    np.testing.assert_array_equal(present[0, 1000:], past[0, 1000:])
    assert made.memory()["scratch"]["peak"] < 2 * past.nbytes


@pytest.mark.parametrize(
    "step", ["Add(x, s)", "Add(s, s)", "MatMul(s, s)", "Sum(s, x, s)", "Softmax(s)", "Concat<axis = 0>(low, high)"]
)
def test_a_state_that_is_overwritten_was_read_before(step: str) -> None:
    parts = "low = Slice(s, one, two) high = Slice(s, zero, one)" if "low" in step else ""
    constants = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, bool true = {1}"
    text = f"""(int64 n, float[2,2] x) => (float[2,2] y) <{constants}> {{
        y = Loop(n, true, x) <body = b (int64 i, bool go, float[2,2] s) => (bool on, float[2,2] t) {{
            on = Identity(go) {parts} t = {step}
        }}>
    }}"""
    check(text, n=np.array(3), x=ramp((2, 2)) / 4)
    native(text, n=np.array(3), x=ramp((2, 2)) / 4)


def test_loops_and_branches_nest_in_one_program() -> None:
    text = """(int64 n, float[T,K] xs, float[K] w) => (float[K] last, float[T,K] ys) {
        last, ys = Scan (w, xs) <num_scan_inputs = 1, body = b (float[K] s, float[K] x) => (float[K] t, float[K] y) {
            u = Loop (n, , s) <body = inner (int64 j, bool on, float[K] v) => (bool again, float[K] v1) {
                again = Identity(on)  v1 = Add(v, x)
            }>
            zero = Constant<value_float = 0.0>()
            top = ReduceMax<keepdims = 0>(u)
            high = Greater(top, zero)
            t = If (high) <then_branch = g () => (float[K] c) { c = Sub(u, w) }, else_branch = h () => (float[K] d) { d = Add(u, w) }>
            y = Mul(t, x)
        }>
    }"""
    xs, w = ramp((5, 3)) - 4, ramp((3,))
    last, ys = native(text, n=np.array(3), xs=xs, w=w)
    state = w
    for x, y in zip(xs, ys, strict=True):
        u = state + 3 * x
        state = u - w if u.max() > 0 else u + w
        np.testing.assert_allclose(y, state * x, rtol=1e-4)
    np.testing.assert_allclose(last, state, rtol=1e-4)


def test_loops_that_the_condition_ends_and_trips_from_an_input_are_native() -> None:
    doubled = """(float[1] x, float limit) => (float[1] last) {
        yes = Constant<value = bool {1}>()
        last = Loop ("", yes, x) <body = b (int64 i, bool go, float[1] s) => (bool more, float[1] t) {
            t = Add(s, s)  less = Less(t, limit)  more = Squeeze(less)
        }>
    }"""
    assert native(doubled, x=np.array([3], np.float32), limit=np.array(100, np.float32))[0].tolist() == [192]
    for trips in (0, 1, 5):
        assert native(SUMS, n=np.array(trips), x=ramp((3,)))[1].shape == (trips, 3)


def test_terminate_ends_a_native_loop() -> None:
    text = """(float[K] x) => (float[K] y) {
        yes = Constant<value = bool {1}>()
        y = Loop ("", yes, x) <body = b (int64 i, bool go, float[K] s) => (bool more, float[K] t) {
            more = Identity(go)  [turn] t = Add(s, x)
        }>
    }"""
    made, options = session(text), ort_lite.RunOptions()
    timer = threading.Timer(0.1, lambda: setattr(options, "terminate", True))
    timer.start()
    with pytest.raises(RunTerminated):
        made.run(None, {"x": ramp((3,))}, options)
    join(timer)


def test_a_profile_has_each_turn(tmp_path: Path) -> None:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    made = ort_lite.InferenceSession(model(SUMS).SerializeToString(), options, providers=["CPUExecutionProvider"])
    made.run(None, {"n": np.array(4), "x": ramp((3,))})
    events = json.loads(Path(made.end_profiling()).read_text())
    assert sum("give" in str(event["args"].get("kernel")) for event in events) == 4, [e["args"] for e in events]


def test_a_machine_takes_a_loop_as_one_instruction() -> None:
    made, feeds = session(SUMS), {"n": np.array(4), "x": ramp((3,))}
    machine = Machine(made, feeds)
    looping = [each for each in machine.instructions if each.node.op_type == "Loop" and len(each.operands) > 3]
    for got, want in zip(machine.run(), made.run(None, feeds), strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(looping) == 1


@pytest.mark.parametrize("opset", [8, 21])
def test_scan_keeps_texts_whole(opset: int) -> None:
    """A text of a vector of strings is a str for NumPy, not an array."""
    types = (
        ("string[1] s, string[1,3] x", "string[1] t, string[1,3] y")
        if opset == 8
        else ("string s, string[3] x", "string t, string[3] y")
    )
    text = f"""<ir_version: 10, opset_import: ["": {opset}]> main ({types[0]}) => ({types[1]}) {{
        t, y = Scan<num_scan_inputs=1, body = body (string a, string b) => (string c, string d) {{
            c = Identity(b) d = Identity(a) }}>({'"", ' if opset == 8 else ""}s, x) }}"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text))
    x, s = np.array(["a", "zzz", "qq"], object), np.array("the first", object)
    last, rows = session.run(None, {"x": x[None], "s": s[None]} if opset == 8 else {"x": x, "s": s})
    assert last.reshape(-1).tolist() == ["qq"]
    assert rows.reshape(-1).tolist() == ["the first", "a", "zzz"]


def test_scan_over_an_input_of_unknown_rank_knows_the_types_in_its_body() -> None:
    """Providers claim the nodes of a body by their types."""
    text = """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]> main (float[] x) => (string[] y) <int64[1] k = {2}> {
        y = Scan<num_scan_inputs=1, scan_output_axes=[0], body = body (float[N] row) => (string[1] label) {
            t = ai.onnx.ml.CategoryMapper<cats_int64s=[1, 2], cats_strings=["a", "b"]>(k)
            label = Identity(t) }>(x) }"""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    (y,) = ort_lite.InferenceSession(onnx.parser.parse_model(text), options).run(None, {"x": np.ones((3, 2), np.float32)})
    assert y.tolist() == [["b"]] * 3


def test_scan_of_opset_8_over_an_input_of_unknown_rank_knows_the_types_in_its_body() -> None:
    """A node of float16 is widened together with the nodes that read it."""
    text = """<ir_version: 10, opset_import: ["": 8]> main (float16[] x, float16[] k) => (float16[] y) <float16[2] s = {1, 2}> {
        y = Scan<num_scan_inputs=1, body = body (float16[2] row) => (float16[2] out) {
            a = Abs(k)
            n = InstanceNormalization(a, s, s)
            out = Identity(row) }>("", x) }"""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    x = np.arange(6, dtype=np.float16).reshape(1, 3, 2)
    feeds = {"x": x, "k": np.ones((1, 2, 3), np.float16)}
    np.testing.assert_array_equal(ort_lite.InferenceSession(onnx.parser.parse_model(text), options).run(None, feeds)[0], x)
