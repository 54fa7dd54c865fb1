"""Sequences and optionals. In the type of a sequence's elements a dim of -1 differs from element to element."""

from ort_lite.dtypes import from_onnx
from ort_lite.graph import Graph, OptionalType, SequenceType, TensorType, Type
from ort_lite.inference import Info, Op, RankUnknown, shape_rule
from ort_lite.shapes import Dim, Shape, same
from ort_lite_transforms.shapes.control_flow import hide_inner_dims
from ort_lite_transforms.shapes.operands import common_dim, replace_dim


def _element(op: Op, index: int) -> TensorType:
    """The type of the elements of a sequence of tensors. Raises RankUnknown where that is open."""
    type_ = op.info(index).type
    if isinstance(type_, OptionalType):
        type_ = type_.element
    if not isinstance(type_, SequenceType) or not isinstance(type_.element, TensorType):
        raise RankUnknown(index)
    return type_.element


def _take_element(op: Op, type_: TensorType) -> Info:
    """One element: what differs is a fresh dim."""
    shape = type_.shape
    return op.tensor(type_.dtype, None if shape is None else [op.fresh() if dim == -1 else dim for dim in shape])


def _common(op: Op, types: list[TensorType]) -> TensorType:
    """The type of elements that have these types."""
    first = types[0]
    if any(type_.dtype != first.dtype for type_ in types):
        raise op.error("all elements of a sequence should have one element type")
    shapes: list[Shape] = [type_.shape for type_ in types if type_.shape is not None]
    if len(shapes) < len(types) or len({len(shape) for shape in shapes}) > 1:
        return TensorType(first.dtype)
    columns = zip(*shapes, strict=True)
    return TensorType(first.dtype, tuple(c[0] if all(same(dim, c[0]) for dim in c) else -1 for c in columns))


def _tensor_type(op: Op, index: int) -> TensorType:
    return TensorType(op.dtype(index), op.info(index).shape)


@shape_rule("SequenceConstruct", types=())
def sequence_construct(op: Op) -> list[Info]:
    """Spec: ONNX SequenceConstruct-11."""
    return [Info(SequenceType(_common(op, [_tensor_type(op, index) for index in range(len(op.inputs))])))]


@shape_rule("SequenceEmpty", types=())
def sequence_empty(op: Op) -> list[Info]:
    """Infer an empty sequence: nothing is known of elements to come. Spec: ONNX SequenceEmpty-11."""
    return [Info(SequenceType(TensorType(from_onnx(op.attr("dtype", 1)))))]


@shape_rule("SequenceInsert", types=())
def sequence_insert(op: Op) -> list[Info]:
    """Spec: ONNX SequenceInsert-11."""
    return [Info(SequenceType(_common(op, [_element(op, 0), _tensor_type(op, 1)])))]


@shape_rule("SequenceErase", types=())
def sequence_erase(op: Op) -> list[Info]:
    """Spec: ONNX SequenceErase-11."""
    return [op.info(0)]


@shape_rule("SequenceAt", types=(lambda op: _element(op, 0).dtype,))
def sequence_at(op: Op) -> list[Info]:
    """Spec: ONNX SequenceAt-11."""
    return [_take_element(op, _element(op, 0))]


@shape_rule("SequenceLength", types=("int64",))
def sequence_length(op: Op) -> list[Info]:
    """An int64 scalar. Spec: ONNX SequenceLength-11."""
    return [op.tensor("int64", ())]


@shape_rule("ConcatFromSequence", types=(lambda op: _element(op, 0).dtype,))
def concat_from_sequence(op: Op) -> list[Info]:
    """Elements joined along `axis`, or stacked along a new one. Spec: ONNX ConcatFromSequence-11."""
    element = _element(op, 0)
    if element.shape is None:
        raise RankUnknown(0)
    new = op.attr("new_axis", 0)
    axis = op.axis(op.attr("axis"), len(element.shape) + bool(new))
    shape: list[Dim] = [op.fresh() if dim == -1 else dim for dim in element.shape]
    shape = [*shape[:axis], op.fresh(), *shape[axis:]] if new else replace_dim(tuple(shape), axis, op.fresh())
    return [op.tensor(element.dtype, shape)]


@shape_rule("SplitToSequence", types=())
def split_to_sequence(op: Op) -> list[Info]:
    """Pieces of the given length or lengths; of one, without the axis unless `keepdims`, by default.

    Spec: ONNX SplitToSequence-24.
    """
    dtype, shape = op.dtype(0), op.shape(0)
    axis = op.axis(op.attr("axis", 0), len(shape))
    if not op.has(1):
        dims = replace_dim(shape, axis, 1) if op.attr("keepdims", 1) else replace_dim(shape, axis)
        return [Info(SequenceType(TensorType(dtype, tuple(dims))))]
    lengths, dim = op.contents_or_none(1), shape[axis]
    if op.at_load and lengths is not None and any(isinstance(length, int) and length < (op.rank(1) == 0) for length in lengths):
        raise op.error(f"split {list(lengths)}: a length is negative, or 0")
    if op.at_load and lengths and op.rank(1) == 1:
        common_dim(op, [dim, sum(lengths[1:], lengths[0])])
    piece: Dim = -1
    if lengths and all(same(length, lengths[0]) for length in lengths):
        one = lengths[0]
        whole = isinstance(one, int) and isinstance(dim, int) and one > 0 and dim % one == 0
        piece = one if op.rank(1) == 1 or whole else -1
    return [Info(SequenceType(TensorType(dtype, tuple(replace_dim(shape, axis, piece)))))]


@shape_rule("SequenceMap", types=())
def sequence_map(op: Op) -> list[Info]:
    """The body for one element of each sequence, and the tensors as they are. Spec: ONNX SequenceMap-17."""
    body: Graph = op.attr("body")
    scope = op.scope()
    inputs = []
    for index in range(len(op.inputs)):
        info = op.info(index)
        inputs.append(_take_element(op, _element(op, index)) if isinstance(info.type, SequenceType) else info)
    results = op.body(body, inputs, certain=False)  # a sequence may be empty
    return [Info() if r.type is None else hide_inner_dims(op, Info(SequenceType(r.type)), scope) for r in results]


@shape_rule("Optional", types=())
def optional(op: Op) -> list[Info]:
    """An optional that holds the input, or nothing of the type that the attribute names. Spec: ONNX Optional-15."""
    type_: Type | None = op.info(0).type if op.has(0) else op.attr("type")
    return [Info() if type_ is None else Info(OptionalType(type_))]


@shape_rule("OptionalGetElement", types=())
def optional_get_element(op: Op) -> list[Info]:
    """Infer the element of the optional; anything else is handed on. Spec: ONNX OptionalGetElement-18."""
    info = op.info(0)
    return [Info(info.type.element) if isinstance(info.type, OptionalType) else info]


@shape_rule("OptionalHasElement", types=("bool",))
def optional_has_element(op: Op) -> list[Info]:
    """True for anything but an optional, false for an input left out. Spec: ONNX OptionalHasElement-18."""
    if not op.has(0):
        return [op.tensor("bool", (), (0,))]
    type_ = op.info(0).type
    return [op.tensor("bool", (), (1,) if isinstance(type_, (TensorType, SequenceType)) else None)]


RULES = [
    *sequence_construct,
    *sequence_empty,
    *sequence_insert,
    *sequence_erase,
    *sequence_at,
    *sequence_length,
    *concat_from_sequence,
    *split_to_sequence,
    *sequence_map,
    *optional,
    *optional_get_element,
    *optional_has_element,
]
