"""Sequences and optionals, through models written in ONNX's text syntax."""

from typing import Any

import numpy as np
import onnx
import pytest

import ort_lite
from ort_lite.errors import InvalidGraph, RuntimeException
from ort_lite.graph import TensorType
from tests.cpu.check import ints, ramp, run_op


def session(text: str, opset: int = 18) -> ort_lite.InferenceSession:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> agraph {text}')
    return ort_lite.InferenceSession(model.SerializeToString())


def run(text: str, *fed: Any, opset: int = 18) -> list[Any]:
    made = session(text, opset)
    feeds = {value.name: value_fed for value, value_fed in zip(made.get_inputs(), fed, strict=True)}
    return made.run(None, feeds)


def same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(same, got, wanted))
    return (
        isinstance(got, np.ndarray) and got.dtype == wanted.dtype and got.shape == wanted.shape and np.array_equal(got, wanted)
    )


A, B, C = ramp((2, 3)), ramp((1, 3)) + 1, ramp((4, 3)) + 2


@pytest.mark.parametrize(("op", "at"), [("SequenceAt", 2), ("SequenceErase", -3), ("SequenceAt", -3)])
def test_a_position_out_of_range_is_named(op: str, at: int) -> None:
    result = "float[?,3] y" if op == "SequenceAt" else "seq(float[?,3]) y"
    with pytest.raises(RuntimeException, match=rf"{op} .*position {at} is out of range \[-2, 1\] of a sequence of 2"):
        run(f"(seq(float[?,3]) s, int64 at) => ({result}) {{ y = {op}(s, at) }}", [A, B], np.array(at))


def test_what_leaves_is_the_callers_own() -> None:
    text = """(float[2,3] a, seq(float[2,3]) s) => (seq(float[2,3]) less, seq(float[2,3]) t, float[2,3] one, seq(float[2,3]) same) {
        less = SequenceErase(s) t = SequenceInsert(s, a) zero = Constant<value_int: int = 0>() one = SequenceAt(s, zero)
        same = Identity(s)
    }"""
    made = session(text)
    fed = {"a": A.copy(), "s": [A + 1]}
    less, t, one, again = made.run(None, fed)
    for array in (*less, *t, one, *again):
        array[:] = 0
    assert same(made.run(None, fed), [[], [A + 1, A], A + 1, [A + 1]])


def test_a_constant_in_a_sequence_stays_as_it_is() -> None:
    text = """() => (seq(float[2]) s, float[2] x) <float[2] c = {1, 2}> { s = SequenceConstruct(c) i = Constant<value_int: int = 0>()
        x = SequenceAt(s, i) }"""
    made = session(text)
    first = made.run(None, {})
    first[0][0][:] = 9
    first[1][:] = 9
    assert made.run(None, {})[0][0].tolist() == [1, 2]


def test_the_rank_of_elements_may_turn_up_in_the_run() -> None:
    made = session("(seq(float[]) s) => (float[M,3] y) { x = ConcatFromSequence<axis: int = -2>(s) y = Relu(x) }")
    for given in ([A, B], [C], [C, A, A]):
        assert same(made.run(None, {"s": given}), [np.maximum(np.concatenate(given), 0)])
    for odd, ranks in (([A, A[0]], "2, 1"), ([], "none, as it is empty")):
        with pytest.raises(RuntimeException, match=f"ConcatFromSequence .*'s' should have one rank; theirs: {ranks}"):
            made.run(None, {"s": odd})


def test_lengths_should_add_up() -> None:
    with pytest.raises(RuntimeException, match=r"SplitToSequence .*the lengths \[1, 2\] do not add up to the 4 of axis 0"):
        run("(float[N,3] x, int64[2] split) => (seq(float[?,?]) s) { s = SplitToSequence(x, split) }", C, ints(1, 2))


def test_sequences_of_strings() -> None:
    text = """(string[N] x) => (seq(string[?]) s, string[M] y) { s = SplitToSequence<axis: int = 0>(x)
        y = ConcatFromSequence<axis: int = 0>(s) }"""
    x = np.array(["é", "b"], object)
    s, y = run(text, x)
    assert [element.tolist() for element in s] == [["é"], ["b"]]
    assert y.tolist() == x.tolist()
    assert {array.dtype for array in (*s, y)} == {np.dtype(object)}
    (pieces,) = run("(string[N] x) => (seq(string[]) s) { s = SplitToSequence<keepdims: int = 0>(x) }", x)
    assert [(piece.dtype, piece.shape) for piece in pieces] == [(np.dtype(object), ())] * 2


def test_a_sequence_goes_around_kernels_untouched() -> None:
    """The body has no Python step: the program of its one segment is handed a list all the same."""
    text = """(float[2] x, seq(float[2]) s) => (seq(float[2]) t, float[2] y) {
        n = Constant<value: tensor = int64 {1}>()
        go = Constant<value: tensor = bool {1}>()
        t, y = Loop(n, go, s, x) <body: graph = body(int64 i, bool c, seq(float[2]) a, float[2] b)
            => (bool c2, seq(float[2]) a2, float[2] b2) { c2 = Identity(c)  a2 = Identity(a)  b2 = Neg(b) }>
    }"""
    x = np.array([1, 2], np.float32)
    assert same(run(text, x, [x, -x]), [[x, -x], -x])


