"""Losses and optimisers."""

import numpy as np
import pytest

from tests.transforms.shapes.checking import check, floats, infer, tensor, text


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("op_type", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses_are_scalars_unless_they_are_not_reduced(op_type: str, reduction: str) -> None:
    labels = np.zeros((2, 4), np.int64)
    check(op_type, floats(2, 3, 4), labels, reduction=reduction)


def test_log_probabilities_are_shaped_like_scores() -> None:
    found = infer("SoftmaxCrossEntropyLoss", tensor("float32", "N", 3), tensor("int64", "N"), outputs=2)
    assert [text(y) for y in found] == ["float32[]", "float32[N, 3]"]


@pytest.mark.parametrize(("op_type", "groups"), [("Adagrad", 3), ("Momentum", 3), ("Adam", 4)])
def test_optimisers_give_new_tensors_and_states(op_type: str, groups: int) -> None:
    pair = [tensor("float32", "N", 3), tensor("float32", 5)]
    found = infer(
        op_type, tensor("float32"), tensor("int64"), *pair * groups, outputs=2 * (groups - 1), domain="ai.onnx.preview.training"
    )
    assert [text(y) for y in found] == ["float32[N, 3]", "float32[5]"] * (groups - 1)


def test_gradients_are_shaped_like_their_inputs() -> None:
    pair = [tensor("float32", "N", 3), tensor("float32", 5)]
    found = infer("Gradient", *pair, outputs=1, domain="ai.onnx.preview.training", xs=["a"], zs=["b"], y="c")
    assert [text(y) for y in found] == ["float32[N, 3]"]
