"""Dropout in training mode; test_reshape.py has it outside training."""

import numpy as np
import pytest

from tests.cpu.check import check_op, ramp, run_op

TRAINING = np.array(True)


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.75])
def test_masks_are_those_of_numpys_generator(ratio: float) -> None:
    x = ramp((3, 4, 5))
    mask = np.random.RandomState(7).uniform(0, 1, x.shape) >= ratio
    wanted = [(x * mask / (1 - ratio)).astype(np.float32), mask]
    inputs = [np.array(ratio, np.float32), TRAINING]
    check_op("Dropout", x, *inputs, opset=22, outputs=2, seed=7, constants=[1, 2], expected=lambda *_, **__: wanted)


def test_the_ratio_is_a_half_if_left_out() -> None:
    [y, mask] = run_op("Dropout", [ramp((2, 40)), None, TRAINING], {"seed": 1}, opset=22, outputs=2)
    assert np.array_equal(y, np.where(mask, 2 * ramp((2, 40)), 0))
    assert 0 < mask.sum() < mask.size


def test_no_training_passes_everything_on() -> None:
    x = ramp((2, 3))
    check_op("Dropout", x, np.array(0.5, np.float32), np.array(False), opset=22, outputs=2, expected=[x, np.ones((2, 3), bool)])
