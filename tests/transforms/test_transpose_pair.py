import pytest

from ort_lite_transforms.transpose_pair import merge_transposes, transpose_without_reshapes
from tests.text_graphs import check

ONCE = "{ z = Transpose<perm=[2,0,1]>(x) }"
TWICE = "{ y = Transpose<perm=[1,2,0]>(x) z = Transpose<perm=[1,2,0]>(y) }"


def test_two_become_one() -> None:
    check(merge_transposes, "(float[A,B,C] x) => (float[C,A,B] z)", TWICE, ONCE)


def test_one_that_undoes_the_other_leaves_nothing() -> None:
    before = "{ a = Relu(x) b = Transpose<perm=[1,2,0]>(a) c = Transpose<perm=[2,0,1]>(b) z = Relu(c) }"
    check(merge_transposes, "(float[A,B,C] x) => (float[A,B,C] z)", before, "{ a = Relu(x) z = Relu(a) }")


def test_left_out_axes_are_reversed() -> None:
    before = "{ a = Relu(x) b = Transpose(a) z = Transpose<perm=[2,1,0]>(b) }"
    check(merge_transposes, "(float[A,B,C] x) => (float[A,B,C] z)", before, "{ z = Relu(x) }")


def test_one_that_undoes_the_other_goes_although_the_inner_result_is_an_output() -> None:
    before = "{ a = Relu(x) y = Transpose<perm=[1,0]>(a) b = Transpose<perm=[1,0]>(y) z = Relu(b) }"
    after = "{ a = Relu(x) y = Transpose<perm=[1,0]>(a) z = Relu(a) }"
    check(merge_transposes, "(float[A,B] x) => (float[B,A] y, float[A,B] z)", before, after)


def test_four_in_a_row_become_one() -> None:
    before = """{ a = Transpose<perm=[1,2,0]>(x) b = Transpose<perm=[1,0,2]>(a)
                  c = Transpose<perm=[1,2,0]>(b) z = Transpose<perm=[1,2,0]>(c) }"""
    check(merge_transposes, "(float[A,B,C] x) => (float[U,V,W] z)", before, "{ z = Transpose<perm=[0,2,1]>(x) }")


def test_does_not_fire_when_the_inner_result_is_an_output() -> None:
    check(merge_transposes, "(float[A,B,C] x) => (float[B,C,A] y, float[C,A,B] z)", TWICE, skip="y has other readers")


def test_does_not_fire_when_the_inner_result_is_read_by_a_nested_graph() -> None:
    before = """{ y = Transpose<perm=[1,0]>(x) z = Transpose<perm=[1,0]>(y)
                  u = If (c) <then_branch = t () => (float[B,A] p) { p = Relu(y) },
                              else_branch = e () => (float[B,A] q) { q = Neg(y) }> }"""
    signature = "(float[A,B] x, bool c) => (float[A,B] z, float[B,A] u)"
    check(merge_transposes, signature, before, skip="z is a graph output, and x comes from no node")


def test_pairs_in_nested_graphs_go() -> None:
    before = """{ u = If (c) <then_branch = t () => (float[A,B] r) { n = Neg(x) p = Transpose(n) q = Transpose(p) r = Relu(q) },
                              else_branch = e () => (float[A,B] s) { s = Neg(x) }> }"""
    after = """{ u = If (c) <then_branch = t () => (float[A,B] r) { n = Neg(x) r = Relu(n) },
                             else_branch = e () => (float[A,B] s) { s = Neg(x) }> }"""
    check(merge_transposes, "(float[A,B] x, bool c) => (float[A,B] u)", before, after)


FOLDED = (
    "<int64[3] two = {-1, 5, 4}, int64[4] same = {2, 3, 4, 5}, int64[4] apart = {3, -1, 4, 5}, int64[4] other = {2, 3, 5, 4}>"
)
AROUND = "{ a = Reshape(x, two) b = Transpose<perm=[0,2,1]>(a) z = Reshape(b, TO) }"


def test_the_last_two_axes_are_exchanged_without_reshapes() -> None:
    signature = "(float[2,3,5,4] x) => (float[2,3,4,5] z)"
    after = "{ z = Transpose<perm=[0,1,3,2]>(x) }"
    check(transpose_without_reshapes, signature, AROUND.replace("TO", "same"), after, constants=FOLDED)


def test_other_axes_before_them_are_made_first() -> None:
    signature = "(float[1,N,3,5,4] x) => (float[3,N,4,5] z)"
    after = "{ c = Reshape(x, sizes) z = Transpose<perm=[0,1,3,2]>(c) }"
    constants = "<int64[4] sizes = {3, -1, 5, 4}>"
    check(
        transpose_without_reshapes,
        signature,
        AROUND.replace("TO", "apart"),
        after,
        constants=FOLDED,
        after_constants=constants,
    )


@pytest.mark.parametrize(
    ("signature", "before", "reason"),
    [
        ("(float[2,3,5,4] x) => (float[2,3,5,4] z)", AROUND.replace("TO", "other"), "apart again"),
        ("(float[2,3,5,4] x) => (z)", AROUND.replace("0,2,1", "1,0,2").replace("TO", "same"), "the last two of three"),
    ],
)
def test_does_not_fire_where_reshapes_do_more(signature: str, before: str, reason: str) -> None:
    check(transpose_without_reshapes, signature, before, constants=FOLDED, skip=reason)
