import pytest

from ort_lite_transforms.common_subexpressions import merge_common_subexpressions
from ort_lite_transforms.layer_norm import compose_layer_norm, fuse_layer_norm_bias
from tests.text_graphs import check

CONSTANTS = """<int64[1] last = {-1}, int64[2] two = {1, 2}, int64[1] first = {0}, float exponent = {2}, float eps = {0.001},
  float[4] g = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}, float[3,4] g2 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3},
  float[1] one = {2}>"""
SIGNATURE = "(float[N,3,4] x) => (float[N,3,4] z)"
BOTH = [compose_layer_norm, fuse_layer_norm_bias]


def decomposed(
    axes: str = "last", square: str = "Pow(d, exponent)", end: str = "p = Mul(q, g) z = Add(p, b)", attributes: str = ""
) -> str:
    return f"""{{ m = ReduceMean{attributes}(x, {axes}) d = Sub(x, m) s = {square} v = ReduceMean{attributes}(s, {axes})
                  w = Add(v, eps) r = Sqrt(w) q = Div(d, r) {end} }}"""


@pytest.mark.parametrize("square", ["Pow(d, exponent)", "Mul(d, d)"])
@pytest.mark.parametrize("end", ["p = Mul(q, g) z = Add(p, b)", "p = Mul(g, q) z = Add(b, p)"])
def test_the_parts_become_one_node(square: str, end: str) -> None:
    after = "{ z = LayerNormalization<axis=-1, epsilon=0.001>(x, g, b) }"
    check(BOTH, SIGNATURE, decomposed(square=square, end=end), after, constants=CONSTANTS)


def test_without_a_bias() -> None:
    check(
        BOTH,
        SIGNATURE,
        decomposed(end="z = Mul(q, g)"),
        "{ z = LayerNormalization<axis=-1, epsilon=0.001>(x, g) }",
        constants=CONSTANTS,
    )


def test_over_two_axes() -> None:
    after = "{ z = LayerNormalization<axis=-2, epsilon=0.001>(x, g2) }"
    check(BOTH, SIGNATURE, decomposed("two", end="z = Mul(q, g2)"), after, constants=CONSTANTS)


def test_a_difference_that_is_computed_twice_is_found_once_it_is_merged() -> None:
    before = """{ m = ReduceMean(x, last) d = Sub(x, m) e = Sub(x, m) s = Pow(e, exponent) v = ReduceMean(s, last)
                  w = Add(v, eps) r = Sqrt(w) q = Div(d, r) z = Mul(q, g) }"""
    after = "{ z = LayerNormalization<axis=-1, epsilon=0.001>(x, g) }"
    check([merge_common_subexpressions, *BOTH], SIGNATURE, before, after, constants=CONSTANTS)


def test_does_not_fire_over_axes_that_are_not_the_last() -> None:
    check(BOTH, SIGNATURE, decomposed("first", end="z = Mul(q, g)"), constants=CONSTANTS, skip="the same last axes")


def test_does_not_fire_on_a_scale_of_another_shape() -> None:
    check(BOTH, SIGNATURE, decomposed(end="z = Mul(q, one)"), constants=CONSTANTS, skip="one is not known to have the shape")


def test_does_not_fire_when_a_part_is_an_output() -> None:
    signature = "(float[N,3,4] x) => (float[N,3,4] z, float[N,3,4] d)"
    check(BOTH, signature, decomposed(end="z = Mul(q, g)"), constants=CONSTANTS, skip="d has other readers")


def test_an_add_of_another_shape_is_no_bias() -> None:
    before = "{ y = LayerNormalization(x, g) z = Add(y, one) }"
    check(BOTH, SIGNATURE, before, constants=CONSTANTS, skip="one is not known to have the shape")
