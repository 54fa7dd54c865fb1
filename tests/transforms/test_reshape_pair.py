import pytest

from ort_lite_transforms.reshape_pair import merge_reshapes
from tests.text_graphs import check

CONSTANTS = "<int64[3] s = {2, -1, 2}, int64[2] t = {3, -1}, int64[2] copy = {0, -1}, int64[1] axis = {0}>"


@pytest.mark.parametrize("inner", ["Reshape(x, s)", "Flatten(x)", "Unsqueeze(x, axis)"])
def test_only_the_last_shape_counts(inner: str) -> None:
    before = f"{{ y = {inner} z = Reshape(y, t) }}"
    check(merge_reshapes, "(float[3,4] x) => (float[3,4] z)", before, "{ z = Reshape(x, t) }", constants=CONSTANTS)


def test_the_first_one_stays_where_others_read_it() -> None:
    before = "{ y = Reshape(x, s) z = Reshape(y, t) }"
    after = "{ y = Reshape(x, s) z = Reshape(x, t) }"
    check(merge_reshapes, "(float[3,4] x) => (float[2,3,2] y, float[3,4] z)", before, after, constants=CONSTANTS)


def test_does_not_fire_where_a_dimension_is_copied() -> None:
    before = "{ y = Reshape(x, s) z = Reshape(y, copy) }"
    check(merge_reshapes, "(float[3,4] x) => (float[2,6] z)", before, constants=CONSTANTS, skip="may copy a dimension from y")
