"""Elementwise operators of several operands, which broadcast as in NumPy."""

from functools import reduce

import jax.numpy as jnp
import numpy as np
from jax import lax

from ort_lite_xla.along import pointwise
from ort_lite_xla.registry import ALL, BOOL, FLOATS, INTEGERS, NUMBERS, Array, Function, XlaOp, lowering

PLAIN: dict[str, tuple[int, frozenset[str], str]] = {
    "Add": (7, NUMBERS, "add"),
    "Sub": (7, NUMBERS, "subtract"),
    "Mul": (7, NUMBERS, "multiply"),
    "And": (7, BOOL, "logical_and"),
    "Or": (7, BOOL, "logical_or"),
    "Xor": (7, BOOL, "logical_xor"),
    "Equal": (7, ALL, "equal"),
    "Greater": (7, NUMBERS, "greater"),
    "GreaterOrEqual": (12, NUMBERS, "greater_equal"),
    "Less": (7, NUMBERS, "less"),
    "LessOrEqual": (12, NUMBERS, "less_equal"),
    "BitwiseAnd": (18, INTEGERS, "bitwise_and"),
    "BitwiseOr": (18, INTEGERS, "bitwise_or"),
    "BitwiseXor": (18, INTEGERS, "bitwise_xor"),
}
"""Operator -> first opset version, element types, and the name in NumPy and JAX."""


def _by_name(name: str) -> Function:
    return lambda op, a, b: getattr(op.xp, name)(a, b)


for _op_type, (_since, _types, _name) in PLAIN.items():
    lowering(_op_type, since=_since, types=_types, host=True, along=pointwise)(_by_name(_name))


def quotient(a: Array, b: Array) -> Array:
    """Return a / b of floats that broadcast, rounded as in IEEE 754.

    XLA would compute a * (1 / b) if b is known: 49 / 49 below 1, inf / 3e38 NaN. On GPUs its own division of float32 is off
    by up to two units in the last place.
    """
    a, b = jnp.broadcast_arrays(a, b)
    b = lax.optimization_barrier(b)
    if a.dtype != np.float32:
        return lax.div(a, b)
    return lax.platform_dependent(a, b, cuda=_by_float64, rocm=_by_float64, default=lax.div)


def _by_float64(a: Array, b: Array) -> Array:
    """Return the quotient of float32, computed in float64: it has more than twice the bits, so rounding twice equals rounding once.

    The first rounding works on bits, because LLVM would turn a mere conversion back into a division of float32.
    """
    return lax.reduce_precision(lax.div(a.astype(np.float64), b.astype(np.float64)), 8, 23).astype(np.float32)


@lowering("Div", since=7, types=NUMBERS, host=True, along=pointwise)
def div(op: XlaOp, a: Array, b: Array) -> Array:
    """Return a / b, rounded towards zero for integers. Spec: ONNX Div-14."""
    if op.xp is np:
        if a.dtype.kind == "f":
            return np.divide(a, b)
        floor = np.floor_divide(a, b)
        return floor + ((floor < 0) & (floor * b != a)).astype(floor.dtype)
    return lax.div(*jnp.broadcast_arrays(a, b)) if a.dtype.kind in "iu" else quotient(a, b)


@lowering("Mod", since=10, types=NUMBERS, host=True, along=pointwise)
def mod(op: XlaOp, a: Array, b: Array) -> Array:
    """Return the remainder with the sign of b, or of a with `fmod`. Spec: ONNX Mod-13."""
    return op.xp.fmod(a, b) if op.attr("fmod", 0) else op.xp.mod(a, b)


@lowering("Pow", since=7, types=(FLOATS | {"int32", "int64"}, NUMBERS), host=True, along=pointwise)
def power(op: XlaOp, a: Array, b: Array) -> Array:
    """Return a to the power b, in the element type of a. Spec: ONNX Pow-15."""
    if op.xp is np or (a.dtype.kind in "iu" and b.dtype.kind in "iu"):
        return op.xp.power(a, b).astype(a.dtype)
    if jnp.issubdtype(a.dtype, jnp.integer):
        return jnp.trunc(jnp.power(a.astype(np.float64), b)).astype(a.dtype)
    return jnp.power(a, b.astype(a.dtype))


@lowering("BitShift", since=11, types=INTEGERS, along=pointwise)
def bit_shift(op: XlaOp, a: Array, b: Array) -> Array:
    """Shift the bits of a by b positions. A shift to the right copies the sign. Spec: ONNX BitShift-28."""
    a, b = jnp.broadcast_arrays(a, b)
    if op.attr("direction") == "LEFT":
        return lax.shift_left(a, b)
    return (lax.shift_right_arithmetic if a.dtype.kind == "i" else lax.shift_right_logical)(a, b)


@lowering("Max", since=8, types=NUMBERS, host=True, along=pointwise)
def maximum(op: XlaOp, *operands: Array) -> Array:
    """The largest, or NaN. Spec: ONNX Max-13."""
    return reduce(op.xp.maximum, operands)


@lowering("Min", since=8, types=NUMBERS, host=True, along=pointwise)
def minimum(op: XlaOp, *operands: Array) -> Array:
    """The smallest, or NaN. Spec: ONNX Min-13."""
    return reduce(op.xp.minimum, operands)


@lowering("Sum", since=8, types=FLOATS, along=pointwise)
def total(op: XlaOp, *operands: Array) -> Array:
    """The sum. Spec: ONNX Sum-13."""
    return reduce(jnp.add, operands)


@lowering("Mean", since=8, types=FLOATS, along=pointwise)
def mean(op: XlaOp, *operands: Array) -> Array:
    """The mean. Spec: ONNX Mean-13."""
    return reduce(jnp.add, operands) / len(operands)


@lowering("Where", since=9, types=(BOOL, ALL), host=True, along=pointwise)
def where(op: XlaOp, condition: Array, a: Array, b: Array) -> Array:
    """Return a where the condition holds, else b. Spec: ONNX Where-16."""
    return op.xp.where(condition, a, b)


@lowering("Clip", since=11, types=NUMBERS, host=True, along=pointwise)
def clip(op: XlaOp, x: Array, low: Array = None, high: Array = None) -> Array:
    """min(max(x, low), high). Spec: ONNX Clip-13."""
    raised = x if low is None else op.xp.maximum(x, low)
    return raised if high is None else op.xp.minimum(raised, high)


@lowering("Clip", since=6, types=FLOATS, along=pointwise)
def clip_by_attributes(op: XlaOp, x: Array) -> Array:
    """Clip to limits that are attributes. Spec: ONNX Clip-6."""
    limit = float(np.finfo(np.float32).max)
    return jnp.clip(x, op.attr("min", -limit), op.attr("max", limit))
