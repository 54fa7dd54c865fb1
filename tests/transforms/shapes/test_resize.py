"""Resize and its relatives."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import ContentsUnknown, NumbersUnknown
from ort_lite.shapes import symbol
from tests.transforms.shapes.checking import check, constant, floats, infer, integers, numbers, one_node, tensor, text, unknown

H, W = symbol("H"), symbol("W")


def scales(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(values, np.float32)


@given(st.integers(1, 64), st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.7, 1.0, 1.1, 1.5, 2.0, 2.3]))
@settings(max_examples=60)
def test_scaled_sizes_are_those_of_onnxruntime(dim: int, scale: float) -> None:
    x, factor = floats(dim), scales(scale)
    model = one_node("Resize", [x, None, factor], 1, "", 21, {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x0": x, "x2": factor})
    check("Resize", x, None, factor, version=21, expected=[np.asarray(expected)])


def test_whole_factors_multiply() -> None:
    x = tensor("float32", "N", 3, "H", "W")
    assert text(infer("Resize", x, None, constant(scales(1, 1, 2, 0.5)))[0]) == (
        "float32[N, 3, 2*H, scale(W, 4602678819172646912)]"
    )
    assert text(infer("Resize", x, constant(scales(1, 1, 2, 2)), version=10)[0]) == "float32[N, 3, 2*H, 2*W]"
    assert text(infer("Upsample", x, version=8, scales=[1.0, 1.0, 2.0, 3.0])[0]) == "float32[N, 3, 2*H, 3*W]"
    assert text(infer("Upsample", x, version=1, height_scale=2.0, width_scale=2.0)[0]) == "float32[N, 3, 2*H, 2*W]"


def test_sizes_are_taken_as_they_are() -> None:
    x = tensor("float32", "N", 3, "H", "W")
    sizes = tensor("int64", 4, contents=[symbol("N"), 3, 2 * H, 7])
    assert text(infer("Resize", x, None, None, sizes)[0]) == "float32[N, 3, 2*H, 7]"
    assert text(infer("Resize", x, None, None, numbers(5), axes=[-1])[0]) == "float32[N, 3, H, 5]"
    assert text(infer("Resize", x, None, None, unknown("int64", 2), axes=[2, 3])[0]) == "float32[N, 3, y0#1, y0#2]"
    with pytest.raises(ContentsUnknown):
        infer("Resize", x, None, None, unknown("int64", 4), strict=True)


def test_scales_that_are_computed_are_asked_for() -> None:
    x = tensor("float32", "N", "H")
    assert text(infer("Resize", x, None, tensor("float32", 2))[0]) == "float32[y0#1, y0#2]"
    with pytest.raises(NumbersUnknown):
        infer("Resize", x, None, tensor("float32", 2), strict=True)


def test_scales_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match=r"scale -1\.0 of axis 0"):
        infer("Resize", tensor("float32", "N"), None, constant(scales(-1)))
    with pytest.raises(ShapeInferenceError, match="2 scales, but 1 axes"):
        infer("Resize", tensor("float32", "N"), None, constant(scales(1, 1)))


def test_axes_are_cropped_or_padded_to_lengths() -> None:
    check("CenterCropPad", floats(4, 5), integers(6, 2))
    check("CenterCropPad", floats(4, 5, 6), integers(9), axes=[-1])
    assert text(infer("CenterCropPad", tensor("float32", "N", 4), unknown("int64", 1), axes=[1])[0]) == "float32[N, y0#1]"
