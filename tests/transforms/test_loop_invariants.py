import numpy as np
import pytest

from ort_lite_transforms.loop_invariants import hoist_loop_invariants
from tests.text_graphs import check

SIGNATURE = "(float[4,2] x, int64 n, float[4,3] s) => (float[4,3] y)"
WEIGHT = "<float[2,3] w = {1, 2, 3, 4, 5, 6}>"
FEEDS = {"x": np.arange(8, dtype=np.float32).reshape(4, 2), "n": np.array(3), "s": np.ones((4, 3), np.float32)}


def loop(body: str, states: str = "s", taken: str = "float[4,3] t", given: str = "float[4,3] u", results: str = "y") -> str:
    """A Loop of n turns; `taken` and `given` are the body's states, which come from `states` and go to `results`."""
    graph = f"b (int64 i, bool c, {taken}) => (bool d, {given}) {{ d = Identity(c) {body} }}"
    return f"{results} = Loop (n, , {states}) <body = {graph}>"


def test_a_product_of_outer_values_is_computed_once() -> None:
    before = f"{{ {loop('p = MatMul(x, w) q = Tanh(p) u = Add(t, q)')} }}"
    after = f"{{ a = MatMul(x, w) e = Tanh(a) {loop('u = Add(t, e)')} }}"
    check(hoist_loop_invariants, SIGNATURE, before, after, constants=WEIGHT, feeds=FEEDS)


def test_states_that_are_handed_on_as_they_are_do_not_change() -> None:
    states, taken, given, results = "x, s", "float[4,2] v, float[4,3] t", "float[4,2] v, float[4,3] u", "k, y"
    before = f"{{ {loop('p = MatMul(v, w) u = Add(t, p)', states, taken, given, results)} }}"
    after = f"{{ a = MatMul(x, w) {loop('u = Add(t, a)', states, taken, given, results)} }}"
    check(hoist_loop_invariants, SIGNATURE, before, after, constants=WEIGHT, feeds=FEEDS)


def test_two_states_that_change_places_do_change() -> None:
    states, taken, given = "s, s", "float[4,3] t, float[4,3] v", "float[4,3] v, float[4,3] u"
    body = f"{{ {loop('p = Tanh(v) u = Add(t, p)', states, taken, given, 'y, k')} }}"
    check(hoist_loop_invariants, SIGNATURE, body, skip="depends on the turn", feeds=FEEDS)


def test_constants_of_the_body_go_with_what_reads_them() -> None:
    body = "b (int64 i, bool c, float[4,3] t) => (bool d, float[4,3] u) <float[2,3] w = {1, 2, 3, 4, 5, 6}>"
    before = f"{{ y = Loop (n, , s) <body = {body} {{ d = Identity(c) p = MatMul(x, w) u = Add(t, p) }}> }}"
    after = f"{{ a = MatMul(x, w) {loop('u = Add(t, a)')} }}"
    check(hoist_loop_invariants, SIGNATURE, before, after, after_constants=WEIGHT, feeds=FEEDS)


@pytest.mark.parametrize(
    ("z", "w", "node"),
    [
        ("[4,K]", "[2,3]", "MatMul"),
        ("[4,K]", "[K,3]", "MatMul"),
        ("[4,1]", "[1,3]", "MatMul"),
        ("[4,K]", "[4,K]", "Add"),
        ("[4,1]", "[1,3]", "Mul"),
    ],
)
def test_what_may_fail_stays_where_perhaps_no_turn_computes_it(z: str, w: str, node: str) -> None:
    """A Loop of no turns does not compute it. Sizes that only share a name may differ in a run, and a large result may have no room."""
    body = "{ " + loop(f"p = {node}(z, w) q = ReduceSum<keepdims = 0>(p) u = Add(t, q)") + " }"
    shapes = {name: [int(dim) for dim in text[1:-1].replace("K", "2").split(",")] for name, text in (("z", z), ("w", w))}
    feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    signature = f"(float{z} z, float{w} w, int64 n, float[4,3] s) => (float[4,3] y)"
    check(hoist_loop_invariants, signature, body, skip="may fail", feeds={**feeds, "n": FEEDS["n"], "s": FEEDS["s"]})


def test_results_of_the_body_stay() -> None:
    body = "{ " + loop("u = MatMul(x, w)") + " }"
    check(hoist_loop_invariants, SIGNATURE, body, constants=WEIGHT, skip="depends on the turn", feeds=FEEDS)


def test_what_reads_nothing_stays() -> None:
    """It may be another number in each turn."""
    body = "{ " + loop("p = RandomUniform<shape = [4, 3], seed = 1.0>() q = Mul(p, zero) u = Add(t, q)") + " }"
    check(hoist_loop_invariants, SIGNATURE, body, constants="<float zero = {0}>", skip="depends on the turn", feeds=FEEDS)
