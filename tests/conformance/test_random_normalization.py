"""Normalisations of any shape, against NumPy in double precision."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from tests.conformance.drawing import HOWS, SEEDS, How, Shape, drawn, numbers, shapes
from tests.conformance.random_models import check

EPSILON = 1e-3


def standard(x: Array, axes: Any) -> Array:
    """Mean 0 and deviation 1 over the axes."""
    wide = x.astype(np.float64)
    return np.asarray((wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + EPSILON))


def along(values: Array, rank: int) -> Array:
    """One value a channel, axis 1."""
    return values.reshape(-1, *[1] * (rank - 2))


IMAGES = shapes(low=3, high=5, smallest=1)


@drawn(20, shape=shapes(low=1, smallest=1), data=st.data(), bias=st.booleans(), rms=st.booleans(), seed=SEEDS, how=HOWS)
def test_over_the_last_axes(shape: Shape, data: Any, bias: bool, rms: bool, seed: int, how: How) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, scale = numbers(shape, "float32", seed), numbers(shape[axis % len(shape) :], "float32", seed + 1)
    axes = tuple(range(axis % len(shape), len(shape)))
    if rms:
        wide = x.astype(np.float64)
        wanted = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + EPSILON) * scale
        check("RMSNormalization", [x, scale], [wanted.astype(np.float32)], how, axis=axis, epsilon=EPSILON, atol=1e-4)
    else:
        b = numbers(scale.shape, "float32", seed + 2) if bias else None
        wanted = standard(x, axes) * scale + (0 if b is None else b)
        check("LayerNormalization", [x, scale, b], [wanted.astype(np.float32)], how, axis=axis, epsilon=EPSILON, atol=1e-4)


@drawn(20, shape=shapes(low=2, high=5, smallest=1), seed=SEEDS, how=HOWS, kind=st.sampled_from(["batch", "instance"]))
def test_of_channels(shape: Shape, seed: int, how: How, kind: str) -> None:
    shape = (*shape, 3) if kind == "instance" and len(shape) == 2 else shape
    x = numbers(shape, "float32", seed)
    scale, b, mean = (numbers(shape[1:2], "float32", seed + k) for k in (1, 2, 3))
    rank = len(shape)
    if kind == "instance":
        wanted = standard(x, tuple(range(2, rank))) * along(scale, rank) + along(b, rank)
        check("InstanceNormalization", [x, scale, b], [wanted.astype(np.float32)], how, epsilon=EPSILON, atol=1e-4)
    else:
        variance = numbers(shape[1:2], "float32", seed + 4, low=0.1)
        spread = np.sqrt(along(variance, rank).astype(np.float64) + EPSILON)
        wanted = (x - along(mean, rank)) / spread * along(scale, rank) + along(b, rank)
        inputs = [x, scale, b, mean, variance]
        check("BatchNormalization", inputs, [wanted.astype(np.float32)], how, epsilon=EPSILON, atol=1e-4)


@drawn(
    15,
    n=st.integers(0, 2),
    groups=st.integers(1, 3),
    each=st.integers(1, 3),
    rest=shapes(low=1, high=3, smallest=1),
    seed=SEEDS,
    how=HOWS,
)
def test_of_groups(n: int, groups: int, each: int, rest: Shape, seed: int, how: How) -> None:
    x = numbers((n, groups * each, *rest), "float32", seed)
    scale, b = (numbers((groups * each,), "float32", seed + k) for k in (1, 2))
    made = standard(x.reshape(n, groups, each * int(np.prod(rest))), 2).reshape(x.shape)
    wanted = made * along(scale, x.ndim) + along(b, x.ndim)
    check("GroupNormalization", [x, scale, b], [wanted.astype(np.float32)], how, num_groups=groups, epsilon=EPSILON, atol=1e-4)


@drawn(15, shape=IMAGES, size=st.integers(1, 5), seed=SEEDS, how=HOWS)
def test_over_neighbouring_channels(shape: Shape, size: int, seed: int, how: How) -> None:
    x = numbers(shape, "float32", seed)
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (len(shape) - 2)])
    total = sum(squares[:, k : k + shape[1]] for k in range(size))
    wanted = x / (1.5 + 0.1 / size * total) ** 0.75
    check("LRN", [x], [wanted.astype(np.float32)], how, size=size, alpha=0.1, beta=0.75, bias=1.5)


@drawn(15, shape=shapes(low=1, smallest=1), data=st.data(), p=st.sampled_from([1, 2]), seed=SEEDS, how=HOWS)
def test_to_length_one(shape: Shape, data: Any, p: int, seed: int, how: How) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = numbers(shape, "float32", seed, low=0.5)
    wanted = x / np.linalg.norm(x.astype(np.float64), p, axis, keepdims=True)
    check("LpNormalization", [x], [wanted.astype(np.float32)], how, axis=axis, p=p)
