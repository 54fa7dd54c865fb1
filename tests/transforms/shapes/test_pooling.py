"""Pooling."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ort_lite.errors import ShapeInferenceError
from tests.transforms.shapes.checking import check, floats, infer, integers, tensor, text


def windows(dim: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil: bool) -> int:
    """Counted one by one: each begins inside the input or the padding before it, and without `ceil` ends in the padding."""
    reach = (kernel - 1) * dilation + 1
    starts = range(0, dim + begin + end, stride)
    fits = [s for s in starts if s + reach <= dim + begin + end]
    if ceil and fits and fits[-1] + reach < dim + begin + end and fits[-1] + stride < dim + begin:
        fits.append(fits[-1] + stride)
    return len(fits)


@pytest.mark.slow
@given(
    dim=st.integers(1, 12),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    ceil=st.booleans(),
)
@settings(max_examples=200)
def test_windows_begin_inside(dim: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], ceil: bool) -> None:
    assume(max(pads) < kernel)
    count = windows(dim, kernel, stride, dilation, *pads, ceil=ceil)
    assume(count > 0)
    result = floats(1, 2, count)
    attributes: dict[str, Any] = {"kernel_shape": [kernel], "strides": [stride], "dilations": [dilation], "pads": list(pads)}
    check("MaxPool", floats(1, 2, dim), ceil_mode=int(ceil), expected=[result], **attributes)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padding_by_name(auto_pad: str) -> None:
    check("AveragePool", floats(1, 1, 7, 8), kernel_shape=[3, 2], strides=[2, 3], auto_pad=auto_pad)


def test_dilation_takes_windows_from_same_padding() -> None:
    (y,) = infer("MaxPool", tensor("float32", 1, 1, 7), kernel_shape=[3], strides=[2], dilations=[2], auto_pad="SAME_UPPER")
    assert text(y) == "float32[1, 1, 3]"  # what onnxruntime gives
    attributes: dict[str, Any] = {"kernel_shape": [3], "strides": [3], "dilations": [2], "auto_pad": "SAME_UPPER"}
    for ceil, count in ((0, 2), (1, 3)):
        assert text(infer("MaxPool", tensor("float32", 1, 1, 9), ceil_mode=ceil, **attributes)[0]) == f"float32[1, 1, {count}]"


def test_positions_of_maxima_are_int64() -> None:
    found = infer("MaxPool", tensor("float16", "N", 3, "H"), outputs=2, kernel_shape=[2])
    assert [text(y) for y in found] == ["float16[N, 3, H - 1]", "int64[N, 3, H - 1]"]


def test_a_window_larger_than_the_input_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"a window of 5 does not fit into 3 \+ 0 \+ 0"):
        infer("MaxPool", tensor("float32", 1, 1, 3), kernel_shape=[5])
    with pytest.raises(ShapeInferenceError, match="kernel_shape"):
        infer("MaxPool", tensor("float32", 1, 1, 3), kernel_shape=[1, 1])


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools_leave_one_element_a_channel(op_type: str) -> None:
    check(op_type, floats(2, 3, 4, 5))


def test_unpooling_undoes_the_shape() -> None:
    x, positions = floats(1, 1, 2, 2), integers(5, 7, 13, 15).reshape(1, 1, 2, 2)
    check("MaxUnpool", x, positions, kernel_shape=[2, 2], strides=[2, 2])
    check("MaxUnpool", x, positions, integers(1, 1, 5, 5), kernel_shape=[2, 2], strides=[2, 2])


def test_regions_of_interest_come_first() -> None:
    x, rois = tensor("float32", "N", 8, "H", "W"), tensor("float32", "R", 4)
    assert text(infer("RoiAlign", x, rois, tensor("int64", "R"), output_height=3)[0]) == "float32[R, 8, 3, 1]"
    assert text(infer("MaxRoiPool", x, tensor("float32", "R", 5), pooled_shape=[2, 3])[0]) == "float32[R, 8, 2, 3]"
    assert text(infer("LpPool", x, kernel_shape=[2, 1])[0]) == "float32[N, 8, H - 1, W]"
