"""com.microsoft's operators on images: masked and cropped, with pads and grids that are inputs, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidGraph, OrtLiteError
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op
from tests.cpu.operators.test_microsoft_forms import HOW, check
from tests.cpu.ort import ort_op


# --- MaxpoolWithMask
def masked(mask: tuple[int, ...], seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random(mask) > 0.2).astype(np.int32)


WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_shape": [3]}),
    ((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 2]}),
    ((2, 3, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ((2, 3, 7, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((2, 3, 7, 6), {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER", "storage_order": 1}),
    ((1, 2, 5, 4, 6), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2], "pads": [1, 0, 1, 0, 1, 0]}),
    ((0, 3, 9), {"kernel_shape": [3]}),
]


@pytest.mark.parametrize(("shape", "attributes"), WINDOWS, ids=str)
def test_pools_of_what_a_mask_allows(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    """A mask of several planes begins where onnxruntime begins to read it: a few elements behind the first."""
    for planes in ((1, 1), shape[:2] if shape[0] else (1, 2)):
        check("MaxpoolWithMask", ramp(shape), masked((*planes, *shape[2:])), **attributes)


def test_a_mask_of_zeros_leaves_the_least_number() -> None:
    x = ramp((1, 1, 4, 4))
    check("MaxpoolWithMask", x, np.zeros((1, 1, 4, 4), np.int32), kernel_shape=[2, 2], strides=[2, 2])
    check("MaxpoolWithMask", ramp((1, 1, 4)), np.zeros((1, 1, 4), np.int32), kernel_shape=[2])


def test_masked_pools_skip_nan() -> None:
    x = ramp((1, 2, 6))
    x[0, 0, 1:4] = np.nan
    check("MaxpoolWithMask", x, np.ones((1, 1, 6), np.int32), kernel_shape=[3])


def test_masks_are_as_large_as_images() -> None:
    with pytest.raises(InvalidArgument, match="mask and input differ"):
        run_op("MaxpoolWithMask", [ramp((1, 1, 6)), np.ones((1, 1, 5), np.int32)], {"kernel_shape": [3]}, **HOW)
    with pytest.raises(InvalidArgument, match="the mask has 0 planes, the input 1"):
        run_op("MaxpoolWithMask", [ramp((1, 1, 6)), np.ones((0, 1, 6), np.int32)], {"kernel_shape": [3]}, **HOW)


# --- CropAndResize
def check_interpolated(op_type: str, *operands: Array, constants: tuple[int, ...] = (), **attributes: Any) -> None:
    """Sums of pixels of either sign, in another order than onnxruntime's, may cancel out."""
    want = ort_op(op_type, operands, attributes, **HOW)
    check_op(op_type, *operands, expected=want, constants=constants, atol=1e-5, **attributes, **HOW)


def boxes(count: int) -> Array:
    corners = np.sort(np.random.default_rng(count).uniform(-0.2, 1.3, (count, 2, 2)), axis=1)
    return corners.reshape(count, 4).astype(np.float32)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "NEAREST"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (1, 5), (2, 1)], ids=str)