def test_an_empty_sequence_grows_in_a_loop() -> None:
    text = """(int64 n, float[2] x) => (seq(float[2]) s) {
        empty = SequenceEmpty<dtype: int = 1>()
        go = Constant<value: tensor = bool {1}>()
        s = Loop(n, go, empty) <body: graph = body(int64 i, bool c, seq(float[2]) t) => (bool c2, seq(float[2]) u) {
            c2 = Identity(c)
            f = Cast<to: int = 1>(i)
            y = Add(x, f)
            u = SequenceInsert(t, y)
        }>
    }"""
    x = np.array([1, 2], np.float32)
    assert same(run(text, np.array(3), x), [[x, x + 1, x + 2]])
    assert same(run(text, np.array(0), x), [[]])


def test_branches_may_return_sequences() -> None:
    text = """(bool c, seq(float[?,3]) s, float[N,3] x) => (seq(float[?,3]) t) {
        t = If(c) <
            then_branch: graph = a() => (seq(float[?,3]) u) { u = SequenceInsert(s, x) },
            else_branch: graph = b() => (seq(float[?,3]) v) { v = Identity(s) }
        >
    }"""
    made = session(text)
    assert same(made.run(None, {"c": np.array(True), "s": [A], "x": B}), [[A, B]])
    assert same(made.run(None, {"c": np.array(False), "s": [A], "x": B}), [[A]])


@pytest.mark.parametrize("held", [A, None, [A, B]], ids=["a tensor", "nothing", "a sequence"])
def test_an_optional_is_asked_before_it_is_opened(held: Any) -> None:
    inner = "seq(float[?,3])" if isinstance(held, list) else "float[?,3]"
    text = f"(optional({inner}) o) => (bool has) {{ has = OptionalHasElement(o) }}"
    assert same(run(text, held), [np.array(held is not None)])
    opened = session(f"(optional({inner}) o) => ({inner} x) {{ x = OptionalGetElement(o) }}")
    if held is None:
        with pytest.raises(RuntimeException, match=r"OptionalGetElement .*the optional is empty"):
            opened.run(None, {"o": None})
    else:
        assert same(opened.run(None, {"o": held}), [held])


def test_what_an_optional_held_is_the_callers_own() -> None:
    opened = session("(optional(float[2,3]) o) => (float[2,3] x) { x = OptionalGetElement(o) }")
    fed = A.copy()
    opened.run(None, {"o": fed})[0][:] = 0
    assert same(fed, A)


def test_elements_of_different_types_are_refused() -> None:
    with pytest.raises(InvalidGraph, match="SequenceConstruct-11 takes one type for both"):
        run_op("SequenceConstruct", [A, ints(1)])


def test_an_optional_of_a_type_alone_is_empty() -> None:
    assert run_op("Optional", [], {"type": TensorType("float32", (2,))}) == [None]
    assert run_op("OptionalHasElement", [])[0].tolist() is False


@pytest.mark.parametrize("taken", [True, False])
def test_a_value_that_a_branch_hands_on_is_the_callers_own(taken: bool) -> None:
    text = """(bool c, float[2] x) => (float[2] y) <float[2] k = {1, 2}> { y = If(c) <
        then_branch: graph = a() => (float[2] u) { u = Identity(x) }, else_branch: graph = b() => (float[2] v) { v = Identity(k) }
    > }"""
    made = session(text)
    fed = {"c": np.array(taken), "x": np.array([5, 6], np.float32)}
    made.run(None, fed)[0][:] = 0
    assert made.run(None, fed)[0].tolist() == ([5, 6] if taken else [1, 2])


def test_a_loop_without_trips_hands_its_state_on() -> None:
    text = """(int64 n, float[2] x) => (float[2] y) {
        go = Constant<value: tensor = bool {1}>()
        y = Loop(n, go, x) <body: graph = body(int64 i, bool c, float[2] s) => (bool d, float[2] t) {
            d = Identity(c)
            t = Relu(s)
        }>
    }"""
    made = session(text)
    fed = {"n": np.array(0), "x": np.array([5, 6], np.float32)}
    made.run(None, fed)[0][:] = 0
    assert fed["x"].tolist() == [5, 6]


def test_a_tensor_is_taken_for_an_optional_that_holds_it() -> None:
    made = session("(float[N] x) => (float[N] y) { y = OptionalGetElement(x) }")
    x = ramp((3,))
    assert np.array_equal(made.run(None, {"x": x})[0], x)
    assert made.explain().python_steps == 0


def test_optional_beside_a_value_of_unknown_rank() -> None:
    """An optional that has an element keeps its type where nodes are lowered when the model runs."""
    text = "(float[] x, optional(float[N]) o) => (float[M, N] y, optional(float[N]) p) { y = Transpose(x)  p = Identity(o) }"
    element = np.array([1, 2], np.float32)
    y, p = run(text, np.ones((2, 1), np.float32), element, opset=21)
    assert y.shape == (1, 2)
    np.testing.assert_array_equal(p, element)


def test_pieces_of_one_length_of_an_empty_axis_are_none() -> None:
    text = "(int64[2,N] x, int64 split) => (seq(int64[?,?]) s) { s = SplitToSequence<axis: int = 1>(x, split) }"
    assert run(text, np.zeros((2, 0), np.int64), np.array(2)) == [[]]
