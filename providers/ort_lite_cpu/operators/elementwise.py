"""Elementwise operators as formulas; broadcasting, storage order and fusion are the business of `lowering.fuse`.

A formula is text in the native language over {0}, {1}, ... (operands) and {s0}, ... (attributes, in the first operand's type).
"""

from typing import TYPE_CHECKING

from ort_lite.dtypes import FLOATS, INTEGERS, SIGNED
from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, like, native, span
from ort_lite_cpu.kernels.narrow import NARROW_FLOATS
from ort_lite_cpu.lowering.expression import compute_before_broadcast, define, formula_tensor
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Expression, Tensor, bits
from ort_lite_cpu.registry import NATIVE, REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

BOOL = frozenset({"bool"})
REAL_OR_INTEGER = REAL | INTEGERS

# For NaN, both terms are NaN, with different signs. Their sum would be either, depending on how the compiler orders them.
_SOFTPLUS = "select(isnan({0}), {0}, fmax({0}, like({0}, 0)) + log1p(exp(-fabs({0}))))"

# operator -> (formula, about how many nanoseconds an element takes)
_FLOAT_UNARY = {
    "Sqrt": ("sqrt({0})", 0.1), "Exp": ("exp({0})", 0.16), "Log": ("log({0})", 0.4),
    "Tanh": ("tanh({0})", 0.25), "Sigmoid": ("sigmoid({0})", 0.25), "Reciprocal": ("like({0}, 1) / {0}", 0.05),
    "Floor": ("floor({0})", 0.03), "Ceil": ("ceil({0})", 0.03), "Round": ("rint({0})", 0.03),
    "Sin": ("sin({0})", 1), "Cos": ("cos({0})", 1), "Tan": ("tan({0})", 9), "Asin": ("asin({0})", 5), "Acos": ("acos({0})", 5),
    "Atan": ("atan({0})", 5), "Sinh": ("sinh({0})", 15), "Cosh": ("cosh({0})", 6), "Asinh": ("asinh({0})", 15),
    "Acosh": ("acosh({0})", 8), "Atanh": ("atanh({0})", 16),
    "Softplus": (_SOFTPLUS, 0.5), "Softsign": ("{0} / (like({0}, 1) + fabs({0}))", 0.08),
    "HardSwish": ("{0} * fmax(like({0}, 0), fmin(like({0}, 1), {0} / like({0}, 6) + like({0}, 0.5)))", 0.05),
    "Mish": (f"{{0}} * tanh({_SOFTPLUS})", 0.8),
}  # fmt: skip

