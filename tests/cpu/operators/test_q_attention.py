"""QAttention, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
BATCH, ROWS, INPUT, HEADS, SIZE = 2, 5, 8, 2, 4
HIDDEN = HEADS * SIZE


def check(
    *more: Array | None, kind: str = "uint8", outputs: int = 1, constants: tuple[int, ...] = (), **attributes: Any
) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 255, (BATCH, ROWS, INPUT)).astype("uint8")
    low, high = (-60, 60) if kind == "int8" else (0, 255)  # onnxruntime's 16-bit sums of int8 saturate on some machines
    w = rng.integers(low, high, (INPUT, 3 * HIDDEN)).astype(kind)
    scales = [np.array(0.02, np.float32), np.array(0.01, np.float32)]
    inputs = [x, w, ramp((3 * HIDDEN,)), *scales, *more]
    attributes = {"num_heads": HEADS, **attributes}
    want = ort_op("QAttention", inputs, attributes, outputs=["float32"] * outputs, **HOW)
    check_op(
        "QAttention", *inputs, expected=want, outputs=outputs, constants=constants, rtol=1e-4, atol=1e-4, **attributes, **HOW
    )


def zeros(kind: str) -> list[Array]:
    return [np.array(120, np.uint8), np.array(3, kind)]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_projections_of_bytes(kind: str) -> None:
    check(None, *zeros(kind), kind=kind, constants=(1, 2, 3, 4, 6, 7))
    check(kind=kind)


def test_masks_and_a_past() -> None:
    check(np.array([3, 5], np.int32), *zeros("uint8"))
    check(None, *zeros("uint8"), unidirectional=1)
    past = ramp((2, BATCH, HEADS, 3, SIZE))
    check(None, *zeros("uint8"), past, outputs=2, unidirectional=1)


@pytest.mark.parametrize(
    ("index", "given", "message"),
    [
        (1, np.zeros((INPUT + 1, 3 * HIDDEN), np.uint8), "weight, .* is 9, but I is 8"),
        (2, ramp((HIDDEN,)), "bias, .* is 8, but W is 24"),
        (8, ramp((2, 1, HEADS, 3, SIZE)), "past, .* is 1, but B is 2"),
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_what_does_not_fit_is_refused(index: int, given: Array, message: str, fixed: bool) -> None:
    x, w = np.zeros((BATCH, ROWS, INPUT), np.uint8), np.zeros((INPUT, 3 * HIDDEN), np.uint8)
    inputs = [x, w, ramp((3 * HIDDEN,)), *[np.array(0.5, np.float32)] * 2, None, *zeros("uint8"), None]
    inputs[index] = given
    with pytest.raises(InvalidArgument, match=message):
        run_op("QAttention", inputs, {"num_heads": HEADS}, fixed=fixed, **HOW)
