"""Operators of com.microsoft on quantized tensors."""

from ort_lite.testing.generator.arrays import Contents, between
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT, SCALES
from ort_lite.testing.generator.recipes.microsoft_products import window

WHOLE: Contents = between(-(1 << 31), (1 << 31) - 1)
"""The whole range of an element type of up to 32 bits."""


def level(draw: Draw, index: int, shape: Shape = (), optional: bool = False) -> list[str]:
    """Return the scale and zero point for inputs `index` and `index` + 1."""
    zero = "" if optional and draw.chance(0.2) else draw.tensor(index + 1, shape, WHOLE)
    return [draw.tensor(index, shape, SCALES), zero]


def integer_operand(draw: Draw, index: int, shape: Shape) -> str:
    """Return a quantized operand, usually spread over the whole range of its type."""
    return draw.tensor(index, shape, WHOLE if draw.chance(0.7) else None)


@recipe("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def q_linear_binary(draw: Draw) -> NodeProposal:
    """Draw two quantized operands whose shapes broadcast, with scales and zero points."""
    shape = draw.shape(0, 4)
    return call(
        [
            integer_operand(draw, 0, shape),
            *level(draw, 1, optional=True),
            integer_operand(draw, 3, draw.broadcastable(shape)),
            *level(draw, 4, optional=True),
            *level(draw, 6, optional=True),
        ]
    )


@recipe("QLinearWhere", domain=MICROSOFT)
def q_linear_where(draw: Draw) -> NodeProposal:
    """Draw a condition and two quantized operands, whose shapes broadcast. Zero points that are fed crash onnxruntime at times."""
    shape, constant = draw.shape(0, 4), draw.chance(0.8) or None
    operands = [draw.tensor(0, shape)]
    for index in (1, 4):
        operands.append(integer_operand(draw, index, draw.broadcastable(shape, wider=False)))
        operands += [draw.tensor(index + 1, (), SCALES), draw.tensor(index + 2, (), WHOLE, constant)]
    return call([*operands, *level(draw, 7)])


@recipe("QLinearLeakyRelu", "QLinearSigmoid", domain=MICROSOFT)
def q_linear_unary(draw: Draw) -> NodeProposal:
    """Draw an operand. An omitted last zero point is an empty name, because onnxruntime reads it without counting the inputs."""
    operands = [integer_operand(draw, 0, draw.shape(0, 4)), *level(draw, 1, optional=True), *level(draw, 3, optional=True)]
    alpha = draw.number()
    return NodeProposal(
        tuple(operands), (True,), {"alpha": alpha} if draw.op_type == "QLinearLeakyRelu" and draw.chance(0.7) else {}
    )


@recipe("QLinearSoftmax", domain=MICROSOFT)
def q_linear_softmax(draw: Draw) -> NodeProposal:
    """Draw an operand. Before opset 13 everything from the axis on is one row."""
    shape = draw.shape(1, 4)
    operands = [integer_operand(draw, 0, shape), *level(draw, 1, optional=True), *level(draw, 3)]
    return call(operands, axis=draw.maybe(draw.axis(len(shape)), 0.8), opset=draw.integer(7, 22))


@recipe("QLinearConcat", domain=MICROSOFT)
def q_linear_concat(draw: Draw) -> NodeProposal:
    """Draw inputs whose types may differ from the result's. The target binds either."""
    own = draw.types["T8"]
    first = draw.types["TV"]
    if first not in (own, "float32"):
        draw.types["T8"] = own = first
    shape = draw.shape(1, 4)
    axis = draw.axis(len(shape))
    operands = [draw.tensor_of("float32", (), SCALES), draw.tensor_of(own, (), WHOLE)]
    for _ in range(draw.integer(1, 3)):
        sizes = list(shape)
        sizes[axis] = draw.size(4)
        operands += [
            draw.tensor_of(own, sizes, WHOLE),
            draw.tensor_of("float32", (), SCALES),
            draw.tensor_of(own, (), WHOLE),
        ]
    return call(operands, axis=axis)


@recipe("QLinearGlobalAveragePool", domain=MICROSOFT)
def q_linear_global_average_pool(draw: Draw) -> NodeProposal:
    """Draw a quantized image with channels first or last."""
    shape = tuple(draw.integer(1, 5) for _ in range(draw.integer(3, 4)))
    operands = [integer_operand(draw, 0, shape), *level(draw, 1), *level(draw, 3)]
    return call(operands, channels_last=draw.maybe(draw.integer(0, 1)))


@recipe("QLinearAveragePool", domain=MICROSOFT)
def q_linear_average_pool(draw: Draw) -> NodeProposal:
    """Draw a quantized image with channels first or last, and a window."""
    x = window(draw, draw.integer(1, 3), pools=True)
    last = draw.chance(0.5)
    channels = draw.integer(1, 4)
    shape = (draw.integer(1, 2), *x.sizes, channels) if last else (draw.integer(1, 2), channels, *x.sizes)
    operands = [integer_operand(draw, 0, shape), *level(draw, 1, optional=True), *level(draw, 3, optional=True)]
    attributes = {name: value for name, value in x.attributes.items() if name != "dilations"}
    return call(
        operands,
        channels_last=int(last) or draw.maybe(0),
        count_include_pad=draw.maybe(draw.integer(0, 1)),
        **attributes,
    )


@recipe("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(draw: Draw) -> NodeProposal:
    """Draw an image with channels last, and a window."""
    x = window(draw, draw.integer(1, 3), pools=True)
    return call([integer_operand(draw, 0, (draw.integer(1, 2), *x.sizes, draw.integer(1, 4)))], **x.attributes)


@recipe("QLinearConv", domain=MICROSOFT)
def q_linear_conv(draw: Draw) -> NodeProposal:
    """Draw a convolution with one scale and zero point of the weight, or one per output channel."""
    x = window(draw, draw.integer(1, 2))
    last, groups = draw.chance(0.5), draw.choice((1, 1, 2))
    channels, outputs = groups * draw.integer(1, 3), groups * draw.integer(1, 3)
    batch = draw.integer(1, 2)
    shape = (batch, *x.sizes, channels) if last else (batch, channels, *x.sizes)
    parameters: Shape = (outputs,) if draw.chance(0.4) else ()
    zero: Contents = between(0, 0) if parameters and draw.kind(3) == "int8" else WHOLE
    operands = [
        integer_operand(draw, 0, shape),
        *level(draw, 1),
        draw.tensor(3, (outputs, channels // groups, *x.kernel), WHOLE),
        draw.tensor(4, parameters, SCALES),
        draw.tensor(5, parameters, zero),
        draw.tensor(6, (), between(0.1, 4)),
        draw.tensor(7, (), WHOLE),
        draw.tensor(8, (outputs,), between(-5000, 5000)) if draw.chance(0.5) else "",
    ]
    attributes = dict(x.attributes)
    attributes["kernel_shape"] = draw.maybe(attributes["kernel_shape"], 0.7)
    return call(operands, channels_last=int(last) or draw.maybe(0), group=groups if groups > 1 else None, **attributes)


# --- Products
@recipe("MatMulInteger16", domain=MICROSOFT)
def matmul_integer16(draw: Draw) -> NodeProposal:
    """Draw a product of matrices, whose batches broadcast."""
    m, n, k = (draw.size() for _ in range(3))
    batch = draw.shape(0, 2, most=3)
    operands = [integer_operand(draw, 0, (*batch, m, k)), integer_operand(draw, 1, (*draw.choice((batch, batch[1:])), k, n))]
    return call(operands)


@recipe("QGemm", domain=MICROSOFT)
def q_gemm(draw: Draw) -> NodeProposal:
    """Draw a product whose result is float32 unless it has a scale and a zero point, whose type it then has."""
    result = draw.types["TY"] if draw.types["TY"] != "float32" else draw.types["TYZ"]
    as_float = draw.types["TY"] == "float32" and draw.types["TYZ"] == min(draw.schema.types["TYZ"]) and draw.chance(0.7)
    draw.types.update({"TYZ": result, "TY": "float32" if as_float else result})
    m, n, k = (draw.integer(1, 6) for _ in range(3))
    turns = draw.choice((0, 0, 1)), draw.choice((0, 0, 1))
    parameters: Shape = (n,) if draw.chance(0.4) else ()
    operands = [
        integer_operand(draw, 0, (k, m) if turns[0] else (m, k)),
        *level(draw, 1),
        integer_operand(draw, 3, (n, k) if turns[1] else (k, n)),
        *level(draw, 4, parameters),
        draw.tensor(6, draw.choice(((n,), (1, n), (m, n), ())), between(-3000, 3000)) if draw.chance(0.5) else "",
    ]
    if not as_float:
        operands += [draw.tensor(7, (), between(0.1, 2)), draw.tensor(8, (), WHOLE)]
    return call(
        operands,
        transA=turns[0] or draw.maybe(0),
        transB=turns[1] or draw.maybe(0),
        alpha=draw.maybe(draw.choice((1.0, 0.5, 2.0))),
    )


@recipe("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(draw: Draw) -> NodeProposal:
    """Draw quantized matrices, with scales and zero points per tensor or per column."""
    n, k = draw.integer(1, 6), draw.integer(1, 6)
    batch = draw.shape(0, 2, most=3, least=1)
    parameters: Shape = (n,) if draw.chance(0.4) else ()
    operands = [
        integer_operand(draw, 0, (*batch, draw.integer(1, 5), k)),
        integer_operand(draw, 1, (*(batch if draw.chance(0.3) else ()), k, n)),
        draw.tensor(2, (), SCALES),
        draw.tensor(3, parameters, SCALES),
        draw.tensor(4, (), WHOLE) if draw.chance(0.7) else "",
        draw.tensor(5, parameters, WHOLE) if draw.chance(0.7) else "",
        draw.tensor(6, (n,)) if draw.chance(0.5) else "",
    ]
    return call(operands)


@recipe("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(draw: Draw) -> NodeProposal:
    """Draw a float matrix and a quantized one, with scales per tensor or per column."""
    n, k = draw.integer(1, 6), draw.integer(1, 6)
    batch = draw.shape(0, 2, most=3, least=1)
    parameters: Shape = (n,) if draw.chance(0.4) else ()
    operands = [
        draw.tensor(0, (*batch, draw.integer(1, 5), k)),
        integer_operand(draw, 1, (*(batch if draw.chance(0.3) else ()), k, n)),
        draw.tensor(2, parameters, SCALES),
        draw.tensor(3, parameters, WHOLE) if draw.chance(0.7) else "",
        draw.tensor(4, (n,)) if draw.chance(0.5) else "",
    ]
    return call(operands)


# --- Conversions
@recipe("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(draw: Draw) -> NodeProposal:
    """Draw a float operand, with a scale and zero point per tensor or per axis."""
    return _convert(draw, draw.value(0, low=1, high=4).name, 1)


@recipe("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(draw: Draw) -> NodeProposal:
    """Draw an integer operand, with a scale and zero point per tensor or per axis."""
    shape = draw.shape(1, 4)
    x = integer_operand(draw, 0, shape) if draw.kind(0) != "int32" else draw.tensor(0, shape, between(-5000, 5000))
    return _convert(draw, x, 0)


def _convert(draw: Draw, x: str, typed_by: int) -> NodeProposal:
    """Draw one scale and zero point, or one per index of an axis. A zero point that determines a type is present."""
    shape = draw.draft.lookup(x).sizes
    axis = draw.axis(len(shape))
    along = draw.chance(0.4)
    parameters: Shape = (shape[axis],) if along else draw.choice(((), (1,)))
    needs = draw.output_kind(0) != "uint8" if typed_by else False
    is_wide = draw.kind(0) == "int32"
    zero = draw.tensor(2, parameters, between(0, 0) if is_wide else WHOLE) if needs or draw.chance(0.7) else ""
    scale = draw.tensor(1, parameters, SCALES)
    return call([x, scale, zero], axis=axis if along else draw.maybe(axis, 0.3))
