from ort_lite_transforms.known_contents import fold_known_contents, fold_shapes
from tests.text_graphs import check

CONSTANTS = "<int64[1] zero = {0}, int64[1] rest = {-1}>"


def test_a_shape_of_numbers_becomes_a_constant_and_one_with_a_free_dimension_stays() -> None:
    signature, after = "(float[2,3] x, float[1] y) => (float[2,3] z)", "{ z = Expand(y, s) }"
    check(fold_shapes, signature, "{ s = Shape(x) z = Expand(y, s) }", after, after_constants="<int64[2] s = {2, 3}>")
    check(fold_shapes, "(float[A,3] x, float[1] y) => (float[A,3] z)", "{ s = Shape(x) z = Expand(y, s) }")


def test_shape_arithmetic_over_static_shapes_becomes_a_constant() -> None:
    before = "{ s = Shape(x) n = Gather(s, zero) t = Concat<axis=0>(n, rest) z = Reshape(x, t) }"
    after = "{ z = Reshape(x, t) }"
    signature = "(float[2,3,4] x) => (float[2,12] z)"
    check(fold_known_contents, signature, before, after, constants=CONSTANTS, after_constants="<int64[2] t = {2, -1}>")


def test_a_known_dimension_of_a_shape_with_a_free_one_is_enough() -> None:
    before = "{ s = Shape(x) last = Slice(s, one, two) z = Expand(y, last) }"
    after = "{ z = Expand(y, last) }"
    signature, constants = "(float[A,3] x, float[1] y) => (float[3] z)", "<int64[1] one = {1}, int64[1] two = {2}>"
    check(fold_known_contents, signature, before, after, constants=constants, after_constants="<int64[1] last = {3}>")


def test_does_not_fire_on_a_free_dimension() -> None:
    check(fold_shapes, "(float[A,3] x, float[1] y) => (float[N] z)", "{ s = Shape<end=1>(x) z = Expand(y, s) }")


def test_does_not_fire_when_the_contents_are_an_output() -> None:
    check(fold_shapes, "(float[2,3] x) => (int64[2] s)", "{ s = Shape(x) }", skip="s is a graph output")
