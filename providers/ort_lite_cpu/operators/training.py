"""Adagrad, Adam and Momentum, of the domain ai.onnx.preview.training: one step of an optimiser for each tensor."""

from ort_lite_cpu.lowering.expression import define, formula_tensor
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.registry import REAL, operator

DOMAIN = "ai.onnx.preview.training"


def _groups(op: NodeLowering, count: int) -> list[list[Tensor]]:
    """Return the tensors behind rate and step, as `count` groups: weights, gradients, states; one of each for each weight."""
    each, rest = divmod(len(op.node.inputs) - 2, count)
    if rest or len(op.node.outputs) != each * (count - 1):
        got = f"{len(op.node.inputs) - 2} tensors and {len(op.node.outputs)} outputs"
        raise op.reject(f"{got}; each weight has {count} and {count - 1}")
    inputs = [op.raw(2 + k) for k in range(count * each)]
    groups = [inputs[k::each] for k in range(each)]
    for weight, *others in groups:
        for other in others:
            op.agree(other.shape, weight.shape, "the shapes of a weight and its gradient or state differ")
    return groups


def _one(op: NodeLowering, index: int) -> Tensor:
    """Return rate or step, as a scalar."""
    return op.view(op.input(index), ())


def _number(op: NodeLowering, formula: str, scalars: list[float]) -> Tensor:
    """Return a formula of rate {0} and step {1}, computed once, in float64, since 1 - 0.999 ** step cancels."""
    rate, step = _one(op, 0), _one(op, 1)
    wide = formula_tensor("float64", rate, "{0}", [rate])
    return op.builder.materialize(formula_tensor("float64", rate, formula, [wide, step], scalars))


def _attr(op: NodeLowering, name: str, default: float = 0.0) -> float:
    return float(op.attr(name, default))


@operator("Adagrad", domain=DOMAIN, types=REAL)
def adagrad(op: NodeLowering) -> None:
    """Emit Adagrad. Spec: ONNX preview training Adagrad-1."""
    rate = _number(op, "{0} / (like({0}, 1) + like({0}, {1}) * {s0})", [_attr(op, "decay_factor")])
    groups = _groups(op, 3)
    for k, (x, g, h) in enumerate(groups):
        gradient = formula_tensor(x.dtype, x, "{0} * {s0} + {1}", [x, g], [_attr(op, "norm_coefficient")])
        squares = formula_tensor(x.dtype, x, "{0} + {1} * {1}", [h, gradient])
        define(op, "{0}", [squares], output=len(groups) + k)
        define(op, "{0} - {1} * {2} / (sqrt({3}) + {s0})", [x, rate, gradient, squares], [_attr(op, "epsilon", 1e-6)], output=k)


@operator("Adam", domain=DOMAIN, types=REAL)
def adam(op: NodeLowering) -> None:
    """Emit Adam. Spec: ONNX preview training Adam-1."""
    alpha, beta = _attr(op, "alpha", 0.9), _attr(op, "beta", 0.999)
    corrected = "{0} * sqrt(like({0}, 1) - power({s0}, like({0}, {1}))) / (like({0}, 1) - power({s1}, like({0}, {1})))"
    rate = _number(op, f"({corrected}) if {{1}} > 0 else {{0}}", [beta, alpha])
    groups = _groups(op, 4)
    count = len(groups)
    for k, (x, g, v, h) in enumerate(groups):
        gradient = formula_tensor(x.dtype, x, "{0} * {s0} + {1}", [x, g], [_attr(op, "norm_coefficient")])
        mean = formula_tensor(x.dtype, x, "{0} * {s0} + {1} * {s1}", [v, gradient], [alpha, 1.0 - alpha])
        squares = formula_tensor(x.dtype, x, "{0} * {s0} + {1} * {1} * {s1}", [h, gradient], [beta, 1.0 - beta])
        define(op, "{0}", [mean], output=count + k)
        define(op, "{0}", [squares], output=2 * count + k)
        scalars = [_attr(op, "epsilon", 1e-6), 1.0 - _attr(op, "norm_coefficient_post")]
        define(op, "({0} - {1} * ({2} / (sqrt({3}) + {s0}))) * {s1}", [x, rate, mean, squares], scalars, output=k)


@operator("Momentum", domain=DOMAIN, types=REAL)
def momentum(op: NodeLowering) -> None:
    """Emit Momentum with the modes "standard" and "nesterov". Spec: ONNX preview training Momentum-1."""
    alpha = _attr(op, "alpha")
    share = _number(op, "{s0} if {1} > 0 else like({0}, 1)", [_attr(op, "beta")])
    rate = _one(op, 0)
    groups = _groups(op, 3)
    for k, (x, g, v) in enumerate(groups):
        gradient = formula_tensor(x.dtype, x, "{0} * {s0} + {1}", [x, g], [_attr(op, "norm_coefficient")])
        velocity = formula_tensor(x.dtype, x, "{0} * {s0} + {1} * {2}", [v, gradient, share], [alpha])
        define(op, "{0}", [velocity], output=len(groups) + k)
        if op.attr("mode") == "nesterov":
            define(op, "{0} - {1} * ({2} + {3} * {s0})", [x, rate, gradient, velocity], [alpha], output=k)
        else:
            define(op, "{0} - {1} * {2}", [x, rate, velocity], output=k)