def test_crops(size: tuple[int, int], mode: str) -> None:
    rois = np.concatenate([boxes(5), [[0, 0, 1, 1], [1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [0, 0.25, 0.5, 0.75]]]).astype(
        np.float32
    )
    index = np.array([0, 1, 1, 0, 1, 0, 1, 0, 1], np.int32)
    operands = [ramp((2, 3, 5, 7)), rois, index, np.array(size, np.int32)]
    check_interpolated("CropAndResize", *operands, constants=(3,), mode=mode, extrapolation_value=-1.5)


def test_crops_beyond_an_image_and_of_nothing() -> None:
    odd = np.array([[np.nan, 0, 1, 1], [0, -np.inf, 1, np.inf], [2, 2, 3, 3]], np.float32)
    check("CropAndResize", ramp((1, 2, 4, 4)), odd, np.zeros(3, np.int32), np.array([3, 3], np.int32), constants=(3,))
    none = np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.array([3, 2], np.int32)
    check("CropAndResize", ramp((1, 2, 4, 4)), *none, constants=(3,))


def test_crops_of_images_that_are_not_there() -> None:
    rois, size = np.array([[0, 0, 1, 1]], np.float32), np.array([2, 2], np.int32)
    for image in (-1, 2):
        with pytest.raises(InvalidArgument, match=rf"image {image} at position 0 of 'in2' is out of range \[0, 2\)"):
            run_op("CropAndResize", [ramp((2, 1, 3, 3)), rois, np.array([image], np.int32), size], {}, **HOW)
    with pytest.raises(InvalidArgument, match=r"crop_size.* has the element 0; it should be 1 or more"):
        run_op("CropAndResize", [ramp((2, 1, 3, 3)), rois, np.array([0], np.int32), size * 0], {}, **HOW)
    with pytest.raises(NotSupported, match="mode 'cubic'"):
        run_op("CropAndResize", [ramp((2, 1, 3, 3)), rois, np.array([0], np.int32), size], {"mode": "cubic"}, **HOW)


# --- ConvTransposeWithDynamicPads
FORMS: list[tuple[tuple[int, ...], tuple[int, ...], Array, dict[str, Any]]] = [
    ((1, 4, 5), (4, 3, 3), ints(1, 1), {}),
    ((2, 4, 5, 6), (4, 3, 3, 2), ints(1, 0, 0, 1), {"strides": [2, 3]}),
    ((2, 4, 5, 6), (4, 3, 3, 3), ints(1, 2, 1, 0), {"strides": [2, 2], "output_padding": [1, 1]}),
    ((2, 4, 5, 6), (4, 2, 3, 3), ints(0, 1, 1, 0), {"group": 2, "dilations": [2, 1]}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 2, 2), ints(1, 0, 1, 0, 1, 0), {"strides": [2, 1, 2]}),
    ((2, 4, 5, 6), (4, 3, 3, 3), ints(0, 0, 0, 0), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
]


@pytest.mark.parametrize(("image", "weight", "pads", "attributes"), FORMS, ids=[str(k) for k in range(len(FORMS))])
def test_convolutions_with_pads_that_are_an_input(
    image: tuple[int, ...], weight: tuple[int, ...], pads: Array, attributes: dict[str, Any]
) -> None:
    x, w = ramp(image), ramp(weight)
    bias = ramp((weight[1] * attributes.get("group", 1),))
    for b in ((), (bias,)):
        check("ConvTransposeWithDynamicPads", x, w, pads, *b, constants=(2,), **attributes)
        check("ConvTransposeWithDynamicPads", x, w, pads, *b, constants=(1,), **attributes)


def test_pads_that_are_an_input_may_be_left_out_and_are_not_negative() -> None:
    x, w, bias = ramp((1, 2, 5)), ramp((2, 3, 3)), ramp((3,))
    [want] = ort_op("ConvTranspose", [x, w, bias], {"strides": [2]}, opset=11)
    check_op("ConvTransposeWithDynamicPads", x, w, None, bias, expected=want, strides=[2], **HOW)
    with pytest.raises(OrtLiteError, match=r"Pads.* has the element -1; it should be 0 or more"):
        run_op("ConvTransposeWithDynamicPads", [x, w, ints(-1, 0)], {}, **HOW)
    with pytest.raises(InvalidGraph, match="pads"):
        run_op("ConvTransposeWithDynamicPads", [x, w, ints(1, 0, 1)], {}, **HOW)


# --- GridSample
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grids(mode: str, padding: str, align: int) -> None:
    grid = ramp((2, 4, 3, 2), low=-1.4, high=1.4)
    check_interpolated("GridSample", ramp((2, 3, 5, 6)), grid, mode=mode, padding_mode=padding, align_corners=align)


def test_grids_of_nothing() -> None:
    check("GridSample", ramp((2, 3, 5, 6)), ramp((2, 0, 3, 2)))


# --- UnfoldTensor
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(("dim", "size", "step"), [(-1, 3, 1), (0, 2, 3), (1, 4, 2), (-3, 5, 1), (2, 1, 2)])
def test_windows(dim: int, size: int, step: int, dtype: str) -> None:
    check("UnfoldTensor", ramp((5, 4, 6), dtype), dim=dim, size=size, step=step)


@pytest.mark.parametrize("x", [np.array(list("abcde"), object), np.arange(5) * (1 + 2j), np.arange(5, dtype=np.float16)])
def test_windows_of_other_elements(x: Array) -> None:
    want = np.stack([x[k : k + 3] for k in (0, 2)])
    check_op("UnfoldTensor", x, expected=want, size=3, step=2, **HOW)


def test_windows_of_nothing_and_that_do_not_fit() -> None:
    check("UnfoldTensor", ramp((0, 4)), size=2)
    with pytest.raises(InvalidArgument, match="a window of 5 does not fit into 4"):
        run_op("UnfoldTensor", [ramp((3, 4))], {"size": 5}, **HOW)
    with pytest.raises(NotSupported, match="size -1 and step 1"):
        run_op("UnfoldTensor", [ramp((3, 4))], {"size": -1}, **HOW)
    with pytest.raises(NotSupported, match="size 2 and step 0"):
        run_op("UnfoldTensor", [ramp((3, 4))], {"size": 2, "step": 0}, **HOW)
