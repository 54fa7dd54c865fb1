"""Activation functions. Their parameters are float32 attributes, used in the element type of the operand."""

import jax
import jax.numpy as jnp

from ort_lite_xla.along import except_axis, pointwise
from ort_lite_xla.operators.widening import in_float32
from ort_lite_xla.registry import FLOATS, NUMBERS, Array, Function, XlaOp, lowering

MICROSOFT = "com.microsoft"


def activate(name: str, x: Array, *given: float) -> Array:
    """Apply the activation that FusedConv, LSTM and similar operators call `name`. Missing parameters have their defaults.

    Raises KeyError for an unknown name.
    """
    defaults = PARAMETERS[name]
    return ACTIVATIONS[name](x, *(*given, *defaults[len(given) :])[: len(defaults)])


PARAMETERS: dict[str, tuple[float, ...]] = {
    "Affine": (1.0, 0.0),
    "Celu": (1.0,),
    "Clip": (-3.4028234663852886e38, 3.4028234663852886e38),
    "Elu": (1.0,),
    "HardSigmoid": (0.2, 0.5),
    "HardSwish": (),
    "LeakyRelu": (0.01,),
    "Mish": (),
    "QuickGelu": (1.702,),
    "Relu": (),
    "ScaledTanh": (1.0, 1.0),
    "Selu": (1.67326319217681884765625, 1.05070102214813232421875),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Swish": (1.0,),
    "Tanh": (),
    "ThresholdedRelu": (1.0,),
}
"""Default values of the parameters, in order."""

ACTIVATIONS = {
    "Affine": lambda x, a, b: a * x + b,
    "Celu": lambda x, a: jnp.maximum(x, 0) + jnp.minimum(a * jnp.expm1(x / a), 0),
    "Clip": jnp.clip,
    "Elu": lambda x, a: jnp.where(x < 0, a * jnp.expm1(jnp.minimum(x, 0)), x),
    "HardSigmoid": lambda x, a, b: jnp.clip(a * x + b, 0, 1),
    "HardSwish": lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda x, a: jnp.where(x < 0, a * x, x),
    "Mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    "QuickGelu": lambda x, a: x * jax.nn.sigmoid(a * x),
    "Relu": lambda x: jnp.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: a * jnp.tanh(b * x),
    "Selu": lambda x, a, g: g * jnp.where(x > 0, x, a * jnp.expm1(jnp.minimum(x, 0))),
    "Sigmoid": jax.nn.sigmoid,
    "Softplus": jax.nn.softplus,
    "Softsign": jax.nn.soft_sign,
    "Swish": lambda x, a: x * jax.nn.sigmoid(a * x),
    "Tanh": jnp.tanh,
    "ThresholdedRelu": lambda x, a: jnp.where(x > a, x, 0),
}


@in_float32
def _attributes(op: XlaOp, x: Array) -> Array:
    """Return the lowering of an operator whose parameters are its attributes alpha, beta or gamma. Spec: the operator's own page."""
    defaults = PARAMETERS[op.node.op_type]
    names = ("alpha", "gamma") if op.node.op_type == "Selu" else ("alpha", "beta")
    return activate(op.node.op_type, x, *(op.attr(name, value) for name, value in zip(names, defaults, strict=False)))


for _name, _since in {
    "Celu": 12,
    "Elu": 6,
    "HardSigmoid": 6,
    "HardSwish": 14,
    "LeakyRelu": 6,
    "Mish": 18,
    "Selu": 6,
    "Swish": 24,
    "ThresholdedRelu": 10,
}.items():
    lowering(_name, since=_since, types=FLOATS, along=pointwise)(_attributes)
lowering("QuickGelu", domain=MICROSOFT, types=FLOATS, along=pointwise)(_attributes)


@lowering("Relu", since=6, types=NUMBERS, along=pointwise)
def relu(op: XlaOp, x: Array) -> Array:
    """max(x, 0). Spec: ONNX Relu-14."""
    return jnp.maximum(x, 0)


@lowering("PRelu", since=7, types=NUMBERS, along=pointwise)
def prelu(op: XlaOp, x: Array, slope: Array) -> Array:
    """Return x, multiplied by slope below 0. Spec: ONNX PRelu-16."""
    return jnp.where(x < 0, slope * x, x)


@lowering("Gelu", since=20, types=FLOATS, along=pointwise)
@lowering("Gelu", domain=MICROSOFT, types=FLOATS, along=pointwise)
@in_float32
def gelu(op: XlaOp, x: Array) -> Array:
    """x * (1 + erf(x / sqrt 2)) / 2, or the formula with tanh. Spec: ONNX Gelu-20."""
    return jax.nn.gelu(x, approximate=op.attr("approximate", "none") == "tanh")


@lowering("FastGelu", domain=MICROSOFT, types=FLOATS, along=pointwise)
@lowering("BiasGelu", domain=MICROSOFT, types=FLOATS, along=pointwise)
@in_float32
def gelu_of_sum(op: XlaOp, x: Array, bias: Array = None) -> Array:
    """Gelu(x + bias); FastGelu is the formula with tanh. Spec: onnxruntime com.microsoft BiasGelu-1, FastGelu-1."""
    return jax.nn.gelu(x if bias is None else x + bias, approximate=op.node.op_type == "FastGelu")


@lowering("Shrink", since=9, types=NUMBERS, along=pointwise)
def shrink(op: XlaOp, x: Array) -> Array:
    """Move x by bias towards 0 if it is beyond lambd, else return 0. Spec: ONNX Shrink-9."""
    bias, edge = op.attr("bias", 0.0), op.attr("lambd", 0.5)
    wide = x.astype(jnp.result_type(x, jnp.float32))
    moved = jnp.where(wide < -edge, wide + bias, jnp.where(wide > edge, wide - bias, 0))
    return moved.astype(x.dtype)


def _normalize(op: XlaOp, x: Array, function: Function) -> Array:
    """Apply `function` along `axis`; before opset 13, over all dimensions from `axis` on as one."""
    flat = op.version < 13
    return normalize(x, function, op.attr("axis", 1 if flat else -1), flat)


def normalize(x: Array, function: Function, axis: int, flat: bool) -> Array:
    """Apply `function` along an axis of x; if `flat`, over all dimensions from the axis on as one."""
    if x.ndim == 0:
        return function(x.reshape(1), axis=0).reshape(())
    if not flat:
        return function(x, axis=axis)
    rows = x.reshape(*x.shape[: axis % x.ndim], -1) if x.size else x
    return function(rows, axis=-1).reshape(x.shape)


@lowering("Softmax", since=1, types=FLOATS, along=except_axis(-1, "lowest", before=13))
def softmax(op: XlaOp, x: Array) -> Array:
    """exp(x) / sum(exp(x)). Spec: ONNX Softmax-13."""
    return _normalize(op, x, jax.nn.softmax)


@lowering("LogSoftmax", since=1, types=FLOATS, along=except_axis(-1, "lowest", before=13))
def log_softmax(op: XlaOp, x: Array) -> Array:
    """log(softmax(x)). Spec: ONNX LogSoftmax-13."""
    return _normalize(op, x, jax.nn.log_softmax)


@lowering("Hardmax", since=1, types=FLOATS, along=except_axis(-1, "lowest", before=13))
def hardmax(op: XlaOp, x: Array) -> Array:
    """1 at the first largest element, else 0. Spec: ONNX Hardmax-13."""
    if not x.size:
        return x
    return _normalize(
        op, x, lambda rows, axis: jax.nn.one_hot(jnp.argmax(rows, axis), rows.shape[axis], dtype=rows.dtype, axis=axis)
    )
