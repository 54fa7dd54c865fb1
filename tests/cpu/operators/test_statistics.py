"""BatchNormalization in training, MeanVarianceNormalization."""

from typing import Any

import numpy as np
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (3, 4, 2, 5)], ids=str)
def test_training_normalises_by_the_batch_and_moves_the_running_statistics(shape: tuple[int, ...]) -> None:
    vectors = [ramp((shape[1],), low=low, high=3) for low in (0.5, -2, -1, 0.25)]
    check_op(
        "BatchNormalization", ramp(shape), *vectors, opset=15, outputs=3, atol=1e-5, training_mode=1, momentum=0.7, epsilon=1e-3
    )


def test_training_of_old_models_is_declined() -> None:
    vectors = [np.ones(3, np.float32)] * 4
    with pytest.raises(NotSupported, match=r"BatchNormalization 'node' .*training before opset 14"):
        run_op("BatchNormalization", [ramp((2, 3)), *vectors], opset=9, outputs=3)


@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 3, 4, 5), None), ((4, 3, 2), [1]), ((3, 4), [0, 1]), ((2, 3, 4), [-1, 0])], ids=str
)
def test_mean_variance_normalization_over_any_axes(shape: tuple[int, ...], axes: list[int] | None) -> None:
    x, over = ramp(shape), (0, 2, 3) if axes is None else tuple(axes)
    wanted = (x - x.mean(over, keepdims=True)) / x.std(over, keepdims=True)
    attributes: dict[str, Any] = {} if axes is None else {"axes": axes}
    check_op("MeanVarianceNormalization", x, opset=13, atol=1e-5, expected=wanted, **attributes)


def test_constant_rows_become_zero() -> None:
    x = np.full((2, 3), 7.0, np.float32)
    check_op("MeanVarianceNormalization", x, opset=13, axes=[1], expected=np.zeros((2, 3), np.float32))
