"""Sequences and optionals."""

from collections.abc import Sequence

from ort_lite.dtypes import to_onnx
from ort_lite.graph.types import SequenceType, TensorType, Type
from ort_lite.testing.generator.bodies import add_output, fresh_optional, fresh_sequence
from ort_lite.testing.generator.draft import element_of, type_of
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe


def shapes(draw: Draw, least: int = 0) -> list[Shape]:
    """Return the shapes of a sequence's elements, which are often equal."""
    first = draw.shape(0, 3, most=4)
    alike = draw.chance(0.6)
    return [first if alike else draw.shape(0, 3, most=4) for _ in range(draw.integer(least, 3))]


def position(draw: Draw, index: int, least: int, most: int) -> str:
    """Return a scalar operand for input `index`, between `least` and `most`."""
    return draw.scalar(draw.integer(least, most), draw.kind(index))


@recipe("SequenceConstruct")
def construct(draw: Draw) -> NodeProposal:
    """Draw one to three tensors."""
    return call([draw.tensor(0, shape) for shape in shapes(draw, 1)])


@recipe("SequenceEmpty")
def empty(draw: Draw) -> NodeProposal:
    """Draw the element type."""
    kind = element_of(draw.output_kind(0))
    return call([], dtype=None if kind == "float32" and draw.chance(0.5) else to_onnx(kind))


@recipe("SequenceInsert")
def insert(draw: Draw) -> NodeProposal:
    """Draw a sequence, a tensor and sometimes a position, which may be the end."""
    if draw.chance(0.3) and draw.kind(2) == "int64":
        return call([draw.value(0).name, draw.value(1).name])
    sizes = shapes(draw)
    sequence = fresh_sequence(draw, element_of(draw.kind(0)), sizes)
    new = draw.value(1).name if draw.chance(0.4) else draw.tensor(1, sizes[0] if sizes else draw.shape(0, 3))
    return call([sequence.name, new, position(draw, 2, -len(sizes), len(sizes))])


@recipe("SequenceErase")
def erase(draw: Draw) -> NodeProposal:
    """Draw a sequence and sometimes a position in it."""
    sizes = shapes(draw, 1)
    sequence = fresh_sequence(draw, element_of(draw.kind(0)), sizes)
    positioned = draw.kind(1) != "int64" or draw.chance(0.7)
    return call([sequence.name, position(draw, 1, -len(sizes), len(sizes) - 1) if positioned else ""])


@recipe("SequenceAt")
def at(draw: Draw) -> NodeProposal:
    """Draw a sequence and a position in it."""
    sizes = shapes(draw, 1)
    kind = element_of(draw.kind(0))
    where = draw.integer(-len(sizes), len(sizes) - 1)
    operands = [fresh_sequence(draw, kind, sizes).name, draw.scalar(where, draw.kind(1))]
    return call(operands, types=[TensorType(kind, sizes[where])])


@recipe("SequenceLength")
def length(draw: Draw) -> NodeProposal:
    """Draw the only operand."""
    return call([draw.value(0, open_shape=True).name])


@recipe("SplitToSequence")
def split_to_sequence(draw: Draw) -> NodeProposal:
    """Draw an operand, and equal or explicit sizes of the parts of one axis."""
    value = draw.value(0, low=1)
    axis = draw.axis(value.rank)
    size = value.sizes[axis]
    named_axis = None if axis == 0 and draw.chance(0.5) else axis
    keep = draw.choice([None, 0, 1])
    if draw.kind(1) == "int64" and draw.chance(0.4):
        return call([value.name], axis=named_axis, keepdims=keep)
    if draw.chance(0.5):
        part = draw.scalar(draw.integer(1, max(size, 1) + 1), draw.kind(1))
        return call([value.name, part], axis=named_axis, keepdims=keep)
    cuts = sorted(draw.integer(0, size) for _ in range(draw.integer(0, 3)))
    sizes = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
    return call([value.name, draw.ints(*sizes, dtype=draw.kind(1))], axis=named_axis, keepdims=keep)


@recipe("ConcatFromSequence")
def concat_from_sequence(draw: Draw) -> NodeProposal:
    """Draw a sequence whose tensors can be concatenated, or stacked along a new axis."""
    kind, count, stack = draw.output_kind(0), draw.integer(1, 3), draw.choice([None, 0, 1])
    shape = list(draw.shape(0 if stack else 1, 3, most=4))
    axis = draw.axis(len(shape) + (1 if stack else 0))
    parts = [list(shape) for _ in range(count)]
    if stack:
        whole = [*shape]
        whole.insert(axis % (len(shape) + 1), count)
    else:
        for part in parts:
            part[axis] = draw.size(4)
        whole = [*shape]
        whole[axis] = sum(part[axis] for part in parts)
    sequence = fresh_sequence(draw, kind, [tuple(part) for part in parts])
    return call([sequence.name], types=[TensorType(kind, tuple(whole))], axis=axis, new_axis=stack)


@recipe("SequenceMap")
def sequence_map(draw: Draw) -> NodeProposal:
    """Draw sequences, of which the body reads one element each, and additional tensors, which it reads whole."""
    sizes = shapes(draw)
    operands = [fresh_sequence(draw, element_of(draw.kind(0)), sizes).name]
    inputs: list[Type] = [_element_type(element_of(draw.kind(0)), sizes)]
    kinds = [draw.types["V"]] if draw.types["V"] != "float32" or draw.chance(0.4) else []
    for kind in kinds:
        if kind.startswith("seq("):
            others = [draw.shape(0, 2, most=4)] * len(sizes)
            operands.append(fresh_sequence(draw, element_of(kind), others).name)
            inputs.append(_element_type(element_of(kind), others))
        else:
            value = draw.value_of(kind)
            operands.append(value.name)
            inputs.append(value.type)
    body = draw.body(inputs)
    allowed = sorted(element_of(kind) for kind in draw.schema.types["S"])
    names = [
        draw.choice([element_of(draw.kind(0)), "float32", "int64", draw.choice(allowed)]) for _ in range(draw.integer(1, 2))
    ]
    for name in names:
        add_output(draw.inside(body), name)
    types = [SequenceType(TensorType(name)) for name in names]
    return call(operands, len(names), types=types, body=body)


def _element_type(kind: str, sizes: Sequence[Shape]) -> Type:
    return TensorType(kind, sizes[0] if len(set(sizes)) == 1 else None)


@recipe("Optional")
def optional(draw: Draw) -> NodeProposal:
    """Draw a value, or nothing and a type."""
    kind = draw.kind(0)
    if draw.chance(0.3):
        return call([], type=type_of(kind))
    return call([draw.value(0, open_shape=True).name])


@recipe("OptionalGetElement")
def get_element(draw: Draw) -> NodeProposal:
    """Draw an optional that holds an element, or a value that is not optional."""
    kind = draw.kind(0)
    if not kind.startswith("optional("):
        return call([draw.value(0, open_shape=True).name])
    value, shape = fresh_optional(draw, element_of(kind))
    return call([value.name], types=None if shape is None else [TensorType(element_of(kind), shape)])


@recipe("OptionalHasElement")
def has_element(draw: Draw) -> NodeProposal:
    """Draw a value, which may be an empty optional; from version 18 the operand itself may be missing."""
    if draw.version >= 18 and draw.chance(0.1):
        return call([])
    return call([draw.value(0, open_shape=True).name])
