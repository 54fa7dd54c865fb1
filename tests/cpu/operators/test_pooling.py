"""MaxPool, AveragePool, LpPool and their global forms."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]


# Windows of 2 x 2 have a kernel of their own, all others share one: few kernels to compile.
CASES: list[tuple[Shape, dict[str, Any]]] = [
    ((2, 3, 4, 5), {"kernel_shape": [2, 2], "strides": [1, 2], "pads": [1, 1, 0, 0]}),
    ((2, 3, 4, 5), {"kernel_shape": [2, 2], "dilations": [1, 2]}),
    ((1, 2, 9), {"kernel_shape": [3], "strides": [2]}),
    ((1, 17, 3, 4, 5), {"kernel_shape": [2, 3, 3], "strides": [1, 1, 2], "pads": [0, 0, 1, 0, 0, 1]}),
    ((2, 3, 7, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 2, 6), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
    ((1, 1, 5, 5), {"kernel_shape": [2, 2], "strides": [3, 3]}),
    ((0, 3, 4, 4), {"kernel_shape": [2, 2]}),
]


@pytest.mark.parametrize(("shape", "attributes"), CASES, ids=str)
@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("MaxPool", {}),
        ("AveragePool", {"count_include_pad": 0}),
        ("AveragePool", {"count_include_pad": 1}),
        ("LpPool", {"p": 3}),
    ],
)
def test_windows_are_onnxruntimes(op: str, more: dict[str, int], shape: Shape, attributes: dict[str, Any]) -> None:
    expected = ort_op(op, [ramp(shape)], attributes | more, opset=22)
    check_op(op, ramp(shape), opset=22, expected=expected, **attributes, **more)


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_automatic_padding_of_dilated_windows_is_onnxruntimes(op: str, auto_pad: str, ceil: int) -> None:
    for size, kernel, stride, dilation in ((9, 3, 4, 2), (8, 3, 3, 2), (9, 3, 3, 2), (7, 2, 2, 3), (11, 4, 3, 2)):
        attributes: dict[str, Any] = {"kernel_shape": [kernel], "strides": [stride], "dilations": [dilation]}
        attributes |= {"auto_pad": auto_pad, "ceil_mode": ceil}
        x = ramp((1, 2, size))
        [want] = ort_op(op, [x], attributes, opset=22)
        check_op(op, x, opset=22, expected=want, **attributes)


def test_means_of_windows_in_the_padding_are_zero() -> None:
    """As in onnxruntime; the reference divides by 0."""
    attributes: dict[str, Any] = {"kernel_shape": [2], "dilations": [2], "pads": [1, 1]}
    check_op("AveragePool", np.ones((1, 1, 1), np.float32), **attributes, expected=np.zeros((1, 1, 1), np.float32))


def test_windows_in_the_padding_hold_the_least_number() -> None:
    attributes: dict[str, Any] = {"kernel_shape": [2], "dilations": [3], "pads": [2, 2]}
    check_op("MaxPool", np.array([[[7]]], np.float32), **attributes, expected=np.array([[[-np.inf, -np.inf]]], np.float32))
    check_op("LpPool", np.array([[[7]]], np.float32), **attributes, expected=np.array([[[0, 0]]], np.float32))
    check_op("MaxPool", np.array([[[7]]], np.int8), **attributes, expected=np.array([[[-128, -128]]], np.int8))


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 17, 6), (2, 1, 2, 3, 4), (0, 2, 3)], ids=str)
def test_over_all_positions(shape: Shape) -> None:
    x, axes = ramp(shape), tuple(range(2, len(shape)))
    check_op("GlobalAveragePool", x, expected=x.mean(axes, keepdims=True))
    check_op("GlobalMaxPool", x, expected=x.max(axes, keepdims=True))
    check_op("GlobalLpPool", x, p=3, expected=(abs(x) ** 3).sum(axes, keepdims=True) ** np.float32(1 / 3))


def test_over_no_positions() -> None:
    x = np.zeros((2, 3, 0), np.float32)
    check_op("GlobalMaxPool", x, expected=np.full((2, 3, 1), -np.inf, np.float32))
    check_op("GlobalAveragePool", x, expected=np.full((2, 3, 1), np.nan, np.float32))


@pytest.mark.parametrize("p", [1, 2])
def test_norms_over_all_positions(p: int) -> None:
    x = ramp((2, 70, 4, 5))
    check_op("GlobalLpPool", x, p=p, expected=(abs(x) ** p).sum((2, 3), keepdims=True) ** np.float32(1 / p))


# --- Candidates
def choice(shape: Shape, **attributes: Any) -> Any:
    """The choice among candidates of a MaxPool."""
    return op_program("MaxPool", [ramp(shape)], attributes, fixed=True).kernels()["node"]


def test_images_stay_in_the_order_in_which_they_are() -> None:
    found = choice((1, 64, 12, 12), kernel_shape=[3, 3], strides=[2, 2])
    assert found.taken == "pool_planes" and {*found.costs} == {"pool_planes", "pool-unrolled", "pool"}
    large = choice((1, 64, 12, 12), kernel_shape=[5, 5])
    assert large.taken == "pool_planes" and large.rejected == {"pool-unrolled": "its window has more than 16 pixels"}
    for odd in ({"kernel_shape": [3]}, {"kernel_shape": [2, 2], "dilations": [1, 2]}):
        shape = (1, 4, 9, 9)[: 2 + len(odd["kernel_shape"])]
        assert choice(shape, **odd).rejected == {"pool-unrolled": "its window has dilations, or does not span two axes"}


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "why"),
    [
        ("LpPool", (1, 4, 99, 99), {"kernel_shape": [3, 3]}, "it is no maximum or average of floats"),
        ("MaxPool", (1, 4, 9, 9, 9), {"kernel_shape": [3, 3, 3]}, "three axes"),
        ("MaxPool", (1, 4, 99, 99), {"kernel_shape": [1, 17]}, "too large"),
        ("MaxPool", (1, 4, 99, 99), {"kernel_shape": [5, 5], "strides": [1, 5]}, "too large"),
        ("MaxPool", (1, 4, 99, 99), {"kernel_shape": [1, 3], "dilations": [1, 33]}, "too large"),
    ],
    ids=str,
)
def test_what_planes_have_no_code_for_is_pooled_channels_last(
    op: str, shape: Shape, attributes: dict[str, Any], why: str
) -> None:
    found = op_program(op, [ramp(shape)], attributes, fixed=True).kernels()["node"]
    assert found.taken != "pool_planes" and why in found.rejected["pool_planes"]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_a_window_over_the_whole_image(op: str) -> None:
    x = ramp((2, 19, 5, 7))
    wanted = {"MaxPool": x.max((2, 3)), "AveragePool": x.mean((2, 3)), "LpPool": np.sqrt((x**2).sum((2, 3)))}[op]
    check_op(op, x, kernel_shape=[5, 7], expected=wanted[:, :, None, None])
    if op == "MaxPool":
        check_op(
            op, -abs(x).astype(np.int8), kernel_shape=[5, 7], expected=(-abs(x).astype(np.int8)).max((2, 3), keepdims=True)
        )


@pytest.mark.parametrize("pin", ["pool", "pool-unrolled", "pool_planes"])
def test_every_candidate_computes_a_pool(pin: str) -> None:
    attributes: dict[str, Any] = {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}
    for shape in ((2, 3, 4, 5), (1, 2, 9, 75)):
        check_op("MaxPool", ramp(shape), pin=pin, **attributes)
        check_op("AveragePool", ramp(shape), pin=pin, **attributes)


WINDOW = {"kernel_shape": [3, 3]}


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"kernel_shape": [3, 0]}, r"kernel_shape \[3, 0\]"),
        ({"kernel_shape": [-3, -3]}, r"kernel_shape \[-3, -3\]"),
        (WINDOW | {"strides": [0, 1]}, r"strides \[0, 1\]"),
        (WINDOW | {"strides": [1, -1]}, r"strides \[1, -1\]"),
        (WINDOW | {"dilations": [0, 1]}, r"dilations \[0, 1\]"),
        (WINDOW | {"strides": [2**62, 1]}, "strides"),
        (WINDOW | {"pads": [2**31, 0, 2**62, 0]}, "pads"),
        (WINDOW | {"auto_pad": "SAME"}, "auto_pad 'SAME'"),
        ({"kernel_shape": [2**20, 2**20], "pads": [2**20] * 4}, "a window of"),
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_windows_that_nobody_can_slide_are_refused(op: str, attributes: dict[str, Any], what: str) -> None:
    with pytest.raises(NotSupported, match=f"{op} 'node' .*{what}"):
        op_program(op, [ramp((1, 2, 8, 8))], attributes)


def test_axes_without_kernels_are_refused() -> None:
    with pytest.raises(NotSupported, match=r"MaxPool 'node' .*4 spatial axes"):
        op_program("MaxPool", [ramp((1, 1, 2, 2, 2, 2))], {"kernel_shape": [1] * 4})
    with pytest.raises(InvalidArgument, match=r"GlobalMaxPool 'node' .*rank 1"):
        op_program("GlobalMaxPool", [ramp((3,))])


def test_an_image_smaller_than_the_window_is_refused_when_it_comes() -> None:
    """Along two axes: the product of what there would be is positive."""
    with pytest.raises(InvalidArgument, match=r"MaxPool 'node' .*windows do not fit: there would be -1"):
        run_op("MaxPool", [ramp((1, 1, 3, 2, 2))], {"kernel_shape": [1, 4, 4]})


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_far_larger_than_the_image_take_no_longer(op: str) -> None:
    """Of 2**30 pixels all but the image lie in the padding."""
    x = ramp((1, 1, 1, 3), low=1)
    wanted = {"MaxPool": x.max(), "AveragePool": x.mean(), "LpPool": np.sqrt((x**2).sum())}[op]
    [got] = run_op(op, [x], {"kernel_shape": [1, 2**30], "pads": [0, 2**30 - 3, 0, 0]})
    np.testing.assert_allclose(got, np.full((1, 1, 1, 1), wanted), rtol=1e-6)
