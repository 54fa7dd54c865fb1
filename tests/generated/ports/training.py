"""Optimizers. Several tensors come grouped: all tensors, all gradients, all states."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port

_DOMAIN = "ai.onnx.preview.training"
Rule = Callable[..., tuple[Any, ...]]


def _each(rule: Rule, states: int) -> Callable[..., tuple[Array, ...]]:
    """Apply a rule to each tensor. It takes rate, step, tensor, gradient and states, and returns the tensor and the states."""

    def optimize(rate: Array, step: Array, *tensors: Array, **how: Any) -> tuple[Array, ...]:
        count = len(tensors) // (2 + states)
        groups = [tensors[k * count : (k + 1) * count] for k in range(2 + states)]
        found = [rule(float(np.ravel(rate)[0]), int(np.ravel(step)[0]), *one, **how) for one in zip(*groups, strict=True)]
        return tuple(np.asarray(one[k]) for k in range(1 + states) for one in found)

    return optimize


def _adagrad(
    rate: float,
    step: int,
    x: Array,
    gradient: Array,
    squares: Array,
    decay_factor: float = 0.0,
    epsilon: float = float(np.float32(1e-6)),
    norm_coefficient: float = 0.0,
) -> tuple[Any, ...]:
    gradient = norm_coefficient * x + gradient
    squares = squares + gradient * gradient
    return x - rate / (1 + step * decay_factor) * gradient / (np.sqrt(squares) + epsilon), squares


def _momentum(
    rate: float,
    step: int,
    x: Array,
    gradient: Array,
    velocity: Array,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Any, ...]:
    gradient = norm_coefficient * x + gradient
    velocity = alpha * velocity + (beta if step > 0 else 1.0) * gradient
    return x - rate * (gradient + alpha * velocity if mode == "nesterov" else velocity), velocity


def _adam(
    rate: float,
    step: int,
    x: Array,
    gradient: Array,
    mean: Array,
    squares: Array,
    alpha: float = float(np.float32(0.9)),
    beta: float = float(np.float32(0.999)),
    epsilon: float = float(np.float32(1e-6)),
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Any, ...]:
    gradient = norm_coefficient * x + gradient
    mean = alpha * mean + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * gradient * gradient
    adjusted = rate * np.sqrt(1 - beta**step) / (1 - alpha**step) if step > 0 else rate
    return (1 - norm_coefficient_post) * (x - adjusted * mean / (np.sqrt(squares) + epsilon)), mean, squares


port("Adagrad", domain=_DOMAIN)(_each(_adagrad, 1))
port("Momentum", domain=_DOMAIN)(_each(_momentum, 1))
port("Adam", domain=_DOMAIN)(_each(_adam, 2))
