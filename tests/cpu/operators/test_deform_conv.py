"""DeformConv."""

from typing import Any

import pytest

from ort_lite.errors import OrtLiteError
from tests.cpu.check import check_op, ramp, run_op


@pytest.mark.parametrize(
    ("channels", "m", "group", "moved", "attributes"),
    [
        (2, 3, 1, 1, {}),
        (4, 4, 2, 1, {"pads": [1, 0, 1, 0]}),
        (4, 2, 1, 2, {"strides": [2, 1]}),
        (2, 2, 2, 2, {"dilations": [1, 2]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("whole", [True, False])
def test_matches_the_reference(channels: int, m: int, group: int, moved: int, attributes: dict[str, Any], whole: bool) -> None:
    x, w = ramp((2, channels, 6, 7)), ramp((m, channels // group, 2, 3))
    top, left, bottom, right = attributes.get("pads", [0] * 4)
    (sh, sw), (dh, dw) = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    oh, ow = (6 + top + bottom - dh - 1) // sh + 1, (7 + left + right - 2 * dw - 1) // sw + 1
    offset, mask = ramp((2, moved * 12, oh, ow), low=-1.4, high=1.4), ramp((2, moved * 6, oh, ow), low=0, high=1)
    more = [ramp((m,)), mask] if whole else []
    check_op("DeformConv", x, w, offset, *more, opset=22, atol=1e-4, group=group, offset_group=moved, **attributes)


X, W, OFFSET, MASK = ramp((1, 4, 5, 5)), ramp((3, 4, 3, 3)), ramp((1, 18, 3, 3)), ramp((1, 9, 3, 3))


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, W, OFFSET[:, :, :2]], {}, "the offsets differ in shape from the output: 2 against 3"),
        ([X, W, OFFSET, None, MASK[:, :8]], {}, r"mask, .* is 8, but offset_group\*kh\*kw is 9|mask, .* is 1, but OH is 3"),
        ([X, W, OFFSET, None, MASK[:, :, :1]], {}, r"mask, .* is 8, but offset_group\*kh\*kw is 9|mask, .* is 1, but OH is 3"),
        ([X, W, OFFSET, ramp((2,))], {}, "B, .* is 2, but M is 3"),
        ([X, W[:, :2], OFFSET], {}, r"X, .* is 4, but group\*C is 2"),
        ([X, W[:, :2], OFFSET], {"group": 2}, "W, .* is 3[,;] no multiple of group, which is 2 by the attribute"),
        (
            [X, W, ramp((1, 54, 3, 3))],
            {"offset_group": 3},
            "X, .* is 4[,;] no multiple of offset_group, which is 3 by the attribute",
        ),
        ([X, W, OFFSET], {"offset_group": 0}, r"offset, .* is 18, but 2\*offset_group\*kh\*kw is 0"),
        ([X, W, OFFSET], {"group": 0}, r"X, .* is 4, but group\*C is 0"),
        ([X, W, OFFSET], {"strides": [0, 1]}, "strides"),
        ([X, W, OFFSET], {"kernel_shape": [3, 4]}, "kernel_shape"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], message: str, fixed: bool) -> None:
    with pytest.raises(OrtLiteError, match=f"DeformConv 'node'.*({message})"):
        run_op("DeformConv", inputs, attributes, opset=22, fixed=fixed)
