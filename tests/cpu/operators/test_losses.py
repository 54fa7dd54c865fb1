"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op

Shape = tuple[int, ...]
LOSSES = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]
TOLERANCE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5, "opset": 13}


def labels_for(shape: Shape, dtype: str = "int64") -> Array:
    """One of the classes, 1 of them first."""
    count = shape[0] * int(np.prod(shape[2:]))
    return (np.arange(1, count + 1) * 7 % shape[1]).astype(dtype).reshape(shape[0], *shape[2:])


@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3)], ids=str)
def test_the_logarithms_of_the_probabilities_are_told(shape: Shape) -> None:
    check_op("SoftmaxCrossEntropyLoss", ramp(shape), labels_for(shape, "int32"), outputs=2, **TOLERANCE)
    x = ramp(shape, "float64") * 300
    check_op("SoftmaxCrossEntropyLoss", x, labels_for(shape), outputs=2, opset=13, expected=softmax_loss, rtol=1e-12)


def softmax_loss(x: Array, labels: Array) -> list[Any]:
    shifted = x - x.max(1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return [-np.take_along_axis(logarithms, labels[:, None], 1).mean(), logarithms]


@pytest.mark.parametrize("op", LOSSES)
def test_where_all_is_ignored_the_mean_is_no_number(op: str) -> None:
    check_op(op, ramp((2, 3)), np.array([1, 1]), ignore_index=1, opset=13, expected=np.array(np.nan, np.float32))


@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("label", [-1, 5])
def test_a_label_that_is_no_class_is_named(op: str, label: int) -> None:
    with pytest.raises(RuntimeException, match=rf"label {label} at position 2 of 'in1' is out of range \[0, 5\)"):
        run_op(op, [ramp((3, 5)), np.array([0, 4, label])], {"ignore_index": 9}, opset=13)


def test_labels_of_another_shape_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"labels, .* is 2, but N is 3"):
        run_op("SoftmaxCrossEntropyLoss", [ramp((3, 5, 2)), np.zeros((2, 2), np.int64)], {}, opset=13)


@pytest.mark.parametrize("op", LOSSES)
def test_weights_and_scores_that_do_not_fit_are_refused(op: str) -> None:
    x, labels = ramp((3, 5)), np.zeros(3, np.int64)
    for fixed in (True, False):
        for count in (0, 4, 6):
            with pytest.raises(InvalidArgument, match=f"{op} 'node' .*is {count}, but C is 5"):
                run_op(op, [x, labels, np.ones(count, np.float32)], opset=13, fixed=fixed)
        with pytest.raises(InvalidArgument, match=f"{op} 'node' .*has rank 1"):
            run_op(op, [x[0], labels], opset=13, fixed=fixed)
        with pytest.raises(NotSupported, match=f"{op} 'node' .*reduction 'max'"):
            run_op(op, [x, labels], {"reduction": "max"}, opset=13, fixed=fixed)
