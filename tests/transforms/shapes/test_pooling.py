"""Pooling."""

from typing import Any

import pytest

from ort_lite.errors import ShapeInferenceError
from tests.transforms.shapes.checking import infer, tensor, text


def test_dilation_takes_windows_from_same_padding() -> None:
    (y,) = infer("MaxPool", tensor("float32", 1, 1, 7), kernel_shape=[3], strides=[2], dilations=[2], auto_pad="SAME_UPPER")
    assert text(y) == "float32[1, 1, 3]"  # what onnxruntime gives
    attributes: dict[str, Any] = {"kernel_shape": [3], "strides": [3], "dilations": [2], "auto_pad": "SAME_UPPER"}
    for ceil, count in ((0, 2), (1, 3)):
        assert text(infer("MaxPool", tensor("float32", 1, 1, 9), ceil_mode=ceil, **attributes)[0]) == f"float32[1, 1, {count}]"


def test_a_window_larger_than_the_input_is_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"a window of 5 does not fit into 3 \+ 0 \+ 0"):
        infer("MaxPool", tensor("float32", 1, 1, 3), kernel_shape=[5])
    with pytest.raises(ShapeInferenceError, match="kernel_shape"):
        infer("MaxPool", tensor("float32", 1, 1, 3), kernel_shape=[1, 1])


def test_regions_of_interest_come_first() -> None:
    x, rois = tensor("float32", "N", 8, "H", "W"), tensor("float32", "R", 4)
    assert text(infer("RoiAlign", x, rois, tensor("int64", "R"), output_height=3)[0]) == "float32[R, 8, 3, 1]"
    assert text(infer("MaxRoiPool", x, tensor("float32", "R", 5), pooled_shape=[2, 3])[0]) == "float32[R, 8, 2, 3]"
    assert text(infer("LpPool", x, kernel_shape=[2, 1])[0]) == "float32[N, 8, H - 1, W]"
