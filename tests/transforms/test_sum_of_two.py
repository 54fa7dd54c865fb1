from ort_lite_transforms.sum_of_two import replace_sum_of_two
from tests.text_graphs import check


def test_a_sum_of_two_is_an_add() -> None:
    check(replace_sum_of_two, "(float[A,B] x, float[B] y) => (float[A,B] z)", "{ z = Sum(x, y) }", "{ z = Add(x, y) }")


def test_does_not_fire_on_three() -> None:
    check(replace_sum_of_two, "(float[A,B] x, float[B] y) => (float[A,B] z)", "{ z = Sum(x, y, x) }", skip="3 operands")
