"""Quantised numbers."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.casting import CODES
from tests.cpu.check import ramp

X = ramp((2, 4, 3), low=-6, high=6)
SCALE, ZERO = np.array(0.5, np.float32), np.array(0, np.uint8)
SCALES = np.array([0.5, 0.25, 2.0, 1.0], np.float32)
_WIDE = np.array([[1e6, -1e6, 0.5, 1.5], [2.5, -0.5, 127.5, np.inf]], np.float32)
_FIXED: dict[str, Any] = {"types": (), "constants": (1, 2)}

QUANTIZE = [
    case("QuantizeLinear", X, SCALE, ZERO, constants=(1, 2)),
    case("QuantizeLinear", X, SCALE, **_FIXED),
    case("QuantizeLinear", X, SCALE, np.array(128, np.uint8), **_FIXED),
    case("QuantizeLinear", X, SCALE, np.array(-5, np.int8), **_FIXED),
    case("QuantizeLinear", _WIDE, np.array(1, np.float32), np.array(0, np.int8), oracle="onnxruntime-13", **_FIXED),
    # Between these versions one type variable stood for the numbers and their scale.
    case("QuantizeLinear", X.round().astype(np.int32) * 3, SCALE, ZERO, until=18, **_FIXED),
    case("QuantizeLinear", X.round().astype(np.int32) * 3, SCALE, ZERO, since=23, **_FIXED),
    case("QuantizeLinear", X, SCALES, np.array([0, 1, 2, 3], np.uint8), since=13, axis=1, **_FIXED),
    case("QuantizeLinear", X, SCALES[:3], np.array([0, 1, 2], np.int8), since=13, axis=-1, **_FIXED),
    case("QuantizeLinear", X, SCALES[:3], np.array([0, 1, 2], np.uint16), since=21, axis=2, **_FIXED),
    case(
        "QuantizeLinear",
        X,
        ramp((2, 2, 3), low=0.5, high=2),
        ramp((2, 2, 3), "int8") // 8,
        since=21,
        axis=1,
        block_size=2,
        **_FIXED,
    ),
    case("QuantizeLinear", X, SCALE, since=21, output_dtype=CODES["int16"], **_FIXED),
    case("QuantizeLinear", X.astype(np.float16), SCALE.astype(np.float16), ZERO, since=19, **_FIXED),
    case("QuantizeLinear", X.astype(np.float16), SCALE, ZERO, since=23, **_FIXED),
    case("QuantizeLinear", X[:0], SCALE, ZERO, **_FIXED),
]


def dequantized(x: Array, scale: Array, zero: Array | None = None, axis: int = 1) -> Array:
    """Scales and zero points are one for all or one for each along the axis."""
    fit = [1] * x.ndim
    if scale.ndim:
        fit[axis] = -1
    wide = x.astype(np.float32) - (0 if zero is None else zero.astype(np.float32).reshape(fit))
    return np.asarray(wide * scale.reshape(fit))


_CODES = ramp((2, 4, 3), "uint8")
DEQUANTIZE = [
    one
    for how in ({"until": 18, "oracle": dequantized}, {"since": 19})
    for one in (
        case("DequantizeLinear", _CODES % 7, SCALE, np.array(0, np.uint8), constants=(1, 2), **how),
        case("DequantizeLinear", _CODES, SCALE, **(_FIXED | how)),
        case("DequantizeLinear", _CODES, SCALE, np.array(128, np.uint8), **(_FIXED | how)),
        case("DequantizeLinear", _CODES.view(np.int8), SCALE, np.array(-5, np.int8), **(_FIXED | how)),
        case("DequantizeLinear", ramp((2, 3), "int32") * 1000, SCALE, **(_FIXED | how)),
        case("DequantizeLinear", _CODES, SCALES, np.array([0, 1, 2, 3], np.uint8), **({"since": 13} | _FIXED | how)),
        case("DequantizeLinear", _CODES, SCALES[:3], np.array([0, 1, 2], np.uint8), axis=-1, **({"since": 13} | _FIXED | how)),
        case("DequantizeLinear", _CODES[:0], SCALE, **(_FIXED | how)),
    )
] + [
    case("DequantizeLinear", _CODES, SCALE.astype(np.float16), since=19, **_FIXED),
    case(
        "DequantizeLinear",
        _CODES,
        ramp((2, 2, 3), low=0.5, high=2),
        ramp((2, 2, 3), "uint8"),
        since=21,
        axis=1,
        block_size=2,
        **_FIXED,
    ),
    case("DequantizeLinear", _CODES, SCALE, since=23, output_dtype=CODES["float16"], **_FIXED),
]

DYNAMIC = [
    case("DynamicQuantizeLinear", X, outputs=3),
    case("DynamicQuantizeLinear", abs(X), outputs=3),
    case("DynamicQuantizeLinear", -abs(X), outputs=3),
    case("DynamicQuantizeLinear", np.zeros((2, 2), np.float32), outputs=3, oracle="onnxruntime"),
]

_F = np.float32
A, B = ramp((2, 3), "uint8"), ramp((3, 4), "uint8")
_AB = (A, np.array(0.05, _F), np.array(7, np.uint8), B, np.array(0.1, _F), np.array(11, np.uint8))
_MATMUL: dict[str, Any] = {"constants": (1, 2, 3, 4, 5, 6, 7), "types": ()}
MATMUL = [
    case("QLinearMatMul", *_AB, np.array(0.5, _F), np.array(100, np.uint8), **(_MATMUL | {"types": None})),
    case(
        "QLinearMatMul",
        A.view(np.int8),
        _AB[1],
        np.array(7, np.int8),
        B.view(np.int8),
        _AB[4],
        np.array(-3, np.int8),
        np.array(0.5, _F),
        np.array(10, np.int8),
        **_MATMUL,
    ),
    case(
        "QLinearMatMul",
        *_AB[:3],
        B.view(np.int8),
        np.array([0.1, 0.2, 0.05, 0.3], _F),
        np.array([1, 2, 3, 4], np.int8),
        np.array(0.5, _F),
        np.array(100, np.uint8),
        oracle="onnxruntime",
        **_MATMUL,
    ),
    case("QLinearMatMul", A[:0], *_AB[1:], np.array(0.5, _F), np.array(100, np.uint8), **_MATMUL),
]

IMAGE, KERNEL = ramp((1, 2, 5, 4), "uint8"), ramp((3, 2, 3, 3), "int8")
_CONV: dict[str, Any] = {"oracle": "onnxruntime", "types": (), "constants": (1, 2, 3, 4, 5, 6, 7, 8)}
_SCALED = (np.array(0.1, _F), np.array(9, np.uint8))
_OUT = (np.array(2.0, _F), np.array(100, np.uint8))
CONV = [
    case("QLinearConv", IMAGE, *_SCALED, KERNEL, np.array(0.2, _F), np.array(0, np.int8), *_OUT, **_CONV),
    case(
        "QLinearConv",
        IMAGE,
        *_SCALED,
        KERNEL,
        np.array([0.2, 0.1, 0.3], _F),
        np.zeros(3, np.int8),
        *_OUT,
        np.array([10, -20, 3000], np.int32),
        pads=[1, 1, 1, 1],
        strides=[2, 1],
        **_CONV,
    ),
    case("QLinearConv", IMAGE, *_SCALED, KERNEL.view(np.uint8), np.array(0.2, _F), np.array(100, np.uint8), *_OUT, **_CONV),
    case(
        "QLinearConv",
        IMAGE.view(np.int8),
        np.array(0.1, _F),
        np.array(3, np.int8),
        KERNEL,
        np.array(0.2, _F),
        np.array(0, np.int8),
        np.array(2.0, _F),
        np.array(-5, np.int8),
        **_CONV,
    ),
]

CASES: tuple[Case, ...] = (*QUANTIZE, *DEQUANTIZE, *DYNAMIC, *MATMUL, *CONV)
