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


def test_a_difference_that_is_computed_twice_is_found_once_it_is_merged() -> None:
    before = """{ m = ReduceMean(x, last) d = Sub(x, m) e = Sub(x, m) s = Pow(e, exponent) v = ReduceMean(s, last)
                  w = Add(v, eps) r = Sqrt(w) q = Div(d, r) z = Mul(q, g) }"""
    after = "{ z = LayerNormalization<axis=-1, epsilon=0.001>(x, g) }"
    check([merge_common_subexpressions, *BOTH], SIGNATURE, before, after, constants=CONSTANTS)


@pytest.mark.parametrize(
    ("axes", "scale", "after"),
    [("last", "g", "<axis=-1, epsilon=0.001>(x, g)"), ("two", "g2", "<axis=-2, epsilon=0.001>(x, g2)")],
)
def test_without_a_bias(axes: str, scale: str, after: str) -> None:
    before = decomposed(axes, end=f"z = Mul(q, {scale})")
    check(BOTH, SIGNATURE, before, f"{{ z = LayerNormalization{after} }}", constants=CONSTANTS)


@pytest.mark.parametrize(
    ("signature", "before", "reason"),
    [
        (SIGNATURE, decomposed("first", end="z = Mul(q, g)"), "the same last axes"),
        (SIGNATURE, decomposed(end="z = Mul(q, one)"), "one is not known to have the shape"),
        (SIGNATURE.replace("z)", "z, float[N,3,4] d)"), decomposed(end="z = Mul(q, g)"), "d has other readers"),
        (SIGNATURE, "{ y = LayerNormalization(x, g) z = Add(y, one) }", "one is not known to have the shape"),
    ],
)
def test_does_not_fire(signature: str, before: str, reason: str) -> None:
    check(BOTH, signature, before, constants=CONSTANTS, skip=reason)
