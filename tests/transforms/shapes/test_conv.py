"""Convolutions."""

from typing import Any

import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import ContentsUnknown
from tests.transforms.shapes.checking import check, floats, infer, integers, numbers, tensor, text, unknown


def test_the_same_size_however_it_is_written() -> None:
    """The same size by name, by pads, and through a pooling: one expression, so that the sums of branches need no guard."""
    x, w = tensor("float32", "N", 3, "H", "W"), tensor("float32", 8, 3, 3, 3)
    (by_name,) = infer("Conv", x, w, auto_pad="SAME_UPPER", strides=[2, 2])
    (by_pads,) = infer("Conv", x, w, pads=[1, 1, 1, 1], strides=[2, 2])
    (pooled,) = infer("AveragePool", tensor("float32", "N", 8, "H", "W"), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    assert by_name == by_pads == pooled
    assert text(by_name) == "float32[N, 8, floordiv(H + 1, 2), floordiv(W + 1, 2)]"


def test_kernel_sizes_may_be_symbols() -> None:
    (y,) = infer("Conv", tensor("float32", "N", 3, "H"), tensor("float32", "M", 3, "K"))
    assert text(y) == "float32[N, M, H - 1*K + 1]"


@pytest.mark.parametrize(
    ("x", "w", "attributes", "message"),
    [
        ((1, 3, 8), (8, 3, 3, 3), {}, "one rank, 3 or more"),
        ((1, 3, 2), (8, 3, 3), {}, "a window of 3 does not fit into 2"),
        ((1, 3, 8), (8, 3, 3), {"strides": [1, 1]}, "strides \\[1, 1\\] should be 1 numbers"),
        ((1, 3, 8), (8, 3, 3), {"pads": [1]}, "pads \\[1\\] should be 2 numbers"),
    ],
)
def test_what_does_not_fit_is_refused(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeInferenceError, match=message):
        infer("Conv", tensor("float32", *x), tensor("float32", *w), **attributes)


def test_transposed_convolutions_by_size_and_by_name() -> None:
    x, w = tensor("float32", "N", 4, "H"), tensor("float32", 4, 3, 3)
    assert text(infer("ConvTranspose", x, w, output_shape=[9], strides=[2])[0]) == "float32[N, 3, 9]"
    assert text(infer("ConvTranspose", x, w, output_shape=[1, 3, 9], strides=[2])[0]) == "float32[N, 3, 9]"
    assert text(infer("ConvTranspose", x, w, auto_pad="SAME_UPPER", strides=[2])[0]) == "float32[N, 3, 2*H]"
    narrow = tensor("float32", 4, 3, 1)
    assert text(infer("ConvTranspose", x, narrow, auto_pad="SAME_UPPER", strides=[3])[0]) == "float32[N, 3, 3*H - 2]"


def test_a_causal_convolution_keeps_a_state() -> None:
    found = infer("CausalConvWithState", tensor("float32", "B", 8, "L"), tensor("float32", 8, 1, 4), outputs=2, version=27)
    assert [text(y) for y in found] == ["float32[B, 8, L]", "float32[B, 8, 3]"]
    x, w = tensor("float32", "B", 8, "L"), tensor("float32", 8, 1, 4)
    found = infer("CausalConvWithState", x, w, outputs=2, domain="com.microsoft", dilation=2)
    assert text(found[1]) == "float32[B, 8, 6]"


def test_a_causal_convolution_of_channels_in_the_last_axis_has_the_shape_of_its_input() -> None:
    x, w = tensor("float32", "B", "L", 8), tensor("float32", 8, 1, 4)
    found = infer("CausalConvWithState", x, w, outputs=2, domain="com.microsoft", channels_last=1)
    assert text(found[0]) == "float32[B, L, 8]"


@pytest.mark.parametrize("more", [{"state_update_capacity": 2}, {"state_channels_last": 0}])
def test_shapes_of_a_causal_convolution_of_another_layout_are_left_open(more: dict[str, Any]) -> None:
    x, w = tensor("float32", "B", "L", 8), tensor("float32", 8, 1, 4)
    found = infer("CausalConvWithState", x, w, outputs=3, domain="com.microsoft", **more)
    assert [text(y) for y in found] == ["float32[...]"] * 3


def test_columns_become_an_image() -> None:
    check("Col2Im", floats(1, 5, 5), integers(5, 5), integers(1, 5))
    with pytest.raises(ContentsUnknown):
        infer("Col2Im", tensor("float32", "N", 5, 5), unknown("int64", 2), numbers(1, 5), strict=True)
