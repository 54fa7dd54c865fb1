"""Normalisations and softmax."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.cpu.check import ramp

X = ramp((2, 4, 3, 5), low=-3, high=3)
SCALE, BIAS = ramp((4,), low=0.5, high=2), ramp((4,))
MEAN, VARIANCE = ramp((4,), low=-1, high=1), ramp((4,), low=0.5, high=2)
EMPTY = np.zeros((0, 4, 2), np.float32)


def per_channel(v: Array, x: Array) -> Array:
    return v.reshape(-1, *(1,) * (x.ndim - 2)).astype(np.float64)


def batch_norm(
    x: Array, scale: Array, b: Array, mean: Array, var: Array, epsilon: float = 1e-5, spatial: int = 1, **how: Any
) -> Any:
    """With the statistics given; those of `spatial=0` are for each element of an item. In training: with those of the batch."""
    if how.get("training_mode"):
        axes = tuple(k for k in range(x.ndim) if k != 1)
        batch_mean, batch_var = x.astype(np.float64).mean(axes), x.astype(np.float64).var(axes)
        momentum = how.get("momentum", 0.9)
        running = (mean * momentum + batch_mean * (1 - momentum), var * momentum + batch_var * (1 - momentum))
        y = batch_norm(x, scale, b, batch_mean, batch_var, epsilon)
        return (y, *(value.astype(mean.dtype) for value in running))
    fit = per_channel if spatial else lambda v, x: v.astype(np.float64)
    y = (x - fit(mean, x)) / np.sqrt(fit(var, x) + epsilon) * fit(scale, x) + fit(b, x)
    return np.asarray(y).astype(x.dtype)


_STATISTICS = (SCALE, BIAS, MEAN, VARIANCE)
_BATCH: dict[str, Any] = {"oracle": batch_norm, "rtol": 1e-4, "atol": 1e-5}
BATCHES = [
    case("BatchNormalization", X, *_STATISTICS, until=1, consumed_inputs=[0, 0, 0, 1, 1], is_test=1, **_BATCH),
    case("BatchNormalization", X, *_STATISTICS, since=6, until=6, is_test=1, **_BATCH),
    case("BatchNormalization", X, *_STATISTICS, since=7, constants=(1, 2, 3, 4), **_BATCH),
    case("BatchNormalization", X[:, :, 0, 0], *_STATISTICS, since=7, types=(), epsilon=0.1, **_BATCH),
    case(
        "BatchNormalization",
        X[0, :, 0],
        *(ramp((3, 5)[1:], low=0.5, high=2) for _ in range(4)),
        since=7,
        until=8,
        types=(),
        spatial=0,
        **_BATCH,
    ),
    case("BatchNormalization", X, *_STATISTICS, since=14, types=(), training_mode=1, momentum=0.8, outputs=3, **_BATCH),
    case("BatchNormalization", EMPTY, *_STATISTICS, since=7, types=(), **_BATCH),
]


def normalised(x: Array, axes: Any, epsilon: float) -> Any:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)


def instance_norm(x: Array, scale: Array, b: Array, epsilon: float = 1e-5, **_: Any) -> Array:
    y = normalised(x, tuple(range(2, x.ndim)), epsilon) * per_channel(scale, x) + per_channel(b, x)
    return np.asarray(y).astype(x.dtype)


def group_norm(x: Array, scale: Array, b: Array, num_groups: int, epsilon: float = 1e-5) -> Array:
    grouped = x.reshape(x.shape[0], num_groups, -1)
    y = normalised(grouped, -1, epsilon).reshape(x.shape) * per_channel(scale, x) + per_channel(b, x)
    return np.asarray(y).astype(x.dtype)


def layer_norm(
    x: Array, scale: Array, b: Array | None = None, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> tuple[Array, ...]:
    """Mean and inverse deviation come in float32."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    mean, inverse = wide.mean(axes, keepdims=True), 1 / np.sqrt(wide.var(axes, keepdims=True) + epsilon)
    y = (wide - mean) * inverse * scale + (0 if b is None else b)
    return np.asarray(y).astype(x.dtype), mean.astype(np.float32), inverse.astype(np.float32)


