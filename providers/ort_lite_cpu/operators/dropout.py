"""Dropout in training mode, as a Python step: its masks are those of NumPy's generator, which the specification's tests use."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.random import entropy
from ort_lite_cpu.run.pace import CHEAP


def train_dropout(op: NodeLowering) -> None:
    """Set elements to 0 with probability `ratio`, and multiply the others by 1 / (1 - ratio). Spec: ONNX Dropout-22."""
    seed, pace = op.attr("seed"), op.pace
    going_on = np.random.RandomState(np.frombuffer(entropy(op, 8), np.uint32))

    def step(x: Array, ratio: Array | None = None, training: Array | None = None) -> Sequence[Any]:
        probability = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
        if not 0 <= probability < 1:
            raise ValueError(f"ratio is {probability}, expected 0 or more, and less than 1")
        generator = going_on if seed is None else np.random.RandomState(seed)
        y, mask = np.empty(x.size, x.dtype), np.empty(x.size, np.bool_)
        for part in pace.slices(x.size, CHEAP):
            given = x.reshape(-1)[part]
            mask[part] = probability == 0.0 or generator.uniform(0, 1.0, given.size) >= probability
            y[part] = mask[part] * given * (1.0 / (1.0 - probability))
        return [y.reshape(x.shape), mask.reshape(x.shape)]

    op.python(step)
