"""Losses, and the optimisers of the domain ai.onnx.preview.training."""

from functools import partial

from ort_lite.inference import Info, Op, shape_rule
from ort_lite_transforms.shapes.elementwise import like

_training_rule = partial(shape_rule, domain="ai.onnx.preview.training")


@shape_rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(op: Op) -> list[Info]:
    """(N, C, ...) and labels (N, ...) -> a scalar, or the labels' shape; log-probabilities (N, C, ...).

    Spec: ONNX NegativeLogLikelihoodLoss-22, SoftmaxCrossEntropyLoss-13.
    """
    shape = op.shape(1) if op.attr("reduction", "mean") == "none" else ()
    return [op.tensor(op.dtype(0), shape), like(op)]


@_training_rule("Adagrad", "Adam", "Momentum", types=())
def optimizer(op: Op) -> list[Info]:
    """Rate, step, then tensors, gradients and states, as many of each -> new tensors and states.

    Spec: ONNX preview training Adam-1 and others.
    """
    groups = 4 if op.node.op_type == "Adam" else 3
    count = (len(op.inputs) - 2) // groups
    kept = [index for group in range(groups) if group != 1 for index in range(group * count, (group + 1) * count)]
    return [like(op, index + 2) for index in kept]


@_training_rule("Gradient", types=())
def gradient(op: Op) -> list[Info]:
    """One gradient for each of `xs`, like it. Spec: ONNX preview training Gradient-1."""
    return [like(op, index) for index in range(len(op.attr("xs", [])))]


RULES = [*loss, *optimizer, *gradient]
