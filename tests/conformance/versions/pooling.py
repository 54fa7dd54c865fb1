"""Pooling, unpooling, and pooling of regions."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import NEWEST, Case, case
from tests.cpu.check import ints, ramp

X = ramp((1, 2, 5, 6), low=-3, high=3)
LINE, VOLUME = ramp((2, 3, 7)), ramp((1, 2, 4, 3, 5))
WINDOW = [3, 2]  # one for all: each window has a kernel of its own
_CASES: tuple[dict[str, Any], ...] = (
    {"strides": [2, 1]},
    {"pads": [1, 0, 2, 1], "strides": [2, 2]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"strides": [2, 2], "auto_pad": "VALID"},
)


def pooled(op_type: str, ceil: int, dilations: int, **more: Any) -> list[Case]:
    """`ceil` and `dilations`: the versions that brought them."""
    plain: dict[str, Any] = {"types": (), "oracle": "onnxruntime", **more}
    old = plain | {"oracle": "onnxruntime-7"}  # the first that it has of AveragePool
    return [
        case(op_type, X, kernel_shape=WINDOW, **more),
        *(case(op_type, X, until=6, kernel_shape=WINDOW, **how, **old) for how in _CASES),
        *(case(op_type, X, since=7, kernel_shape=WINDOW, **how, **plain) for how in _CASES),
        case(op_type, LINE, kernel_shape=[3], strides=[2], since=7, **plain),
        case(op_type, VOLUME, kernel_shape=[2, 2, 3], since=7, **plain),
        case(op_type, X, kernel_shape=WINDOW, strides=[3, 3], ceil_mode=1, since=ceil, **plain),
        case(op_type, X, kernel_shape=WINDOW, dilations=[2, 3], since=dilations, **plain),
        case(op_type, X[:0], kernel_shape=WINDOW, types=(), oracle=lambda x, **_: np.zeros((0, 2, 3, 5), np.float32)),
    ]


def max_pool(x: Array, kernel_shape: list[int]) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, (2, 3))
    return np.asarray(windows.max((-1, -2)))


def lp_pool(x: Array, kernel_shape: list[int], p: float = 2, strides: Any = None) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(abs(x.astype(np.float64)), kernel_shape, (2, 3))
    return np.asarray((windows**p).sum((-1, -2)) ** (1 / p)).astype(x.dtype)


POOLS = [
    case("MaxPool", X * 20, kernel_shape=WINDOW, oracle=max_pool),
    *pooled("MaxPool", 10, 10)[1:],
    case("MaxPool", X, kernel_shape=WINDOW, since=8, types=(), outputs=2, oracle="onnxruntime"),
    case("MaxPool", X, kernel_shape=WINDOW, since=8, types=(), outputs=2, storage_order=1, oracle="onnxruntime"),
    case(
        "MaxPool",
        X,
        kernel_shape=WINDOW,
        since=10,
        types=(),
        outputs=2,
        dilations=[2, 2],
        pads=[1, 1, 1, 0],
        oracle="onnxruntime",
    ),
    *pooled("AveragePool", 10, 19),
    case(
        "AveragePool", X, kernel_shape=WINDOW, pads=[1, 0, 2, 1], since=7, types=(), count_include_pad=1, oracle="onnxruntime"
    ),
    case("AveragePool", X, kernel_shape=WINDOW, pads=[1, 0, 2, 1], since=7, types=(), oracle="onnxruntime"),
    case("LpPool", X, kernel_shape=WINDOW, oracle=lp_pool),
    case("LpPool", X, until=1, kernel_shape=WINDOW, p=1.5, types=(), oracle=lp_pool),
    case("LpPool", X, since=2, kernel_shape=WINDOW, p=3, types=(), oracle=lp_pool),
    *(case("LpPool", X, since=2, types=(), kernel_shape=WINDOW, oracle="onnxruntime", **how) for how in _CASES),
    case("LpPool", X, since=18, kernel_shape=WINDOW, dilations=[2, 2], types=(), oracle="onnxruntime"),
    case("LpPool", X, since=18, kernel_shape=WINDOW, strides=[3, 3], ceil_mode=1, types=(), oracle="onnxruntime"),
]


def over_space(function: Any) -> Any:
    return lambda x, **how: np.asarray(function(x.astype(np.float64), tuple(range(2, x.ndim)), **how)).astype(x.dtype)


def power_mean(x: Array, axes: Any, p: float = 2) -> Any:
    return (abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)


GLOBAL = [
    *(
        case(op_type, x, types=None if x is X else (), oracle=over_space(function))
        for op_type, function in (
            ("GlobalAveragePool", lambda x, axes: x.mean(axes, keepdims=True)),
            ("GlobalMaxPool", lambda x, axes: x.max(axes, keepdims=True)),
            ("GlobalLpPool", power_mean),
        )
        for x in (X, LINE, VOLUME)
    ),
    case("GlobalLpPool", X, until=1, types=(), p=3.0, oracle=over_space(power_mean)),
    case("GlobalLpPool", X, since=2, types=(), p=3, oracle=over_space(power_mean)),
]

_PEAKS, _PLACES = np.array([[[[1.0, 2], [3, 4]]]], np.float32), np.array([[[[5, 7], [13, 15]]]], np.int64)
UNPOOLS = [
    case("MaxUnpool", _PEAKS, _PLACES, kernel_shape=[2, 2], strides=[2, 2]),
    case("MaxUnpool", _PEAKS, _PLACES, ints(1, 1, 5, 5), types=(), constants=(2,), kernel_shape=[2, 2], strides=[2, 2]),
]


def max_roi_pool(x: Array, rois: Array, pooled_shape: list[int], spatial_scale: float = 1.0) -> Array:
    """The region, rounded to whole elements, is cut into bins that may overlap."""
    y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
    for k, (batch, left, top, right, bottom) in enumerate(rois.astype(np.float64)):
        spans = []
        for low, high, bins, size in ((top, bottom, pooled_shape[0], x.shape[2]), (left, right, pooled_shape[1], x.shape[3])):
            start, end = np.floor(np.array([low, high]) * spatial_scale + 0.5)
            step = max(end - start + 1, 1) / bins
            edges = [(np.floor(b * step) + start, np.ceil((b + 1) * step) + start) for b in range(bins)]
            spans.append([slice(*(int(min(max(edge, 0), size)) for edge in pair)) for pair in edges])
        for i, j in np.ndindex(*pooled_shape):
            part = x[int(batch), :, spans[0][i], spans[1][j]]
            y[k, :, i, j] = part.max((1, 2)) if part.size else 0
    return y


_ROIS = np.array([[0, 0, 0, 3, 4], [0, 1, 1, 5, 4], [0, 2, 2, 2, 2]], np.float32)
_BOXES, _BATCH = np.array([[0.5, 0.5, 4.5, 3.0], [1.0, 0.0, 3.0, 4.0], [-1.0, -1.0, 2.0, 2.0]], np.float32), ints(0, 0, 0)
_REGIONS = ramp((1, 2, 6, 6))
_ALIGN: dict[str, Any] = {"output_height": 2, "output_width": 3, "types": ()}
REGIONS = [
    case("MaxRoiPool", X, _ROIS, pooled_shape=[2, 2], oracle=max_roi_pool),
    case("MaxRoiPool", X, _ROIS, pooled_shape=[2, 3], spatial_scale=0.5, types=(), oracle=max_roi_pool),
    *(
        case("RoiAlign", _REGIONS, _BOXES, _BATCH, **(_ALIGN | how | {"since": since, "until": until, "oracle": oracle}))
        for since, until, oracle in ((1, 21, "onnxruntime"), (22, NEWEST, "onnxruntime-16"))
        for how in (
            {"sampling_ratio": 2, "types": None},
            {"sampling_ratio": 0, "spatial_scale": 0.75},
            {"sampling_ratio": 1, "mode": "max"},
        )
    ),
    case(
        "RoiAlign",
        _REGIONS,
        _BOXES,
        _BATCH,
        **_ALIGN,
        since=16,
        coordinate_transformation_mode="output_half_pixel",
        oracle="onnxruntime-16",
    ),
]

CASES: tuple[Case, ...] = (*POOLS, *GLOBAL, *UNPOOLS, *REGIONS)
