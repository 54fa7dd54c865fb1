"""Comparisons, bools and bits."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.math import EMPTY, SPECIAL
from tests.cpu.check import ramp

A = ramp((2, 3, 4), low=-3, high=3)
B = np.where(ramp((2, 3, 4)) > 0, A, -A)
P, Q = ramp((2, 3), "bool"), np.array([[True, True, False], [False, True, False]])


def along(function: Any) -> Any:
    """The oracle of version 1, which lays `b` along an axis of `a`."""

    def oracle(a: Array, b: Array, broadcast: int = 0, axis: int | None = None) -> Array:
        after = 0 if axis is None else a.ndim - axis - b.ndim
        return np.asarray(function(a, b.reshape(b.shape + (1,) * after)))

    return oracle


def compared(op_type: str, function: Any, every_shape: bool = False) -> list[Case]:
    """`every_shape`: each pair of shapes is a kernel of its own, made by what all share: one operator meets all of them."""
    new: dict[str, Any] = {"since": 7, "types": ()}
    old: dict[str, Any] = {"until": 6, "types": (), "oracle": along(function), "broadcast": 1}
    first = [
        case(op_type, A, B, until=6, oracle=along(function)),
        case(op_type, A, B[0, 0], **old),
        case(op_type, A, B[0, :, 0], axis=1, **old),
    ]
    shapes = [case(op_type, A, np.array(0.5, np.float32), **new), case(op_type, EMPTY, A[0, 0, :3], **new)]
    return [
        *([] if op_type.endswith("OrEqual") else first),
        case(op_type, A, B, since=7),
        case(op_type, A[0, 0], B[:, :1, :1], **new),
        case(op_type, SPECIAL, np.roll(SPECIAL, 1), **new),
        case(op_type, SPECIAL, SPECIAL, **new),
        case(op_type, np.array([2**53, -1], np.int64), np.array([2**53 + 1, -1], np.int64), **new),
        case(op_type, np.array([2**64 - 1, 0], np.uint64), np.array([1, 0], np.uint64), **new),
        *(shapes if every_shape else []),
    ]


_INT_A, _INT_B = A.round().astype(np.int32), B.round().astype(np.int32)
EQUAL = [
    case("Equal", _INT_A, _INT_B, since=7),
    case("Equal", _INT_A, _INT_B, until=6, oracle=along(np.equal)),
    case("Equal", _INT_A, _INT_B[0, :, 0], until=6, types=(), oracle=along(np.equal), broadcast=1, axis=1),
    case("Equal", P, Q, since=7, types=()),
    case("Equal", _INT_A, _INT_B[:, :1], since=7, types=()),
    case("Equal", SPECIAL, SPECIAL, since=11, types=()),
    case("Equal", np.array(["a", "b", ""], object), np.array(["a", "B", ""], object), since=19, types=()),
    case("Equal", np.zeros((0, 2), np.int32), np.zeros((1, 2), np.int32), since=7, types=()),
]


def boolean(op_type: str, function: Any) -> list[Case]:
    return [
        case(op_type, P, Q),
        case(op_type, P, Q[0], until=6, oracle=along(function), broadcast=1),
        case(op_type, P, Q[:, 0], until=6, oracle=along(function), broadcast=1, axis=0),
        case(op_type, P, Q[:, :1], since=7),
        case(op_type, P, np.array(True), since=7),
        case(op_type, np.zeros((0, 3), bool), Q[:1], since=7),
    ]


def bitwise(op_type: str) -> list[Case]:
    a, b = ramp((2, 3, 4), "int32"), np.roll(ramp((2, 3, 4), "int32"), 3)
    return [
        case(op_type, a, b),
        case(op_type, a, b[:, :1], types=()),
        case(op_type, a[0, 0, 0], b, types=()),
        case(op_type, np.zeros((0,), np.int32), b[0, 0, :1], types=()),
    ]


def shift(x: Array, by: Array, direction: str) -> Array:
    """Beyond the width of the type nothing is left, or the sign alone."""
    width = 8 * x.dtype.itemsize
    if direction == "LEFT":
        return np.where(by < width, x << np.minimum(by, width - 1), 0).astype(x.dtype)
    last = np.asarray(x < 0).astype(x.dtype) * x.dtype.type(-1) if x.dtype.kind == "i" else np.zeros_like(x)
    return np.where(by < width, x >> np.minimum(by, width - 1), last).astype(x.dtype)


_BITS, _BY = np.array([[1, 100, 255], [128, 3, 7]], np.uint8), np.array([[1, 2, 7], [0, 5, 3]], np.uint8)
_SIGNED, _FEW = (_BITS // 4).astype(np.int8) - 20, (_BY % 3).astype(np.int8)
SHIFTS = [
    case("BitShift", _BITS, _BY, oracle=shift, direction="LEFT"),
    case("BitShift", _BITS, _BY, types=("uint64",), oracle=shift, direction="RIGHT"),
    case("BitShift", _BITS, _BY[:, :1], types=(), oracle=shift, direction="RIGHT"),
    case("BitShift", _SIGNED, _FEW, since=28, types=(), oracle=shift, direction="LEFT"),
    case("BitShift", _SIGNED, _FEW, since=28, types=("int64",), oracle=shift, direction="RIGHT"),
    case("BitShift", np.zeros((0,), np.uint8), _BY[0, :1], types=(), oracle=shift, direction="LEFT"),
]


def isinf(x: Array, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    wide = x.astype(np.float32)
    return np.asarray(((wide == np.inf) & bool(detect_positive)) | ((wide == -np.inf) & bool(detect_negative)))


_ODD = np.array([[0.0, np.nan, np.inf], [-np.inf, 1.0, 3.0]], np.float32)
KINDS = [
    case("IsNaN", _ODD, oracle=lambda x: np.isnan(x.astype(np.float32))),
    case("IsNaN", EMPTY, types=()),
    case("IsInf", _ODD, oracle=isinf),
    case("IsInf", _ODD, oracle=isinf, types=(), detect_negative=0),
    case("IsInf", _ODD, oracle=isinf, types=(), detect_positive=0),
    case("IsInf", EMPTY, types=(), oracle=isinf),
]

CHOICE = [
    case("Where", A > B, A, B),
    case("Where", P[..., None], A, B, types=()),
    case("Where", P[:1, :, None], A[:, :1], B, types=()),
    case("Where", np.array(True), A, B[0], types=()),
    case("Where", np.zeros((0, 1), bool), A[0, 0], A[0, 0], types=()),
]

CASES: tuple[Case, ...] = (
    *compared("Greater", np.greater, every_shape=True),
    *compared("Less", np.less),
    *compared("GreaterOrEqual", np.greater_equal),
    *compared("LessOrEqual", np.less_equal),
    *EQUAL,
    *boolean("And", np.logical_and),
    *boolean("Or", np.logical_or),
    *boolean("Xor", np.logical_xor),
    case("Not", P),
    case("Not", np.array(False)),
    case("Not", np.zeros((0, 2), bool)),
    *bitwise("BitwiseAnd"),
    *bitwise("BitwiseOr"),
    *bitwise("BitwiseXor"),
    case("BitwiseNot", ramp((2, 3), "int32")),
    case("BitwiseNot", np.zeros((0,), np.int32), types=()),
    *SHIFTS,
    *KINDS,
    *CHOICE,
)
