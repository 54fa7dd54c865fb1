"""VarlenCausalConvWithState, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

OFFSETS = np.array([0, 1, 4, 9], np.int32)


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def operands(taps: int, dilation: int = 1, *, biased: bool = True, dtype: str = "float32") -> list[Array | None]:
    bias = draw(5, dtype=dtype) if biased else None
    return [
        draw(9, 5, dtype=dtype),
        draw(5, 1, taps, dtype=dtype),
        OFFSETS,
        bias,
        draw(3, 5, (taps - 1) * dilation, dtype=dtype),
    ]


def check(inputs: list[Array | None], outputs: int, **attributes: Any) -> None:
    assert inputs[0] is not None
    dtype = inputs[0].dtype.name
    want = ort_op("VarlenCausalConvWithState", inputs, attributes, outputs=(dtype,) * outputs, **HOW)
    how: dict[str, Any] = {"rtol": 4e-3, "atol": 4e-3} if dtype == "float16" else {}
    check_op("VarlenCausalConvWithState", *inputs, expected=want, outputs=outputs, **how, **attributes, **HOW)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("taps", "dilation"), [(4, 1), (2, 3), (3, 2)])
def test_requests(taps: int, dilation: int, biased: bool, activation: str, dtype: str) -> None:
    inputs = operands(taps, dilation, biased=biased, dtype=dtype)
    check(inputs, 2, activation=activation, dilation=dilation)
    check([*inputs, np.array([2, 1, 9], np.int32)], 3, activation=activation, dilation=dilation, state_update_capacity=4)


@pytest.mark.parametrize("offsets", [(0, 0, 4, 9), (0, 4, 4, 9), (0, 9, 9, 9)])
def test_requests_without_tokens_keep_their_state(offsets: tuple[int, ...]) -> None:
    inputs = operands(3)
    inputs[2] = np.array(offsets, np.int32)
    check([*inputs, np.array([2, 1, 9], np.int32)], 3, state_update_capacity=4)


@pytest.mark.parametrize("offsets", [(0, 4, 2, 9), (1, 2, 4, 9), (0, 1, 4, 8), (0, -3, 4, 9), (0, 4, 400, 9)])
def test_offsets_that_are_no_requests(offsets: tuple[int, ...]) -> None:
    inputs = operands(3)
    inputs[2] = np.array(offsets, np.int32)
    with pytest.raises(InvalidArgument, match="of 9 tokens; expected ranges in order"):
        run_op("VarlenCausalConvWithState", inputs, {}, outputs=2, **HOW)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"dilation": 0}, "dilation 0"),
        ({"activation": "relu"}, "activation 'relu'"),
        ({"state_update_capacity": 9}, "state_update_capacity 9"),
        ({"state_update_capacity": 2}, "without capture_count"),
    ],
)
def test_what_is_rejected(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("VarlenCausalConvWithState", operands(3), attributes, outputs=2, **HOW)
