"""Elementwise operators of one operand."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ort_lite_xla.along import pointwise
from ort_lite_xla.registry import ALL, BOOL, FLOATS, INTEGERS, NUMBERS, Array, Function, XlaOp, lowering

SIGNED_NUMBERS = FLOATS | {"int8", "int16", "int32", "int64"}
FUNCTIONS: dict[str, tuple[int, Function]] = {
    "Acos": (7, jnp.arccos),
    "Acosh": (9, jnp.arccosh),
    "Asin": (7, jnp.arcsin),
    "Asinh": (9, jnp.arcsinh),
    "Atan": (7, jnp.arctan),
    "Atanh": (9, jnp.arctanh),
    "Cos": (7, jnp.cos),
    "Cosh": (9, jnp.cosh),
    "Erf": (9, jax.scipy.special.erf),
    "Exp": (6, jnp.exp),
    "Log": (6, jnp.log),
    "Round": (11, jnp.round),  # halves to even
    "Sigmoid": (6, jax.nn.sigmoid),
    "Sin": (7, jnp.sin),
    "Sinh": (9, jnp.sinh),
    "Softplus": (1, jax.nn.softplus),
    "Softsign": (1, jax.nn.soft_sign),
    "Tan": (7, jnp.tan),
    "Tanh": (6, jnp.tanh),
}
"""Floating-point functions that JAX defines as ONNX does: operator -> first opset version, function."""


def _plain(function: Function) -> Function:
    return lambda op, x: function(x)


for _name, (_since, _function) in FUNCTIONS.items():
    lowering(_name, since=_since, types=FLOATS, along=pointwise)(_plain(_function))


@lowering("Abs", since=6, types=NUMBERS, host=True, along=pointwise)
def absolute(op: XlaOp, x: Array) -> Array:
    """Return |x|. Spec: ONNX Abs-13."""
    return op.xp.abs(x)


@lowering("Neg", since=6, types=SIGNED_NUMBERS, host=True, along=pointwise)
def negative(op: XlaOp, x: Array) -> Array:
    """Return -x. Spec: ONNX Neg-13."""
    return op.xp.negative(x)


@lowering("Ceil", since=6, types=FLOATS, host=True, along=pointwise)
def ceil(op: XlaOp, x: Array) -> Array:
    """Round up to an integer. Spec: ONNX Ceil-13."""
    return op.xp.ceil(x)


@lowering("Floor", since=6, types=FLOATS, host=True, along=pointwise)
def floor(op: XlaOp, x: Array) -> Array:
    """Round down to an integer. Spec: ONNX Floor-13."""
    return op.xp.floor(x)


@lowering("Sqrt", since=6, types=FLOATS, host=True, along=pointwise)
def sqrt(op: XlaOp, x: Array) -> Array:
    """Return the square root, NaN below 0. Spec: ONNX Sqrt-13."""
    return op.xp.sqrt(x)


@lowering("Reciprocal", since=6, types=FLOATS, host=True, along=pointwise)
def reciprocal(op: XlaOp, x: Array) -> Array:
    """Return 1 / x. Spec: ONNX Reciprocal-13."""
    return op.xp.reciprocal(x)


@lowering("Sign", since=9, types=NUMBERS, host=True, along=pointwise)
def sign(op: XlaOp, x: Array) -> Array:
    """Return -1, 0 or 1. Spec: ONNX Sign-13."""
    return op.xp.sign(x)


@lowering("Not", since=1, types=BOOL, host=True, along=pointwise)
def logical_not(op: XlaOp, x: Array) -> Array:
    """Negate x. Spec: ONNX Not-1."""
    return op.xp.logical_not(x)


@lowering("BitwiseNot", since=18, types=INTEGERS, host=True, along=pointwise)
def bitwise_not(op: XlaOp, x: Array) -> Array:
    """Invert all bits. Spec: ONNX BitwiseNot-18."""
    return op.xp.invert(x)


@lowering("Identity", since=1, types=ALL, host=True, along=pointwise)
def identity(op: XlaOp, x: Array) -> Array:
    """Return x. Spec: ONNX Identity-24."""
    return x


@lowering("IsNaN", since=9, types=FLOATS, along=pointwise)
def is_nan(op: XlaOp, x: Array) -> Array:
    """Test for NaN. Spec: ONNX IsNaN-20."""
    return jnp.isnan(x)


@lowering("IsInf", since=10, types=FLOATS, along=pointwise)
def is_inf(op: XlaOp, x: Array) -> Array:
    """Test for infinities of the signs that the attributes ask for. Spec: ONNX IsInf-20."""
    up = jnp.isposinf(x) if op.attr("detect_positive", 1) else jnp.zeros(x.shape, bool)
    return up | jnp.isneginf(x) if op.attr("detect_negative", 1) else up


@lowering("Cast", since=6, types=ALL, host=True, along=pointwise)
@lowering("CastLike", since=15, types=ALL, host=True, along=pointwise)
def cast(op: XlaOp, x: Array, like: Array = None) -> Array:
    """Convert x to the element type of the output. Floats are rounded towards zero to integers. Spec: ONNX Cast-25."""
    target = op.dtype()
    if op.xp is np:
        return x.astype(target)
    return x != 0 if target == np.bool_ else lax.convert_element_type(x, target)