# operator -> (formula, attributes with their defaults)
_FLOAT_ATTRIBUTES: dict[str, tuple[str, list[tuple[str, float]]]] = {
    "LeakyRelu": ("select({0} >= like({0}, 0), {0}, {0} * {s0})", [("alpha", 0.01)]),
    "Elu": ("select({0} >= like({0}, 0), {0}, fma({s0}, exp({0}), -{s0}))", [("alpha", 1.0)]),
    "Celu": (
        "fmax(like({0}, 0), {0}) + fmin(like({0}, 0), fma({s0}, exp({0} / {s0}), -{s0}))",
        [("alpha", 1.0)],
    ),
    "Selu": (
        "{s1} * select({0} > like({0}, 0), {0}, fma({s0}, exp({0}), -{s0}))",
        [("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)],
    ),
    "HardSigmoid": ("fmax(like({0}, 0), fmin(like({0}, 1), fma({0}, {s0}, {s1})))", [("alpha", 0.2), ("beta", 0.5)]),
    "ThresholdedRelu": ("select({0} > {s0}, {0}, like({0}, 0))", [("alpha", 1.0)]),
    "Swish": ("{0} * sigmoid({s0} * {0})", [("alpha", 1.0)]),
}

# operator -> (formula of floats, of integers)
_BINARY = {
    "Add": ("{0} + {1}", "wadd({0}, {1})"),
    "Sub": ("{0} - {1}", "wsub({0}, {1})"),
    "Mul": ("{0} * {1}", "wmul({0}, {1})"),
}
_COMPARE = {"Equal": "==", "Less": "<", "Greater": ">", "LessOrEqual": "<=", "GreaterOrEqual": ">="}
_LOGICAL = {"And": "{0} & {1}", "Or": "{0} | {1}", "Xor": "{0} != {1}"}
_BITWISE = {"BitwiseAnd": "{0} & {1}", "BitwiseOr": "{0} | {1}", "BitwiseXor": "{0} ^ {1}"}


def operands(op: NodeLowering) -> list[Tensor]:
    """Return the inputs as they are: in any storage order, pending ones included."""
    return [op.raw(k) for k in range(len(op.node.inputs))]


def is_float(op: NodeLowering) -> bool:
    """Return True if the first input has a floating-point type."""
    return op.raw(0).dtype in REAL


@operator(*_FLOAT_UNARY, types=REAL)
def unary(op: NodeLowering) -> None:
    """Emit a floating-point function of one operand."""
    formula, cost = _FLOAT_UNARY[op.node.op_type]
    define(op, formula, operands(op), cost=cost)


@operator(*_FLOAT_ATTRIBUTES, types=REAL)
def with_attributes(op: NodeLowering) -> None:
    """Emit a floating-point function of one operand and the node's attributes."""
    formula, attributes = _FLOAT_ATTRIBUTES[op.node.op_type]
    cost = 0.25 if "exp(" in formula or "sigmoid(" in formula else 0.05
    define(op, formula, operands(op), [float(op.attr(name, default)) for name, default in attributes], cost)


@operator("Erf", since=9, types=REAL_OR_INTEGER)
def erf(op: NodeLowering) -> None:
    """Emit Erf. Integers are truncated: the result is 1 from 4 on, as float32 rounds it. Spec: ONNX Erf-9."""
    x = op.raw(0)
    formula = "erf({0})" if is_float(op) else f'cast(cast(erf(cast({{0}}, "f64")), "f32"), "{x.native}")'
    define(op, formula, [x], cost=0.25)


@operator("Shrink", since=9, types=REAL_OR_INTEGER)
def shrink(op: NodeLowering) -> None:
    """Emit Shrink. Integers are compared and moved by the bias as float64, then truncated. Spec: ONNX Shrink-9."""
    x, numbers = op.raw(0), [float(op.attr("lambd", 0.5)), float(op.attr("bias", 0.0))]
    formula = "select({0} < -{s0}, {0} + {s1}, select({0} > {s0}, {0} - {s1}, like({0}, 0)))"
    if is_float(op):
        define(op, formula, [x], numbers, 0.08)
        return
    wide = formula_tensor("float64", x, 'cast({0}, "f64")', [x])
    if numbers[1] == 0.0:
        define(op, "select(({0} < -{s0}) | ({0} > {s0}), {1}, like({1}, 0))", [wide, x], numbers[:1], 0.08)
    else:
        define(op, f'cast({formula}, "{x.native}")', [wide], numbers, 0.08)


@operator("SwiGLU", since=28, types=REAL)
def swiglu(op: NodeLowering) -> None:
    """Emit Swish of the gate times the value. Spec: ONNX SwiGLU-28."""
    define(op, "{0} * sigmoid({s0} * {0}) * {1}", operands(op), [float(op.attr("alpha", 1.0))], 0.3)


@operator("QuickGelu", domain="com.microsoft", types=REAL)
def quick_gelu(op: NodeLowering) -> None:
    """Emit x * Sigmoid(alpha * x), alpha 1.702 by default. Spec: onnxruntime QuickGelu-1."""
    define(op, "{0} * sigmoid({s0} * {0})", operands(op), [float(op.attr("alpha", 1.702))], 0.3)


_GELU = {
    "none": "fma(fabs({0} * like({0}, 0.5)), erf(fabs({0} * like({0}, 0.7071067811865476))), {0} * like({0}, 0.5))",
    "tanh": "{0} * sigmoid(like({0}, 1.5957691216057308) * fma(like({0}, 0.044715) * {0} * {0}, {0}, {0}))",
}


@operator("Gelu", since=20, types=REAL)
@operator("Gelu", domain="com.microsoft", types=REAL)
def gelu(op: NodeLowering) -> None:
    """Emit Gelu, exact or by the tanh approximation. com.microsoft's is exact."""
    define(op, _GELU[op.attr("approximate", "none")], operands(op), cost=0.35)


@operator(*_BINARY, types=REAL_OR_INTEGER)
def binary(op: NodeLowering) -> None:
    """Emit Add, Sub or Mul; integers wrap. Before opset 7 `broadcast` and `axis` say where the second operand stands."""
    floats, integers = _BINARY[op.node.op_type]
    define(op, floats if is_float(op) else integers, _align_operands(op))


def _align_operands(op: NodeLowering) -> list[Tensor]:
    a, b = operands(op)
    axis = op.attr("axis")
    if op.version < 7 and op.attr("broadcast", 0) and axis is not None:
        trailing = len(a.shape) - axis % max(len(a.shape), 1) - len(b.shape)
        b = op.view(b, (*b.shape, *(1,) * trailing))
    return [a, b]


@native
@extents(x="count")
def find_zero(x: Ptr, count: int, part: int, parts: int) -> int:
    """Fail at the first 0 of this part of x (count,), unsigned integers."""
    for i in span(count, part, parts):
        if x[i] == like(x, 0):
            return failure_status(INDEX_OUT_OF_RANGE, i)
    return OK


def _zero_divisor(failure: "Failure") -> str:
    name = failure.name(1)
    return f"element {failure.at} of the divisor {name!r} is 0; integers have no quotient and no remainder by 0"


def _check_divisor(op: NodeLowering, divisor: Tensor) -> Tensor:
    """Return the divisor of integers; the run fails if it has a 0. Known elements are not checked again."""
    constant = op.constant(1)
    known = divisor.contents if constant is None else constant.ravel().tolist()
    if known is not None and all(isinstance(element, int) and element for element in known):
        return divisor
    stored = op.store(divisor)
    op.emit(find_zero, [bits(stored)], count=stored.size, work=stored.size, message=_zero_divisor)
    return stored


@operator("Div", types=REAL_OR_INTEGER)
def div(op: NodeLowering) -> None:
    """Emit Div. Integers truncate; 0 as their divisor is an error, the smallest integer by -1 wraps. Spec: ONNX Div-14."""
    a, b = _align_operands(op)
    if is_float(op):
        define(op, "{0} / {1}", [a, b], cost=0.05)
    else:
        define(op, "idiv({0}, {1})", [a, _check_divisor(op, b)], cost=1.6)


@operator("Mod", since=10, types=REAL_OR_INTEGER)
def mod(op: NodeLowering) -> None:
    """Emit Mod, with the sign of the dividend if fmod=1, as C, else of the divisor, as Python. Integers: 0 as a divisor is an error."""
    truncated = bool(op.attr("fmod", 0))
    names = ("fmod_trunc", "fmod_floor") if is_float(op) else ("imod", "ifloormod")
    formula = f"{names[0] if truncated else names[1]}({{0}}, {{1}})"
    a, b = operands(op)
    define(op, formula, [a, b if is_float(op) else _check_divisor(op, b)], cost=12 if is_float(op) else 1.8)


@operator("Pow", types=REAL | {"int32", "int64"})
def power(op: NodeLowering) -> None:
    """Emit Pow in the base's type. Squares and square roots of constant exponents need no pow. Spec: ONNX Pow-15."""
    base, exponent = _align_operands(op)
    constant = op.constant(1)
    if constant is not None and constant.size == 1 and base.dtype in REAL and len(constant.shape) <= len(base.shape):
        special = {2.0: "{0} * {0}", 0.5: "sqrt({0})", 3.0: "{0} * {0} * {0}", 1.0: "{0}", -1.0: "like({0}, 1) / {0}"}
        formula = special.get(float(constant.reshape(-1)[0]))
        if formula is not None:
            define(op, formula, [base], cost=0.08)
            return
    if base.dtype in REAL:
        define(op, "power({0}, like({0}, {1}))", [base, exponent], cost=4)
    elif exponent.dtype in FLOATS:
        define(op, 'like({0}, power(cast({0}, "f64"), cast({1}, "f64")))', [base, exponent], cost=4)
    else:
        define(op, "ipower({0}, {1})", [base, exponent], cost=1)


@operator("Neg", "Abs", "Sign", types=REAL_OR_INTEGER)
def signs(op: NodeLowering) -> None:
    """Emit Neg, Abs or Sign for integers and floats."""
    dtype, real = op.raw(0).dtype, is_float(op)
    formulas = {
        "Neg": "-{0}" if real else "wneg({0})",
        "Abs": "fabs({0})" if real else "iabs({0})" if dtype in SIGNED else "{0}",
        "Sign": "sign({0})" if real or dtype in SIGNED else "select({0} > like({0}, 0), like({0}, 1), like({0}, 0))",
    }
    define(op, formulas[op.node.op_type], operands(op))


@operator("Relu", types=REAL_OR_INTEGER)
def relu(op: NodeLowering) -> None:
    """Emit Relu for integers and floats."""
    define(op, "fmax({0}, like({0}, 0))" if is_float(op) else "imax({0}, like({0}, 0))", operands(op))


@operator("PRelu", types=REAL_OR_INTEGER)
def prelu(op: NodeLowering) -> None:
    """Emit PRelu. Before opset 7 a slope of one dimension stands for the channels, axis 1. Spec: ONNX PRelu-16."""
    x, slope = operands(op)
    if op.version < 7 and len(slope.shape) == 1 and len(x.shape) > 2:
        slope = op.view(slope, (*slope.shape, *(1,) * (len(x.shape) - 2)))
    define(op, "select({0} >= like({0}, 0), {0}, wmul({0}, {1}))", [x, slope])


@operator("Min", "Max", types=REAL_OR_INTEGER)
def extremes(op: NodeLowering) -> None:
    """Emit Min or Max of any number of tensors; NaN wins, as in numpy.minimum."""
    _chain(op, f"{'f' if is_float(op) else 'i'}{op.node.op_type.lower()}({{0}}, {{1}})")


@operator("Sum", types=REAL)
def total(op: NodeLowering) -> None:
    """Emit Sum of any number of tensors."""
    _chain(op, "{0} + {1}")


@operator("Mean", types=REAL)
def mean(op: NodeLowering) -> None:
    """Emit Mean of any number of tensors."""
    _chain(op, "{0} + {1}", scale=1 / len(op.node.inputs))


def _chain(op: NodeLowering, formula: str, scale: float | None = None) -> None:
    """Emit formula(... formula(x0, x1) ..., xn) * `scale`, one operation each: the number of tensors varies, kernels do not."""
    info, total = op.info(), operands(op)
    assert info.dtype is not None and info.shape is not None
    while len(total) > 2 or (scale is not None and len(total) > 1):
        first = [compute_before_broadcast(op, tensor, info.shape) for tensor in total[:2]]
        total[:2] = [Tensor(info.dtype, info.shape, pending=Expression(formula, tuple(first), node=op.node))]
    if scale is None:
        define(op, formula if len(total) > 1 else "{0}", total)
    else:
        define(op, "{0} * {s0}", total, [scale])


@operator("Clip", types=REAL_OR_INTEGER)
def clip(op: NodeLowering) -> None:
    """Emit Clip. Bounds are attributes before opset 11, then optional inputs; max wins if it is below min. Spec: ONNX Clip-13."""
    lower, upper = ("fmax", "fmin") if is_float(op) else ("imax", "imin")
    if op.version < 11:
        low, high = float(op.attr("min", -3.4028234663852886e38)), float(op.attr("max", 3.4028234663852886e38))
        define(op, f"{upper}({lower}({{0}}, {{s0}}), {{s1}})", [op.raw(0)], [low, high])
        return
    inputs = [op.raw(k) for k in range(3) if op.has(k)]
    text = "{0}"
    if op.has(1):
        text = f"{lower}({text}, {{1}})"
    if op.has(2):
        text = f"{upper}({text}, {{{len(inputs) - 1}}})"
    define(op, text, [inputs[0], *(_scalar(op, bound) for bound in inputs[1:])])


def _scalar(op: NodeLowering, tensor: Tensor) -> Tensor:
    """Return a one-element tensor as a 0-d one, so that it does not take part in broadcasting."""
    return op.view(tensor, ()) if tensor.shape else tensor


@operator(*_COMPARE, types=REAL_OR_INTEGER | BOOL)
def compare(op: NodeLowering) -> None:
    """Emit a comparison of two tensors."""
    define(op, f"{{0}} {_COMPARE[op.node.op_type]} {{1}}", _align_operands(op))


@operator(*_LOGICAL, types=BOOL)
def logical(op: NodeLowering) -> None:
    """Emit And, Or or Xor of bools."""
    define(op, _LOGICAL[op.node.op_type], _align_operands(op))


@operator("Not", types=BOOL)
def negation(op: NodeLowering) -> None:
    """Emit Not of bools."""
    define(op, "not {0}", operands(op))


@operator(*_BITWISE, since=18, types=INTEGERS)
def bitwise(op: NodeLowering) -> None:
    """Emit a bitwise operator of two tensors."""
    define(op, f"like({{0}}, {_BITWISE[op.node.op_type]})", operands(op))


@operator("BitwiseNot", since=18, types=INTEGERS)
def bitwise_not(op: NodeLowering) -> None:
    """Emit BitwiseNot."""
    define(op, "like({0}, ~{0})", operands(op))


@operator("BitShift", since=11, types=INTEGERS)
def bit_shift(op: NodeLowering) -> None:
    """Emit BitShift to the left or the right."""
    define(op, f"{'shl' if op.attr('direction') == 'LEFT' else 'shr'}({{0}}, {{1}})", operands(op))


def _widen(op: NodeLowering) -> Tensor:
    """Return input 0, with 8-bit floats as pending float32."""
    x = op.raw(0)
    if x.dtype in REAL:
        return x
    from ort_lite_cpu.lowering.conversion import convert

    return convert(x, "float32")


@operator("IsNaN", since=9, types=REAL | NARROW_FLOATS.keys())
def is_nan(op: NodeLowering) -> None:
    """Emit IsNaN."""
    define(op, "isnan({0})", [_widen(op)])


@operator("IsInf", since=10, types=REAL | NARROW_FLOATS.keys())
def is_inf(op: NodeLowering) -> None:
    """Emit IsInf for both signs or one."""
    positive, negative = op.attr("detect_positive", 1), op.attr("detect_negative", 1)
    formula = "isinf({0})"
    if not positive:
        formula += " & ({0} < like({0}, 0))"
    if not negative:
        formula += " & ({0} > like({0}, 0))"
    define(op, formula, [_widen(op)])


@operator("Where", since=9, types=BOOL, moves=True)
def where(op: NodeLowering) -> None:
    """Emit Where."""
    x = op.raw(1)
    if x.dtype not in NATIVE:
        raise op.reject(f"{x.dtype}, takes {', '.join(sorted(NATIVE))}")
    define(op, "{1} if {0} else {2}" if x.dtype == "bool" else "select({0}, {1}, {2})", operands(op))
