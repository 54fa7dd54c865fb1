"""Outputs of bodies, and new sequences and optionals, which recipes with bodies share."""

from collections.abc import Sequence

from ort_lite.graph.types import OptionalType, SequenceType, TensorType
from ort_lite.testing.generator.draft import Draft, Known, Rejected, element_of, type_of
from ort_lite.testing.generator.draw import Draw, Shape

_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
CLASSIC = frozenset((*_WHOLE, "bool", "complex64", "complex128", "float16", "float32", "float64", "string"))
"""Element types that SequenceConstruct takes."""
COUNTABLE = ("float32", "float64", "int32", "int64")
"""Element types of which Add takes two in every version."""


def fresh_sequence(draw: Draw, dtype: str, shapes: Sequence[Shape]) -> Known:
    """Return a new sequence of tensors of these shapes: a feed of the model or a SequenceConstruct."""
    opset = draw.draft.opsets[""]
    if shapes and dtype in CLASSIC and opset >= 11 and draw.chance(0.6):
        return draw.draft.append("SequenceConstruct", [draw.tensor_of(dtype, shape) for shape in shapes])[0]
    arrays = [draw.contents(dtype, shape) for shape in shapes]
    return draw.draft.outermost.feed(arrays, SequenceType(TensorType(dtype)))


def fresh_optional(draw: Draw, kind: str) -> tuple[Known, Shape | None]:
    """Return a new optional that holds an element of this kind, and the element's shape if it is a tensor."""
    if draw.chance(0.5):
        inner = draw.value_of(kind)
        return draw.draft.append("Optional", [inner.name])[0], inner.shape
    contents = draw.content_of(kind)
    shape = None if isinstance(contents, list) else tuple(contents.shape)
    return draw.draft.outermost.feed(contents, OptionalType(type_of(kind))), shape


def add_output(inner: Draw, kind: str, shape: Shape | None = None) -> Known:
    """Add an output of this kind to a body, with this shape if one is given, and return it."""
    body = inner.draft
    computed = {name for node in body.nodes for name in node.outputs}
    fitting = [
        known
        for known in body.values.values()
        if known.name in computed and known.kind == kind and (shape is None or known.shape == shape)
    ]
    fitting = [known for known in fitting if known.name not in body.outputs]
    found = inner.choice(fitting[-3:]) if fitting and inner.chance(0.85) else _compute(inner, kind, shape)
    body.outputs.append(found.name)
    return found


def add_row(inner: Draw, kind: str) -> tuple[int, ...]:
    """Add an output to a body that its node stacks, and return its shape. Raises Rejected."""
    result = add_output(inner, kind)
    if result.shape is None:
        raise Rejected("a scan output has one shape in all turns")
    return result.shape


def _compute(inner: Draw, kind: str, shape: Shape | None) -> Known:
    """Return a new result of a body: a copy of a visible value or of a new one."""
    visible = [known for known in inner.visible() if known.kind == kind and (shape is None or known.shape == shape)]
    if kind.startswith("seq(") and inner.draft.opsets[""] < 14:  # Identity takes no sequences yet
        dtype = element_of(kind)
        element = inner.tensor_of(dtype, inner.shape(0, 3))
        if visible and inner.chance(0.5):
            return inner.draft.append("SequenceInsert", [inner.choice(visible).name, element])[0]
        return inner.draft.append("SequenceConstruct", [element])[0]
    if visible and inner.chance(0.6):
        source = inner.choice(visible).name
    elif kind.startswith("optional("):
        source = inner.value_of(kind).name
    elif kind.startswith("seq("):
        source = fresh_sequence(inner, element_of(kind), [inner.shape(0, 3, most=4) for _ in range(inner.integer(0, 2))]).name
    else:
        source = inner.tensor_of(kind, inner.shape(0, 3) if shape is None else shape)
    return copy_value(inner, source)


def copy_value(inner: Draw, source: str) -> Known:
    """Return a copy of a value: by Identity, or by a Loop without iterations if Identity does not support the type."""
    mark = inner.draft.mark()
    try:
        return inner.draft.append("Identity", [source])[0]
    except Rejected:
        inner.draft.reset(mark)
    known = inner.draft.lookup(source)
    body = Draft(inner.draft.opsets, inner.rng, inner.draft.rules, inner.draft)
    _, condition, state = [body.formal(type_) for type_ in (TensorType("int64", ()), TensorType("bool", ()), known.type)]
    body.outputs = [condition.name, state.name]
    count = inner.scalar(0, "int64", constant=True)
    return inner.draft.append("Loop", [count, "", source], {"body": body}, types=[known.type])[0]


def add_next_state(inner: Draw, state: Known) -> Known:
    """Add the output that follows a state to a body, with the same type and shape, and return it. It is often computed from the
    state.
    """
    body = inner.draft
    if state.kind.startswith("seq(") and element_of(state.kind) in CLASSIC and inner.chance(0.6):
        element = inner.tensor_of(element_of(state.kind), inner.shape(0, 3, most=4))
        following = body.append("SequenceInsert", [state.name, element])[0]
    elif state.shape is not None and state.kind in COUNTABLE and inner.chance(0.5):
        other = inner.tensor_of(state.kind, inner.broadcastable(state.shape, wider=False))
        following = body.append(inner.choice(["Add", "Sub"]), [state.name, other])[0]
    else:
        return add_output(inner, state.kind, state.shape)
    if following.shape != state.shape:
        raise Rejected("the next state has another shape")
    body.outputs.append(following.name)
    return following
