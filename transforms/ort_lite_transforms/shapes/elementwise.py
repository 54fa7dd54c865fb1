"""Elementwise operators: the output's shape is that of the input, or of the inputs broadcast together."""

from collections.abc import Callable

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, broadcast, shape_rule
from ort_lite.shapes import Dim, equal, less, maximum, minimum
from ort_lite_transforms.shapes.contents import (
    Contents,
    apply_elementwise,
    cast_contents,
    divide_towards_zero,
    remainder,
    within,
)

_UNARY: dict[str, Callable[[Dim], Dim]] = {
    "Abs": lambda x: maximum(x, -x),
    "Neg": lambda x: -x,
    "Not": lambda x: 1 - x,
    "Relu": lambda x: maximum(x, 0),
    "Sign": lambda x: less(0, x) - less(x, 0),
}
_BINARY: dict[str, Callable[[Dim, Dim], Dim]] = {
    "Add": lambda a, b: a + b,
    "And": minimum,
    "Div": divide_towards_zero,
    "Equal": equal,
    "Greater": lambda a, b: less(b, a),
    "GreaterOrEqual": lambda a, b: 1 - less(a, b),
    "Less": less,
    "LessOrEqual": lambda a, b: 1 - less(b, a),
    "Max": maximum,
    "Min": minimum,
    "Mul": lambda a, b: a * b,
    "Or": maximum,
    "Sub": lambda a, b: a - b,
    "Sum": lambda a, b: a + b,
    "Xor": lambda a, b: 1 - equal(a, b),
}


def like(op: Op, index: int = 0) -> Info:
    """An output of the type and shape of an input. Raises RankUnknown."""
    op.shape(index)
    info = op.info(index)
    return info if info.contents is None and info.constant is None else Info(info.type)


