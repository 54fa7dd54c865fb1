import pytest

from ort_lite_transforms.common_subexpressions import merge_common_subexpressions
from tests.text_graphs import check

SIGNATURE = "(float[A,B] x) => (float[A,B] z)"


def test_equal_nodes_become_one() -> None:
    before = "{ a = Exp(x) b = Exp(x) c = Neg(a) d = Neg(b) z = Add(c, d) }"
    check(merge_common_subexpressions, SIGNATURE, before, "{ a = Exp(x) c = Neg(a) z = Add(c, c) }")


def test_attributes_count() -> None:
    before = "{ a = Elu<alpha=0.5>(x) b = Elu<alpha=0.5>(x) c = Elu<alpha=0.25>(x) d = Add(a, b) z = Add(d, c) }"
    after = "{ a = Elu<alpha=0.5>(x) c = Elu<alpha=0.25>(x) d = Add(a, a) z = Add(d, c) }"
    check(merge_common_subexpressions, SIGNATURE, before, after)


def test_arrays_in_attributes_are_compared() -> None:
    before = """{ s = Shape(x) a = ConstantOfShape<value = float[1] {1}>(s) b = ConstantOfShape<value = float[1] {1}>(s)
                  c = ConstantOfShape<value = float[1] {2}>(s) d = Sum(a, b, c) z = Add(x, d) }"""
    after = """{ s = Shape(x) a = ConstantOfShape<value = float[1] {1}>(s) c = ConstantOfShape<value = float[1] {2}>(s)
                 d = Sum(a, a, c) z = Add(x, d) }"""
    check(merge_common_subexpressions, SIGNATURE, before, after)


def test_one_whose_result_is_an_output_is_merged_with_one_whose_is_not() -> None:
    check(
        merge_common_subexpressions,
        "(float[A] x) => (float[A] y, float[A] z)",
        "{ a = Exp(x) y = Neg(a) z = Exp(x) }",
        "{ z = Exp(x) y = Neg(z) }",
    )


def test_does_not_fire_when_both_results_are_outputs() -> None:
    check(
        merge_common_subexpressions,
        "(float[A] x) => (float[A] y, float[A] z)",
        "{ y = Exp(x) z = Exp(x) }",
        skip="both graph outputs",
    )


@pytest.mark.parametrize("node", ["RandomNormalLike<seed=1.0>", "RandomUniformLike<seed=1.0>"])
def test_does_not_fire_on_random_nodes(node: str) -> None:
    before = f"{{ a = {node}(x) b = {node}(x) c = Sub(a, b) s = Shape(c) z = Expand(x, s) }}"
    check(merge_common_subexpressions, SIGNATURE, before)


def test_does_not_fire_on_other_inputs_or_their_order() -> None:
    check(
        merge_common_subexpressions, "(float[A] x, float[A] y) => (float[A] z)", "{ a = Sub(x, y) b = Sub(y, x) z = Mul(a, b) }"
    )


def test_does_not_fire_across_nested_graphs() -> None:
    body = """{ a = Exp(x) c = If (b) <then_branch = t () => (float[A] p) { p = Exp(x) },
                                       else_branch = e () => (float[A] q) { q = Exp(x) }> z = Add(a, c) }"""
    check(merge_common_subexpressions, "(float[A] x, bool b) => (float[A] z)", body)
