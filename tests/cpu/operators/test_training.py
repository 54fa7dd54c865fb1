"""Adagrad, Adam and Momentum."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op

DOMAIN = "ai.onnx.preview.training"
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Adagrad": {"norm_coefficient": 0.01, "epsilon": 1e-5, "decay_factor": 0.1},
    "Adam": {"norm_coefficient": 0.01, "norm_coefficient_post": 0.1, "alpha": 0.95, "beta": 0.9, "epsilon": 1e-5},
    "Momentum": {"norm_coefficient": 0.01, "alpha": 0.95, "beta": 0.85, "mode": "standard"},
}


@pytest.mark.parametrize(
    ("position", "shape", "message"),
    [
        (0, (2,), "R, .*has 2 elements"),
        (1, (0,), "T, .*has 0 elements"),
        (3, (2, 2), "a weight and its gradient or state differ: 2 against 3"),
        (4, (3,), "1 axes against 2"),
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["Adagrad", "Momentum"])
def test_tensors_that_do_not_fit_are_refused(op: str, position: int, shape: tuple[int, ...], message: str) -> None:
    inputs = [np.array(0.1, np.float32), np.array(1), ramp((2, 3)), ramp((2, 3)), ramp((2, 3))]
    inputs[position] = np.ones(shape, inputs[position].dtype)
    for fixed in (True, False):
        with pytest.raises(InvalidArgument, match=f"{op} 'node' .*{message}"):
            run_op(op, inputs, ATTRIBUTES[op], domain=DOMAIN, opset=1, outputs=2, fixed=fixed)


def test_outputs_that_are_not_there_are_refused() -> None:
    inputs = [np.array(0.1, np.float32), np.array(1), ramp((2, 3)), ramp((2, 3)), ramp((2, 3))]
    with pytest.raises(NotSupported, match=r"Momentum 'node' .*3 tensors and 1 outputs"):
        op_program("Momentum", inputs, ATTRIBUTES["Momentum"], domain=DOMAIN, opset=1, outputs=1)


def test_corrections_of_adam_do_not_cancel() -> None:
    """1 - 0.999 ** 9 of float32 would have five digits."""
    rate, step = np.array(0.25, np.float32), np.array(9)
    x, gradient, mean, squares = (ramp((2, 3), low=0.25, high=2 + k).astype(np.float64) for k in range(4))
    alpha, beta, epsilon = (float(np.float32(number)) for number in (0.9, 0.999, 1e-6))
    mean_now, squares_now = alpha * mean + (1 - alpha) * gradient, beta * squares + (1 - beta) * gradient**2
    adjusted = 0.25 * np.sqrt(1 - beta**9) / (1 - alpha**9)
    expected = (x - adjusted * mean_now / (np.sqrt(squares_now) + epsilon), mean_now, squares_now)
    operands = [rate, step, x, gradient, mean, squares]
    check_op("Adam", *operands, domain=DOMAIN, opset=1, outputs=3, expected=expected, rtol=1e-12)
