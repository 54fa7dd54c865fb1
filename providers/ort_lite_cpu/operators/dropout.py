"""Dropout in training mode, as a Python step: its masks are those of NumPy's generator, which the specification's tests use."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.op import NodeLowering


def train_dropout(op: NodeLowering) -> None:
    """Elements are zeroed with probability `ratio`, the others grow by 1 / (1 - ratio). Spec: ONNX Dropout-22."""
    seed = op.attr("seed")

    def step(x: Array, ratio: Array | None = None, training: Array | None = None) -> Sequence[Any]:
        probability = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
        if probability == 0.0:
            return [x.copy(), np.ones(x.shape, np.bool_)]
        mask = np.random.RandomState(seed).uniform(0, 1.0, x.shape) >= probability
        return [(mask * x * (1.0 / (1.0 - probability))).astype(x.dtype), mask]

    op.python(step)