@shape_rule(
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp",
    "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "PRelu", "Reciprocal", "Round", "Selu",
    "Shrink", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "SwiGLU", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
def same_shape(op: Op) -> list[Info]:
    """y like x. PRelu broadcasts its slope to x; SwiGLU's two inputs are of one shape."""
    return [like(op)]


@shape_rule("Abs", "Neg", "Not", "Relu", "Sign")
def unary_arithmetic(op: Op) -> list[Info]:
    """y like x, with contents. Spec: ONNX Abs-13 and others."""
    contents = op.contents_or_none(0)
    if contents is None:
        return [like(op)]
    found = apply_elementwise(_UNARY[op.node.op_type], contents)
    return [op.tensor(op.dtype(0), op.shape(0), within(op.dtype(0), found))]


@shape_rule("IsInf", "IsNaN", types=("bool",))
def tests(op: Op) -> list[Info]:
    """bool, shaped like x."""
    return [op.tensor("bool", op.shape(0))]


@shape_rule("Identity")
def identity(op: Op) -> list[Info]:
    """y is x, of whatever kind it is."""
    return [op.info(0)]


def _shape(op: Op) -> tuple[Dim, ...]:
    """Both inputs broadcast; before opset 7 the second one was stretched to the first one."""
    return op.shape(0) if op.version < 7 else broadcast(op.shape(0), op.shape(1))


@shape_rule("Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Div", "Mul", "Pow", "Sub")
def arithmetic(op: Op) -> list[Info]:
    """(A) and (B) broadcast; the type is that of the first input. Spec: ONNX Add-14 and others."""
    dtype, function = op.dtype(0), _BINARY.get(op.node.op_type)
    a, b = op.contents_or_none(0), op.contents_or_none(1)
    if a is None or b is None or function is None:
        return [op.tensor(dtype, _shape(op))]
    return [op.tensor(dtype, _shape(op), within(dtype, _combine_unless_zero_division(function, a, b)))]


def _combine_unless_zero_division(function: Callable[..., Dim], *operands: Contents) -> Contents | None:
    """Return None if an element is divided by zero: the run will tell, if it comes to that."""
    try:
        return apply_elementwise(function, *operands)
    except ZeroDivisionError:
        return None


@shape_rule("Mod")
def mod(op: Op) -> list[Info]:
    """Spec: ONNX Mod-13."""
    dtype, fmod = op.dtype(0), bool(op.attr("fmod", 0))
    a, b = op.contents_or_none(0), op.contents_or_none(1)
    contents = None
    if a is not None and b is not None and 0 not in b:
        contents = within(dtype, apply_elementwise(lambda x, y: remainder(x, y, fmod), a, b))
    return [op.tensor(dtype, _shape(op), contents)]


@shape_rule(
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Or",
    "Xor",
    types=("bool",),
)
def comparison(op: Op) -> list[Info]:
    """bool, (A) and (B) broadcast. Spec: ONNX Equal-19 and others."""
    return [
        op.tensor(
            "bool", _shape(op), apply_elementwise(_BINARY[op.node.op_type], op.contents_or_none(0), op.contents_or_none(1))
        )
    ]


@shape_rule("Max", "Mean", "Min", "Sum")
def variadic(op: Op) -> list[Info]:
    """All inputs broadcast together. Spec: ONNX Max-13 and others."""
    dtype, function = op.dtype(0), _BINARY.get(op.node.op_type)
    count = len(op.inputs)
    contents = op.contents_or_none(0) if function is not None else None
    for index in range(1, count):
        if contents is not None and function is not None:
            contents = apply_elementwise(function, contents, op.contents_or_none(index))
    shape = broadcast(*[op.shape(index) for index in range(count)])
    return [op.tensor(dtype, shape, within(dtype, contents))]


@shape_rule("Clip")
def clip(op: Op) -> list[Info]:
    """y like x; limits are attributes before opset 11, scalar inputs since. Spec: ONNX Clip-13."""
    contents = op.contents_or_none(0)
    if contents is None or "min" in op.node.attributes or "max" in op.node.attributes:
        return [like(op)]
    if op.has(1):
        contents = apply_elementwise(maximum, contents, op.contents_or_none(1))
    if op.has(2) and contents is not None:
        contents = apply_elementwise(minimum, contents, op.contents_or_none(2))
    return [op.tensor(op.dtype(0), op.shape(0), contents)]


@shape_rule("Dropout", types=(0, "bool"))
def dropout(op: Op) -> list[Info]:
    """y like x, mask of the same shape: of x's type before opset 10, bool since. Spec: ONNX Dropout-13."""
    ratio = op.constant(1)
    if op.at_load and ratio is not None and ratio.size == 1 and not 0 <= float(ratio.reshape(-1)[0]) < 1:
        raise op.error(f"ratio is {ratio.reshape(-1)[0]}, expected 0 or more, and less than 1")
    mask = op.dtype(0) if op.version < 10 else "bool"
    return [like(op), op.tensor(mask, op.shape(0))]


def _target(op: Op) -> DType:
    """The element type that `to` names: a number, or before opset 6 the name of one."""
    to = op.attr("to")
    if isinstance(to, str):
        return {"FLOAT": "float32", "DOUBLE": "float64"}.get(to, to.lower())
    if to is None:
        raise op.error("attribute 'to' is missing")
    return from_onnx(to)


@shape_rule("Cast", types=(_target,))
def cast(op: Op) -> list[Info]:
    """Infer type `to`, and the shape of x. Spec: ONNX Cast-19."""
    return [_convert(op, _target(op))]


@shape_rule("CastLike", types=(1,))
def cast_like(op: Op) -> list[Info]:
    """Infer the second input's type, and the first's shape. Spec: ONNX CastLike-19."""
    return [_convert(op, op.dtype(1))]


def _convert(op: Op, dtype: DType) -> Info:
    shape, contents, constant = op.shape(0), op.contents_or_none(0), op.constant(0)
    if contents is None and constant is not None and constant.dtype.kind == "f" and constant.size <= 64:
        values = constant.reshape(-1).tolist() if constant.ndim <= 1 else [float("nan")]
        whole = all(abs(value) < 2**53 for value in values)  # False for NaN
        contents = tuple(int(value) for value in values) if whole else None
        return op.tensor(dtype, shape, within(dtype, contents) if dtype != "bool" else None)
    return op.tensor(dtype, shape, cast_contents(contents, op.dtype(0), dtype))


@shape_rule("BitCast", types=(_target,))
def bit_cast(op: Op) -> list[Info]:
    """Infer type `to`, as wide as x's, and the shape of x. Spec: ONNX BitCast-26."""
    return [op.tensor(_target(op), op.shape(0))]


RULES = [
    *same_shape,
    *unary_arithmetic,
    *tests,
    *identity,
    *arithmetic,
    *mod,
    *comparison,
    *variadic,
    *clip,
    *dropout,
    *cast,
    *cast_like,
    *bit_cast,
]
