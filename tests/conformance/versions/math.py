"""Elementwise arithmetic and functions."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.models import convert
from tests.cpu.check import ramp

INF, NAN = np.inf, np.nan
X = ramp((2, 3, 4), low=-4, high=4)
POSITIVE = ramp((2, 3), low=1, high=6)
UNIT = ramp((2, 3), low=-0.95, high=0.95)
EMPTY = np.zeros((0, 3), np.float32)
POINT = np.array(2.25, np.float32)
SPECIAL = np.array([NAN, INF, -INF, 0.0, -0.0, 1e30], np.float32)


def vector(*values: float, dtype: str = "float32") -> Array:
    return np.array(values, dtype)


def unary(op_type: str, x: Array = X, special: Array | None = SPECIAL, **more: Any) -> list[Case]:
    """One that runs in all types, and the edges: nothing, a scalar, NaN and the infinities."""
    edges = [EMPTY, POINT if np.abs(x).max() > 1 else POINT * 0.25, *([] if special is None else [special])]
    return [case(op_type, x, **more), *(case(op_type, edge, types=(), **more) for edge in edges)]


def celu(x: Array, alpha: float = 1.0) -> Array:
    return np.asarray(np.maximum(x, 0) + np.minimum(0, alpha * (np.exp(x / np.float32(alpha)) - 1))).astype(x.dtype)


def erf(x: Array) -> Array:
    """onnx.reference rounds to float32 on the way, which is right for integers alone."""
    made = np.array([math.erf(item) for item in x.astype(np.float64).ravel()]).reshape(x.shape)
    return (made if x.dtype == np.float64 else made.astype(np.float32)).astype(x.dtype)


def gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(0.5 * wide * (1 + erf(wide / np.sqrt(2)))).astype(x.dtype)


def hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x.astype(np.float64) / 6 + 0.5, 0, 1)).astype(x.dtype)


def softsign(x: Array) -> Array:
    return np.asarray(x / (1 + np.abs(x)))


def swiglu(a: Array, b: Array, alpha: float = 1.0) -> Array:
    return np.asarray(a / (1 + np.exp(-alpha * a)) * b).astype(a.dtype)


def mean(*values: Array) -> Array:
    return np.asarray(sum(values) / len(values)).astype(values[0].dtype)


def broadcast_along(function: Any) -> Any:
    """The oracle of binary operators before version 7: `b` is laid along `axis` of `a`; None: along its last axes."""

    def oracle(a: Array, b: Array, axis: int | None = None, broadcast: int = 0) -> Any:
        after = 0 if axis is None else a.ndim - axis - b.ndim
        return function(a, b.reshape(b.shape + (1,) * after)).astype(a.dtype)

    return oracle


def binary(op_type: str, function: Any, a: Array, b: Array, every_shape: bool = False) -> list[Case]:
    """Arithmetic of two operands, before and after version 7 brought NumPy's broadcasting.

    Each pair of shapes is a kernel of its own, made by what all share: one operator meets every one of them.
    """
    old: dict[str, Any] = {"until": 6, "types": (), "broadcast": 1, "oracle": broadcast_along(function)}
    new: dict[str, Any] = {"since": 7, "types": ()}
    row, column = b[0, 0], b[:, :1, :1]
    shapes = [
        case(op_type, a, row, **old),
        case(op_type, a, b[0, 0, 0], **old),
        case(op_type, a[:, 0], column, **new),
        case(op_type, EMPTY, row[:1], **new),
        case(op_type, POINT, a, **new),
    ]
    return [
        case(op_type, a, b),
        case(op_type, a, b[0, :, 0], axis=1, **old),
        case(op_type, row, column, **new),
        case(op_type, SPECIAL, np.roll(SPECIAL, 1), types=()),
        *(shapes if every_shape else []),
    ]


def wraps(op_type: str, a: Sequence[int], b: Sequence[int] = (), **more: Any) -> list[Case]:
    """Integers beyond their range come back at its other end. In int32 and, where the schema has it, in int8."""
    return [
        case(op_type, *(np.array(side, dtype) for side in (a, b) if side), types=(), **more)
        for dtype, a, b in (
            ("int32", [value << 24 for value in a], [value << 24 if op_type != "Mul" else value for value in b]),
            ("int8", a, b),
        )
    ]


A = ramp((2, 3, 4), low=-6, high=6)
B = np.where(A > 0, 2.0, 3.0).astype(np.float32)

ARITHMETIC = [
    *binary("Add", np.add, A, ramp((2, 3, 4), low=-3, high=3), every_shape=True),
    *binary("Sub", np.subtract, A, ramp((2, 3, 4), low=-3, high=3)),
    *binary("Mul", np.multiply, A, ramp((2, 3, 4), low=-3, high=3)),
    *binary("Div", np.divide, A, B),
    *wraps("Add", [127, -128, 100], [1, -1, 100]),
    *wraps("Sub", [-128, 127, 100], [1, -1, -100]),
    *wraps("Mul", [127, -128, 100], [3, 2, 7]),
    case("Div", vector(7, -7, 7, -7, dtype="int32"), vector(2, 2, -2, -2, dtype="int32"), types=()),
    case("Div", vector(-7, 7, -1, dtype="int8"), vector(2, -2, 3, dtype="int8"), types=()),
]


def power(base: Array, exponent: Array) -> Array:
    return np.asarray(base.astype(np.float64) ** exponent).astype(base.dtype)


_POW_BASE, _POW_EXPONENT = ramp((2, 3), low=0.5, high=3), np.array([[2.0, 1, 0], [3, 2, 1]], np.float32)
POWER = [
    case("Pow", _POW_BASE, _POW_EXPONENT),
    case("Pow", _POW_BASE, _POW_EXPONENT[0], types=(), until=1, broadcast=1, oracle=broadcast_along(np.power)),
    case("Pow", _POW_BASE, _POW_EXPONENT[:, 0], types=(), until=1, broadcast=1, axis=0, oracle=broadcast_along(np.power)),
    case("Pow", _POW_BASE, _POW_EXPONENT[:, :1], types=(), since=7),
    case("Pow", vector(NAN, INF, 0, -2, 1), vector(0, -1, -1, 3, NAN), types=()),
    *(
        case("Pow", convert(_POW_BASE, dtype), _POW_EXPONENT, types=(), since=12, oracle=power)
        for dtype in ("float64", "int64", "float16")  # the exponent has more types
    ),
    case("Pow", vector(3, -7, 50, dtype="int32"), vector(2, 3, 7, dtype="int32"), types=(), since=12),
    case("Pow", EMPTY, EMPTY, types=()),
]

_DIVIDEND = vector(7, -7, 7, -7, 0, 6)
_DIVISOR = vector(3, 3, -3, -3, 2, -6)
_UNSIGNED = tuple(f"uint{bits}" for bits in (8, 16, 32, 64))
_SIGNED = tuple(f"int{bits}" for bits in (8, 16, 32, 64))
REMAINDER = [
    case("Mod", _DIVIDEND, _DIVISOR, types=(*_SIGNED, "float16", "float64", "bfloat16"), fmod=1),
    case("Mod", _DIVIDEND.astype(np.int32), _DIVISOR.astype(np.int32), types=_SIGNED),
    case("Mod", abs(_DIVIDEND).astype(np.uint8), abs(_DIVISOR).astype(np.uint8), types=_UNSIGNED),
    case("Mod", abs(_DIVIDEND).astype(np.uint8), abs(_DIVISOR).astype(np.uint8), types=(), fmod=1),
    case("Mod", vector(5.3, -5.3, 5.3, INF, NAN), vector(2.1, 2.1, -2.1, 2, 2), types=(), fmod=1),
    case("Mod", ramp((2, 3), "int64"), vector(7, -4, 3, dtype="int64"), types=()),
]

UNARY = [
    *unary("Abs"), *unary("Neg"), *unary("Sign", np.array([[-2.5, 0.0, 3.0], [1.0, 0.4, -0.1]], np.float32)),
    *wraps("Abs", [-128, 127, 0]), *wraps("Neg", [-128, 127, 0]),
    *unary("Ceil"), *unary("Floor"), *unary("Round"), *unary("Exp"), *unary("Erf", oracle=erf),
    case("Round", vector(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997), types=()),
    *unary("Sqrt", POSITIVE), *unary("Log", POSITIVE), *unary("Reciprocal", POSITIVE),
    *unary("Sin", special=vector(NAN, INF, 0.0)), *unary("Cos", special=vector(NAN, INF, 0.0)),
    *unary("Tan", UNIT, special=vector(NAN, INF, 0.0)),
    *unary("Asin", UNIT), *unary("Acos", UNIT), *unary("Atan"), *unary("Sinh"), *unary("Cosh"), *unary("Tanh"),
    *unary("Asinh"), *unary("Acosh", POSITIVE), *unary("Atanh", UNIT, special=vector(NAN, 1.0, -1.0, 2.0)),
]  # fmt: skip

ACTIVATIONS = [
    *unary("Sigmoid"),
    *unary("Relu"),
    *unary("Softplus"),
    *unary("Softsign", special=vector(NAN, 0.0, 1e30), oracle=softsign),
    *unary("Elu"),
    *unary("Elu", alpha=0.5),
    *unary("Selu"),
    *unary("Selu", alpha=1.5, gamma=2.0),
    *unary("LeakyRelu", alpha=0.25),
    *unary("LeakyRelu"),
    *unary("HardSigmoid", alpha=0.5, beta=0.25),
    *unary("HardSigmoid"),
    *unary("HardSwish", oracle=hard_swish, special=vector(NAN, INF, 0.0)),
    *unary("Mish", special=vector(0.0, 30.0, -30.0, NAN)),
    *unary("Celu", oracle=celu),
    *unary("Celu", oracle=celu, alpha=2.0),
    *unary("ThresholdedRelu"),
    *unary("ThresholdedRelu", alpha=2.5),
    *unary("Gelu", oracle=gelu, special=vector(0.0, NAN, 20.0, -20.0)),
    *unary("Gelu", approximate="tanh", special=vector(0.0, NAN, 4.0, -4.0)),
    *unary("Swish", special=vector(0.0, NAN, 20.0, -20.0)),
    *unary("Swish", alpha=0.5, special=vector(0.0, NAN, 20.0)),
    *unary("Shrink"),
    *unary("Shrink", bias=1.5, lambd=0.75),
    case("SwiGLU", X, X[::-1], oracle=swiglu),
    case("SwiGLU", X, X[::-1], types=(), alpha=0.5, oracle=swiglu),
]

SLOPES = ramp((2, 3, 4), low=-1, high=2)


def prelu_along(x: Array, slope: Array) -> Array:
    """Before version 7 the slopes belong to axis 1, or are one for all."""
    slope = slope.reshape(-1, *(1,) * (x.ndim - 2)) if slope.size > 1 else slope
    return np.where(x < 0, x * slope, x)


PRELU = [
    case("PRelu", X, SLOPES[0, :, 0], until=6, oracle=prelu_along),
    case("PRelu", X, SLOPES[0, :1, 0], until=6, oracle=prelu_along, types=()),
    case("PRelu", X, SLOPES, since=7),
    case("PRelu", X, SLOPES[0, :, :1], since=7, types=()),
    case("PRelu", X, SLOPES[0, 0, :1], since=7, types=()),
    case("PRelu", EMPTY, SLOPES[0, 0, :1], since=7, types=()),
]


def several(op_type: str, every_shape: bool = False, **more: Any) -> list[Case]:
    """Max, Min, Sum and Mean of any number of inputs; of one; broadcast since version 8."""
    a, b, c = X, ramp((2, 3, 4), low=-2, high=3), np.roll(X, 5)
    shapes = [case(op_type, EMPTY, EMPTY, types=(), **more), case(op_type, POINT, a, since=8, types=(), **more)]
    return [
        case(op_type, a, b, c, **more),
        case(op_type, a, types=(), **more),
        case(op_type, a, b[:, :1], c[0, 0], since=8, types=(), **more),
        *(shapes if every_shape else []),
    ]


VARIADIC = [
    *several("Max", every_shape=True),
    *several("Min"),
    *several("Sum"),
    *several("Mean", oracle=mean),
    case("Max", vector(NAN, 1, -INF, INF), vector(0, NAN, 2, 3), types=()),
    case("Min", vector(NAN, 1, -INF, INF), vector(0, NAN, 2, 3), types=()),
    case("Sum", vector(NAN, INF, INF), vector(1, -INF, 2), types=()),
]


LARGEST = float(np.finfo(np.float32).max)


def clip(x: Array, low: Array | None = None, high: Array | None = None, **attributes: float) -> Array:
    """The bounds as attributes are those of float32 where they are not given."""
    if attributes:
        low, high = np.array(attributes.get("min", -LARGEST)), np.array(attributes.get("max", LARGEST))
    x = x if low is None else np.maximum(x, low.astype(x.dtype))
    return x if high is None else np.minimum(x, high.astype(x.dtype))


LOW, HIGH = np.array(1, np.float32), np.array(3, np.float32)
CLIP = [
    case("Clip", X, until=10, min=-1.0, max=2.0, oracle=clip),
    case("Clip", X, until=10, max=1.5, types=(), oracle=clip),
    case("Clip", SPECIAL, until=10, min=-1.0, types=(), oracle=clip),
    case("Clip", X, LOW, HIGH, since=11, oracle=clip),
    case("Clip", X, LOW, HIGH, since=11, types=(), constants=(1, 2), oracle=clip),
    case("Clip", X, None, HIGH, since=11, types=(), constants=(2,), oracle=clip),
    case("Clip", X, LOW, since=11, types=(), constants=(1,), oracle=clip),
    case("Clip", SPECIAL, LOW, HIGH, since=11, types=(), oracle=clip),
    case("Clip", X, HIGH, LOW, since=12, types=(), oracle=clip),
    case("Clip", EMPTY, LOW, HIGH, since=11, types=(), oracle=clip),
    case("Clip", vector(-100, 0, 100, dtype="int8"), None, vector(50, dtype="int8")[0], since=12, types=(), oracle=clip),
]

CASES: tuple[Case, ...] = (*ARITHMETIC, *POWER, *REMAINDER, *UNARY, *ACTIVATIONS, *PRELU, *VARIADIC, *CLIP)
