"""Reductions."""

import numpy as np
import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import NumbersUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import check, infer, integers, numbers, scalar, tensor, text, unknown

N = symbol("N")


@pytest.mark.parametrize(("op_type", "wanted"), [("ReduceSum", 9), ("ReduceProd", 24), ("ReduceMax", 4), ("ReduceMin", 2)])
def test_contents_are_folded(op_type: str, wanted: int) -> None:
    check(op_type, integers(2, 3, 4), integers(0), keepdims=0, expected=[np.array(wanted)])


def test_a_product_of_dims_stays_symbolic() -> None:
    shape = tensor("int64", 3, contents=[N, 2, N])
    assert text(infer("ReduceProd", shape, numbers(0), keepdims=0)[0]) == "int64[] = [2*N*N]"
    assert text(infer("ReduceSum", scalar(N))[0]) == "int64[] = [N]"


def test_contents_reduced_along_one_of_two_axes_are_dropped() -> None:
    assert text(infer("ReduceSum", tensor("int64", 2, 2, contents=[1, 2, 3, 4]), numbers(0))[0]) == "int64[1, 2]"


def test_unknown_axes_leave_the_rank_where_it_is_certain() -> None:
    x = tensor("float32", "N", 3, 4)
    assert text(infer("ReduceSum", x, unknown("int64", 2))[0]) == "float32[y0#1, y0#2, y0#3]"
    assert text(infer("ReduceSum", x, unknown("int64", 2), keepdims=0)[0]) == "float32[y0#1]"
    assert text(infer("ReduceSum", x, unknown("int64", "K"), keepdims=0)[0]) == "float32[...]"
    with pytest.raises(NumbersUnknown):
        infer("ReduceSum", x, unknown("int64", 2), strict=True)


def test_an_axis_out_of_range_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"axis 2 is out of range \[-2, 2\)"):
        infer("ReduceSum", tensor("float32", "N", 3), numbers(2))
