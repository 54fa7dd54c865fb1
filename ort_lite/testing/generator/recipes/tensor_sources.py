"""Operators that create tensors from numbers, attributes or shapes: Constant, ConstantOfShape, EyeLike, Range, Shape, Size."""

import numpy as np

from ort_lite.dtypes import FLOATS, to_numpy, to_onnx
from ort_lite.graph.graph import Attr
from ort_lite.testing.generator.arrays import is_float, numbers
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

SPARSE = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8")
"""Element types of sparse constants."""
_LISTS = {"float32": ("value_float", "FLOAT"), "int64": ("value_int", "INT"), "string": ("value_string", "STRING")}


@recipe("Constant")
def constant(draw: Draw) -> NodeProposal:
    """Draw a tensor, a number or a list of numbers, or a sparse tensor."""
    kind = draw.output_kind(0)
    if draw.version >= 12 and kind in _LISTS and draw.chance(0.6):
        name, attribute = _LISTS[kind]
        count = draw.choice([None, 0, 1, 3])
        values = numbers(draw.rng, (1 if count is None else count,), kind).tolist()
        listed = Attr(name, attribute, values[0]) if count is None else Attr(f"{name}s", f"{attribute}S", values)
        return NodeProposal((), (True,), {listed.name: listed})
    if draw.version >= 11 and kind in SPARSE and draw.chance(0.2):
        array = numbers(draw.rng, draw.shape(1, 3), kind)
        kept = np.where(numbers(draw.rng, array.shape, "bool"), array, np.zeros((), array.dtype))
        return NodeProposal((), (True,), {"sparse_value": Attr("sparse_value", "SPARSE_TENSOR", kept)})
    return call([], value=numbers(draw.rng, draw.shape(0, 4), kind))


@recipe("ConstantOfShape")
def constant_of_shape(draw: Draw) -> NodeProposal:
    """Draw a shape, and sometimes the value that fills it."""
    kind = draw.output_kind(0)
    filling = None if kind == "float32" and draw.chance(0.5) else numbers(draw.rng, (1,), kind)
    return call([draw.ints(*draw.shape(0, 4))], value=filling)


@recipe("EyeLike")
def eye_like(draw: Draw) -> NodeProposal:
    """Draw a matrix and a diagonal that may lie outside it."""
    value = draw.value(0, low=2, high=2)
    kind = draw.output_kind(0)
    same = kind == draw.kind(0) and draw.chance(0.5)
    return call([value.name], dtype=None if same else to_onnx(kind), k=draw.choice([None, 0, 1, -1, draw.integer(-6, 6)]))


@recipe("Range")
def ranges(draw: Draw) -> NodeProposal:
    """Draw eighths, which float32 and float16 hold exactly, so that the length does not depend on rounding."""
    kind = draw.kind(0)
    scale = 8 if is_float(kind) else 1
    delta = draw.choice([1, 1, 2, 3, -1, -2, 5])
    start = draw.integer(-10, 10)
    limit = start + delta * draw.integer(-2, 12) + draw.integer(-1, 1)
    operands = [
        draw.array(np.asarray(number / scale if scale > 1 else number).astype(to_numpy(kind)))
        for number in (start, limit, delta)
    ]
    stash = None
    if draw.has_attribute("stash_type") and kind in FLOATS and kind != "float64":
        stash = draw.choice([None, to_onnx("float32")])
    return call(operands, stash_type=stash)


@recipe("Shape")
def shapes(draw: Draw) -> NodeProposal:
    """Draw an operand, and sometimes the range of axes to return."""
    value = draw.value(0, open_shape=True)
    if not draw.has_attribute("start"):
        return call([value.name])
    start, end = draw.maybe(draw.integer(-6, 6), 0.5), draw.maybe(draw.integer(-6, 6), 0.5)
    return call([value.name], start=start, end=end)


@recipe("Size")
def sizes(draw: Draw) -> NodeProposal:
    """Draw the only operand."""
    return call([draw.value(0, open_shape=True).name])
