"""BatchNormalization in training, MeanVarianceNormalization."""

from typing import Any

import numpy as np
import pytest

from tests.cpu.check import check_op, ramp


@pytest.mark.parametrize("spatial", [0, 1])
def test_older_models_train_where_they_ask_for_statistics(spatial: int) -> None:
    x = ramp((3, 2, 4))
    axes = (0, 2) if spatial else 0
    scale, bias, mean, variance = (ramp((2,) if spatial else (2, 4), low=low, high=low + 1) for low in (1, 0, 2, 1))
    batch_mean, batch_variance = x.mean(axes), x.var(axes)
    fit = (2, 1) if spatial else (2, 4)
    scaled = (x - batch_mean.reshape(fit)) / np.sqrt(batch_variance.reshape(fit) + 1e-5)
    y = scaled * scale.reshape(fit) + bias.reshape(fit)
    moved = [0.7 * old + 0.3 * new for old, new in ((mean, batch_mean), (variance, batch_variance))]
    want = [array.astype(np.float32) for array in (y, *moved, batch_mean, batch_variance)]
    how = {"opset": 7, "outputs": 5, "momentum": 0.7, "spatial": spatial, "rtol": 1e-4, "atol": 1e-5}
    check_op("BatchNormalization", x, scale, bias, mean, variance, expected=want, **how)


@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 3, 4, 5), None), ((4, 3, 2), [1]), ((3, 4), [0, 1]), ((2, 3, 4), [-1, 0])], ids=str
)
def test_mean_variance_normalization_over_any_axes(shape: tuple[int, ...], axes: list[int] | None) -> None:
    x, over = ramp(shape), (0, 2, 3) if axes is None else tuple(axes)
    wanted = (x - x.mean(over, keepdims=True)) / x.std(over, keepdims=True)
    attributes: dict[str, Any] = {} if axes is None else {"axes": axes}
    check_op("MeanVarianceNormalization", x, opset=13, atol=1e-5, expected=wanted, **attributes)


@pytest.mark.parametrize(("shape", "axes"), [((3, 1, 4), [1]), ((1, 2, 1, 1), [0, 2, 3]), ((2, 3), [-1, 1, -1])], ids=str)
def test_axes_of_one_element_and_axes_named_twice(shape: tuple[int, ...], axes: list[int]) -> None:
    x = ramp(shape)
    own = tuple({axis % x.ndim for axis in axes})
    centred = x - x.mean(own, keepdims=True)
    deviation = x.std(own, keepdims=True)
    wanted = np.divide(centred, deviation, out=np.zeros_like(x), where=deviation > 0)
    check_op("MeanVarianceNormalization", x, opset=13, axes=axes, expected=wanted, rtol=1e-4, atol=1e-5)
