"""Gather and Scatter."""

import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import RankUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import infer, numbers, scalar, tensor, text

N = symbol("N")


def test_elements_of_a_shape_are_picked() -> None:
    shape = tensor("int64", 3, contents=[N, 3, N + 1])
    assert text(infer("Gather", shape, scalar(0))[0]) == "int64[] = [N]"
    assert text(infer("Gather", shape, numbers(-1, 0))[0]) == "int64[2] = [N + 1, N]"
    rows = tensor("int64", 2, 2, contents=[1, 2, 3, N])
    assert text(infer("Gather", rows, numbers(1), axis=1)[0]) == "int64[2, 1] = [2, N]"


def test_an_index_that_is_only_an_expression_picks_nothing() -> None:
    assert text(infer("Gather", numbers(1, 2), scalar(N))[0]) == "int64[]"


def test_a_known_index_out_of_range_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"index 3 is out of range \[-3, 3\)"):
        infer("Gather", tensor("float32", 3, "N"), numbers(3))


def test_the_depth_of_gather_nd_decides_the_rank() -> None:
    assert text(infer("GatherND", tensor("float32", 2, 3), tensor("int64", 4, "K"))[0]) == "float32[...]"
    with pytest.raises(RankUnknown):
        infer("GatherND", tensor("float32", 2, 3), tensor("int64", 4, "K"), strict=True)
