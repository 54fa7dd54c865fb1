from ort_lite_transforms.if_inlining import inline_known_if
from tests.text_graphs import check

SIGNATURE = "(float[A] x) => (float[A] z)"


def both(then: str, other: str = "q = Neg(x)", name: str = "z") -> str:
    return (
        f"{name} = If (c) <then_branch = t () => (float[A] p) {{ {then} }}, else_branch = e () => (float[A] q) {{ {other} }}>"
    )


def test_the_branch_that_is_taken_takes_the_place_of_the_if() -> None:
    before = f"{{ {both('a = Exp(x) p = Neg(a)')} }}"
    check(inline_known_if, SIGNATURE, before, "{ a = Exp(x) z = Neg(a) }", constants="<bool c = {1}>")


def test_the_other_branch_is_taken_when_the_condition_is_false() -> None:
    check(inline_known_if, SIGNATURE, f"{{ {both('p = Exp(x)')} }}", "{ z = Neg(x) }", constants="<bool c = {0}>")


def test_names_that_both_of_two_ifs_use_stay_apart() -> None:
    before = f"{{ {both('a = Exp(x) p = Neg(a)', name='u')} {both('a = Abs(u) p = Neg(a)')} }}"
    after = "{ a = Exp(x) u = Neg(a) b = Abs(u) z = Neg(b) }"
    check(inline_known_if, SIGNATURE, before, after, constants="<bool c = {1}>")


def test_a_branch_that_gives_an_outer_value_leaves_an_identity_for_the_output() -> None:
    before = f"{{ a = Exp(x) {both('p = Identity(a)')} }}"
    check(inline_known_if, SIGNATURE, before, "{ a = Exp(x) z = Identity(a) }", constants="<bool c = {1}>")


def test_nested_ifs_are_inlined_one_after_the_other() -> None:
    inner = both("a = Exp(x) p = Neg(a)", name="r")
    branches = f"then_branch = t2 () => (float[A] r) {{ {inner} }}, else_branch = e2 () => (float[A] s) {{ s = Neg(x) }}"
    before = f"{{ z = If (c) <{branches}> }}"
    check(inline_known_if, SIGNATURE, before, "{ a = Exp(x) z = Neg(a) }", constants="<bool c = {1}>")


def test_a_condition_that_inference_knows_is_enough() -> None:
    before = "{ r = Size(x) n = Shape(r) k = Size(n) c = Equal(k, zero) " + both("p = Exp(x)") + " }"
    after = "{ z = Exp(x) }"
    check(inline_known_if, "(float[A] x) => (float[A] z)", before, after, constants="<int64 zero = {0}>")


def test_does_not_fire_when_the_condition_is_an_input() -> None:
    body = f"{{ {both('p = Exp(x)')} }}"
    check(inline_known_if, "(float[A] x, bool c) => (float[A] z)", body, skip="c is not known before the run")
