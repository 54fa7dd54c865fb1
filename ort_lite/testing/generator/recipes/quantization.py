"""Quantization with scales per tensor, axis or block, and products of quantized matrices."""

from ort_lite.dtypes import to_onnx
from ort_lite.testing.generator.arrays import Contents, among, between, is_integer, limits, numbers
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

POWERS = among(0.125, 0.25, 0.5, 1, 2)
"""Steps that divide exactly, so that few results lie between two."""


def _steps(draw: Draw, dtype: str) -> Contents:
    """Return contents for a scale, usually powers of 2."""
    if is_integer(dtype):
        return between(1, 3)
    return POWERS if dtype.startswith("float8") or draw.chance(0.7) else between(0.0625, 1.5)


def _zeros(dtype: str) -> Contents:
    """Return contents for zero points: small integers, or 0 for floats and int32, which have none."""
    if dtype == "int32" or not is_integer(dtype):
        return among(0)
    least, most = limits(dtype)
    return between(max(least, -6), min(most, 9))


def _granularity(draw: Draw, shape: Shape) -> tuple[Shape, int | None, int | None]:
    """Return the shape of the scale, the axis and the block size, for one scale per tensor, per index of an axis, or per block."""
    kinds = ["tensor"]
    if shape and draw.has_attribute("axis"):
        kinds += ["axis", "axis"]
        if draw.has_attribute("block_size") and all(shape):
            kinds += ["block", "block"]
    kind = draw.choice(kinds)
    if kind == "tensor":
        return (), draw.maybe(draw.axis(len(shape)), 0.3) if shape and draw.has_attribute("axis") else None, None
    axis = draw.axis(len(shape))
    at = axis % len(shape)
    named_axis = None if at == 1 and draw.chance(0.5) else axis
    if kind == "axis":
        return (shape[at],), named_axis, None
    block = draw.integer(1, shape[at] + 1)
    return (*shape[:at], -(-shape[at] // block), *shape[at + 1 :]), named_axis, block


@recipe("QuantizeLinear")
def quantize(draw: Draw) -> NodeProposal:
    """Draw an operand with a scale. Without a zero point the result is uint8 or of type `output_dtype`."""
    value = draw.value(0, high=4) if draw.chance(0.4) and not is_integer(draw.kind(0)) else None
    name = draw.tensor(0, draw.shape(), between(-20, 20) if draw.chance(0.5) else numbers) if value is None else value.name
    shape = draw.draft.lookup(name).sizes
    parts, axis, block = _granularity(draw, shape)
    scale = draw.tensor(1, parts, _steps(draw, draw.kind(1)), draw.chance(0.8))
    target = draw.output_kind(0)
    plain = target == "uint8" or draw.has_attribute("output_dtype")
    zero = "" if plain and draw.chance(0.4) else draw.tensor(2, parts, _zeros(target), draw.chance(0.8))
    named = draw.has_attribute("output_dtype") and (draw.chance(0.2) or (not zero and target != "uint8"))
    return call(
        [name, scale, zero],
        axis=axis,
        block_size=block,
        output_dtype=to_onnx(target) if named else None,
        saturate=draw.maybe(draw.integer(0, 1), 0.3) if draw.has_attribute("saturate") else None,
        precision=draw.maybe(to_onnx("float32"), 0.2) if draw.has_attribute("precision") else None,
    )


@recipe("DequantizeLinear")
def dequantize(draw: Draw) -> NodeProposal:
    """Draw an integer operand, with a scale and zero point per tensor, per axis or per block."""
    value = draw.value(0, high=4)
    parts, axis, block = _granularity(draw, value.sizes)
    scale = draw.tensor(1, parts, _steps(draw, draw.kind(1)), draw.chance(0.8))
    zero = draw.tensor(2, parts, _zeros(draw.kind(0)), draw.chance(0.8)) if draw.chance(0.6) else ""
    target = draw.output_kind(0)
    named = draw.has_attribute("output_dtype") and (target != draw.kind(1) or draw.chance(0.3))
    return call([value.name, scale, zero], axis=axis, block_size=block, output_dtype=to_onnx(target) if named else None)


@recipe("DynamicQuantizeLinear")
def dynamic_quantize(draw: Draw) -> NodeProposal:
    """Draw finite contents that are not all 0, because their range becomes the scale."""
    contents = draw.choice([between(-4, 4), between(0.5, 4), between(-9, -1)])
    return call([draw.tensor(0, draw.shape(least=1), contents)], 3)


def _factors(draw: Draw) -> tuple[Shape, Shape]:
    """Return the shapes of two factors: matrices, stacks of them, or sometimes a vector."""
    m, k, n = (draw.size() for _ in range(3))
    before = draw.shape(0, 2, most=3)
    first, second = (*draw.broadcastable(before), m, k), (*before, k, n)
    if draw.chance(0.1):
        first = (k,)
    elif draw.chance(0.1):
        second = (k,)
    return (second[::-1], first[::-1]) if len(first) == len(second) == 2 and draw.chance(0.2) else (first, second)


@recipe("MatMulInteger")
def matmul_integer(draw: Draw) -> NodeProposal:
    """Draw integer factors. Zero points are scalars, or one per row of the first and per column of the second matrix."""
    first, second = _factors(draw)
    operands = [draw.tensor(0, first, _bytes(draw.kind(0))), draw.tensor(1, second, _bytes(draw.kind(1)))]
    rows = (first[-2],) if len(first) == 2 and draw.chance(0.2) else ()
    columns = (second[-1],) if len(second) == 2 and draw.chance(0.3) else ()
    for index, parts in ((2, rows), (3, columns)):
        operands.append(draw.tensor(index, parts, _zeros(draw.kind(index)), draw.chance(0.8)) if draw.chance(0.6) else "")
    return call(operands)


@recipe("QLinearMatMul")
def qlinear_matmul(draw: Draw) -> NodeProposal:
    """Draw quantized factors. The scale and zero point of each have the same shape."""
    first, second = _factors(draw)
    rows = (first[-2],) if len(first) == 2 and draw.chance(0.2) else ()
    columns = (second[-1],) if len(second) == 2 and draw.chance(0.3) else ()
    operands = []
    for index, shape, parts in ((0, first, rows), (3, second, columns)):
        operands += [draw.tensor(index, shape, _bytes(draw.kind(index))), *_scale(draw, index + 1, parts)]
    return call([*operands, *_scale(draw, 6, ())])


def _scale(draw: Draw, index: int, parts: Shape) -> list[str]:
    scale = draw.tensor(index, parts, _steps(draw, draw.kind(index)), draw.chance(0.8))
    return [scale, draw.tensor(index + 1, parts, _zeros(draw.kind(index + 1)), draw.chance(0.8))]


def _bytes(dtype: str) -> Contents:
    """Return contents over the whole range of an integer type, or moderate floats."""
    return between(*limits(dtype)) if is_integer(dtype) else numbers