def rms_norm(x: Array, scale: Array, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    y = x / np.sqrt((x.astype(np.float64) ** 2).mean(axes, keepdims=True) + epsilon) * scale
    return np.asarray(y).astype(scale.dtype)


def first_of(oracle: Any) -> Any:
    return lambda *inputs, **how: oracle(*inputs, **how)[0]


_LAST = ramp((5,), low=0.5, high=2)
_TIGHT: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
LAYERS = [
    case("InstanceNormalization", X, SCALE, BIAS, oracle=instance_norm, **_TIGHT),
    case("InstanceNormalization", X[:, :, 0], SCALE, BIAS, types=(), epsilon=0.1, oracle=instance_norm, **_TIGHT),
    case("InstanceNormalization", X[:0], SCALE, BIAS, types=(), oracle=instance_norm),
    case("GroupNormalization", X, SCALE, BIAS, since=21, num_groups=2, oracle=group_norm, **_TIGHT),
    case(
        "GroupNormalization",
        X[:, :, 0],
        SCALE,
        BIAS,
        types=(),
        since=21,
        num_groups=4,
        epsilon=0.1,
        oracle=group_norm,
        **_TIGHT,
    ),
    case("LayerNormalization", X, _LAST, _LAST - 1, oracle=first_of(layer_norm), **_TIGHT),
    case("LayerNormalization", X, _LAST, outputs=3, types=("float64",), oracle=layer_norm, **_TIGHT),
    case("LayerNormalization", X, ramp((3, 5)), None, outputs=3, types=(), axis=2, epsilon=0.1, oracle=layer_norm, **_TIGHT),
    case("LayerNormalization", X[:0], _LAST, types=(), oracle=first_of(layer_norm)),
    case("RMSNormalization", X, _LAST, oracle=rms_norm, **_TIGHT),
    case("RMSNormalization", X, ramp((3, 5)), types=(), axis=-2, epsilon=0.1, oracle=rms_norm, **_TIGHT),
    case("RMSNormalization", X[:0], _LAST, types=(), oracle=rms_norm),
]


def local_response(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    squares = x.astype(np.float64) ** 2
    low, high = (size - 1) // 2, -(-(size - 1) // 2)
    sums = np.stack([squares[:, max(c - low, 0) : c + high + 1].sum(1) for c in range(x.shape[1])], 1)
    return np.asarray(x / (bias + alpha / size * sums) ** beta).astype(x.dtype)


def mean_variance(x: Array, axes: Any = (0, 2, 3)) -> Array:
    return np.asarray(normalised(x, tuple(axes), 1e-18)).astype(x.dtype)


def lp_norm(x: Array, axis: int = -1, p: int = 2) -> Array:
    return np.asarray(x / (abs(x.astype(np.float64)) ** p).sum(axis, keepdims=True) ** (1 / p)).astype(x.dtype)


OTHERS = [
    case("LRN", X, size=3, oracle=local_response),
    case("LRN", X, types=(), size=2, alpha=0.5, beta=0.6, bias=2.0, oracle=local_response),
    case("LRN", X[:0], types=(), size=3, oracle=local_response),
    case("MeanVarianceNormalization", X, oracle=mean_variance, **_TIGHT),
    case("MeanVarianceNormalization", X, types=(), axes=[2, 3], oracle=mean_variance, **_TIGHT),
    case("LpNormalization", X, oracle=lp_norm),
    case("LpNormalization", X, types=(), axis=1, p=1, oracle=lp_norm),
    case("LpNormalization", X[:0], types=(), oracle=lp_norm),
]


def rows(function: Any) -> Any:
    """Before version 13 the axes from `axis` on are one."""

    def oracle(x: Array, axis: int = 1) -> Array:
        split = int(np.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]))
        return np.asarray(function(x.reshape(split, -1), -1)).reshape(x.shape).astype(x.dtype)

    return oracle


def along(function: Any) -> Any:
    return lambda x, axis=-1: np.asarray(function(x, axis)).astype(x.dtype)


def softmax(x: Array, axis: int) -> Any:
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Any:
    shifted = x.astype(np.float64) - x.max(axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def hardmax(x: Array, axis: int) -> Any:
    return np.arange(x.shape[axis]).reshape(-1, *(1,) * ((-axis if axis < 0 else x.ndim - axis) - 1)) == np.expand_dims(
        x.argmax(axis), axis
    )


_INFINITE = np.array([[-np.inf, 0.0, 1.0], [np.nan, 1.0, 2.0], [1e30, -1e30, 0.0]], np.float32)


def maxes(op_type: str, function: Any) -> list[Case]:
    old: dict[str, Any] = {"until": 12, "oracle": rows(function)}
    new: dict[str, Any] = {"since": 13, "oracle": along(function)}
    three = X[:, :, 0]
    return [
        case(op_type, three, **old),
        case(op_type, three, axis=2, types=(), **old),
        case(op_type, three, axis=0, types=(), **old),
        case(op_type, three, axis=-1, types=(), **(old | {"since": 11})),
        case(op_type, three, **new),
        *(case(op_type, three, axis=axis, types=(), **new) for axis in (0, 1, -2)),
        case(op_type, np.array([[1.0, 3, 3]], np.float32), types=(), **new),
        *([] if op_type == "Hardmax" else [case(op_type, _INFINITE, types=(), **how) for how in (old, new)]),
        *([] if op_type == "Hardmax" else [case(op_type, np.zeros((0, 3), np.float32), types=(), **new)]),
    ]


CASES: tuple[Case, ...] = (
    *BATCHES,
    *LAYERS,
    *OTHERS,
    *maxes("Softmax", softmax),
    *maxes("LogSoftmax", log_softmax),
    *maxes("Hardmax", hardmax),
)
