"""The last step of an epilogue. Relu and Clip are limits inside the register tile; the others are a pass over a block."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, exp, fabs, fmax, fmin, like, log, native, select, shift, sigmoid, span, tanh
from ort_lite.record import Record
from ort_lite_cpu.kernels.halves import round_to_half


class Activation(Record):
    """An activation: ONNX operator `kind` with its attributes alpha and beta, or "" for the limits `low` and `high` alone.

    A 16-bit float in front ("float16 HardSwish") rounds the sums to it before and after the operator; a 16-bit float alone rounds
    them once.
    """

    kind: str = ""
    low: float = -math.inf
    high: float = math.inf
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of kernels with an activation, by the names of the kernels' parameters."""
        return {"kind": self.kind, "act": ActivationParameters(self.low, self.high, self.alpha, self.beta)}


class ActivationParameters(NamedTuple):
    """Limits of a result, and the attributes of its activation."""

    low: float
    high: float
    alpha: float
    beta: float


NONE = Activation()
"""No activation."""

_LIMITS = {"": (-math.inf, math.inf), "Relu": (0.0, math.inf), "Clip": (-math.inf, math.inf)}
_DEFAULTS = {
    "Elu": (1.0, 0.0),
    "HardSigmoid": (0.2, 0.5),
    "HardSwish": (1 / 6, 0.5),
    "LeakyRelu": (0.01, 0.0),
    "Selu": (1.6732632, 1.0507010),
    "Sigmoid": (0.0, 0.0),
    "Softplus": (0.0, 0.0),
    "Softsign": (0.0, 0.0),
    "Swish": (1.0, 0.0),
    "Tanh": (0.0, 0.0),
    "ThresholdedRelu": (1.0, 0.0),
}


KINDS = tuple(_DEFAULTS)
"""The kinds that `activate` applies to every float type."""
KINDS_OF_HALVES = tuple(
    f"{half} {kind}".strip()
    for half in ("float16", "bfloat16")
    for kind in ("", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid")
)
"""The kinds that round to a 16-bit float."""


def activation(name: str, params: Sequence[float] = ()) -> Activation | None:
    """Return the activation for an operator's name and its parameters in com.microsoft's fused operators, or None."""
    defaults = _LIMITS.get(name) or _DEFAULTS.get(name)
    if defaults is None:
        return None
    first, second = (*map(float, params), *defaults[len(params) :])[:2]
    return Activation(low=first, high=second) if name in _LIMITS else Activation(name, alpha=first, beta=second)


def parameter_counts(name: str) -> tuple[int, ...]:
    """Return the numbers of parameters that com.microsoft's fused operators may give the activation."""
    return (2,) if name in ("Clip", "HardSigmoid", "HardSwish") else (1, 2)


@native
def activate(c: Ptr, ldc: int, m: int, n: int, alpha: float, beta: float, kind: Static) -> None:
    """c (m, n), row stride ldc, = kind(c) in place. Rows without gaps are one long row, because short loops are slow."""
    a, b, zero, one = like(c, alpha), like(c, beta), like(c, 0), like(c, 1)
    rows, columns = (1, m * n) if ldc == n else (m, n)
    for i in range(rows):
        for j in range(i * ldc, i * ldc + columns):
            x = c[j]
            if kind == "LeakyRelu":
                c[j] = leaky_relu(x, a)
            elif kind == "ThresholdedRelu":
                c[j] = select(x > a, x, zero)
            elif kind == "Sigmoid":
                c[j] = sigmoid(x)
            elif kind == "Swish":
                c[j] = x * sigmoid(x * a)
            elif kind == "Tanh":
                c[j] = tanh(x)
            elif kind == "HardSigmoid":
                c[j] = hard_sigmoid(x, a, b)
            elif kind == "HardSwish":
                c[j] = hard_swish(x, a, b)
            elif kind == "Elu":
                c[j] = select(x < zero, (exp(x) - one) * a, x)
            elif kind == "Selu":
                c[j] = select(x < zero, (exp(x) - one) * a, x) * b
            elif kind == "Softplus":
                c[j] = fmax(x, zero) + log(exp(-fabs(x)) + one)
            elif kind == "Softsign":
                c[j] = x / (fabs(x) + one)
            else:
                c[j] = activate_half(x, a, b, kind)


@native
@extents(y="walk(at, rows, ld, columns, 1)")
def activate_rows(
    y: Ptr, rows: int, columns: int, at: int, ld: int, alpha: float, beta: float, kind: Static, part: int, parts: int
) -> int:
    """y[at + i * ld + j] = kind(y[at + i * ld + j]), as an epilogue does, over its whole result. Parts share runs of 1,024."""
    runs = (columns + 1023) // 1024
    for job in span(rows * runs, part, parts):
        begin = job % runs * 1024
        activate(shift(y, at + job // runs * ld + begin), 0, 1, min(columns - begin, 1024), alpha, beta, kind)
    return OK


@native
def activate_half(x: float, a: float, b: float, kind: Static) -> float:
    """Return x rounded to a 16-bit float, the first word of `kind`, or the rounded result of the activation in its second word."""
    result = x
    if kind == "float16":
        result = round_to_half(x, "float16")
    elif kind == "float16 HardSigmoid":
        result = round_to_half(hard_sigmoid(round_to_half(x, "float16"), a, b), "float16")
    elif kind == "float16 HardSwish":
        result = round_to_half(hard_swish(round_to_half(x, "float16"), a, b), "float16")
    elif kind == "float16 LeakyRelu":
        result = round_to_half(leaky_relu(round_to_half(x, "float16"), a), "float16")
    elif kind == "float16 Sigmoid":
        result = round_to_half(sigmoid(round_to_half(x, "float16")), "float16")
    elif kind == "bfloat16":
        result = round_to_half(x, "bfloat16")
    elif kind == "bfloat16 HardSigmoid":
        result = round_to_half(hard_sigmoid(round_to_half(x, "bfloat16"), a, b), "bfloat16")
    elif kind == "bfloat16 HardSwish":
        result = round_to_half(hard_swish(round_to_half(x, "bfloat16"), a, b), "bfloat16")
    elif kind == "bfloat16 LeakyRelu":
        result = round_to_half(leaky_relu(round_to_half(x, "bfloat16"), a), "bfloat16")
    elif kind == "bfloat16 Sigmoid":
        result = round_to_half(sigmoid(round_to_half(x, "bfloat16")), "bfloat16")
    return result


@native
def leaky_relu(x: float, a: float) -> float:
    """Return x, or x * a if x is negative."""
    result: float = select(x < like(x, 0), x * a, x)
    return result


@native
def hard_sigmoid(x: float, a: float, b: float) -> float:
    """Return x * a + b within [0, 1]."""
    result: float = fmax(like(x, 0), fmin(like(x, 1), x * a + b))
    return result


@native
def hard_swish(x: float, a: float, b: float) -> float:
    """Return x * hard_sigmoid(x)."""
    return x * hard_sigmoid(x, a, b)
