"""Shapes through the bodies of If, Loop and Scan. What differs by branch or turn becomes a fresh dim."""

from collections.abc import Sequence

from ort_lite.graph import Graph, OptionalType, SequenceType, TensorType, Type
from ort_lite.inference import UNKNOWN, Info, Op, shape_rule
from ort_lite.inference.schema import kind_of
from ort_lite.inference.shape_rules import Seen
from ort_lite.shapes import Dim, Shape, maximum, same
from ort_lite_transforms.shapes.operands import common_dim, replace_dim


class _Joining:
    """Makes one Info of two. `open_dims` are the symbols that stand for "any length" by now: they stay as they are."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._open_dims: set[Dim] = set()

    def infos(self, a: Info, b: Info) -> Info:
        """Return what holds for both; `a` itself if `b` adds no other case."""
        if a.type is None or b.type is None:
            return UNKNOWN
        type_ = self._types(a.type, b.type)
        contents = a.contents if a.contents == b.contents and type_ == a.type else None
        constant = a.constant if a.constant is b.constant else None
        return a if (type_, contents) == (a.type, a.contents) and constant is a.constant else Info(type_, contents, constant)

    def _types(self, a: Type, b: Type) -> Type:
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            if a.dtype != b.dtype:
                raise self._op.error(f"{a} here and {b} there: element types differ")
            return a if a.shape == b.shape else TensorType(a.dtype, self._shapes(a.shape, b.shape))
        if isinstance(a, SequenceType) and isinstance(b, SequenceType):
            return SequenceType(self._types(a.element, b.element))
        if isinstance(a, OptionalType) or isinstance(b, OptionalType):  # a state may be filled in by the first turn
            held = [type_.element if isinstance(type_, OptionalType) else type_ for type_ in (a, b)]
            return OptionalType(self._types(*held))
        if a != b:
            raise self._op.error(f"{a} here and {b} there: kinds differ")
        return a

    def _shapes(self, a: Shape | None, b: Shape | None) -> Shape | None:
        if a is None or b is None or len(a) != len(b):
            return None
        return tuple(x if x in self._open_dims or same(x, y) else self._any() for x, y in zip(a, b, strict=True))

    def _any(self) -> Dim:
        dim = self._op.fresh()
        self._open_dims.add(dim)
        return dim


def hide_inner_dims(op: Op, info: Info, scope: int) -> Info:
    """`info` as seen outside of the body: dims that only the body knows are fresh ones, its contents are not known."""
    type_ = info.type
    if isinstance(type_, TensorType) and type_.shape is not None:
        shape = tuple(op.fresh() if op.is_inner(dim, scope) else dim for dim in type_.shape)
        contents = info.contents
        if contents is not None and any(op.is_inner(element, scope) for element in contents):
            contents = None
        return op.tensor(type_.dtype, shape, contents)
    return Info(_hide_inner_type_dims(op, type_, scope))


def _hide_inner_type_dims(op: Op, type_: Type | None, scope: int) -> Type | None:
    """Elements of a sequence may differ where a dim is not known outside: -1."""
    if isinstance(type_, TensorType) and type_.shape is not None:
        return TensorType(type_.dtype, tuple(-1 if op.is_inner(dim, scope) else dim for dim in type_.shape))
    if isinstance(type_, SequenceType) and (element := _hide_inner_type_dims(op, type_.element, scope)) is not None:
        return SequenceType(element)
    if isinstance(type_, OptionalType) and (element := _hide_inner_type_dims(op, type_.element, scope)) is not None:
        return OptionalType(element)
    return type_


@shape_rule("If", types=())
def if_(op: Op) -> list[Info]:
    """Infer what both branches give; one of them alone if the condition is known. Shapes that do not fit in a branch that may
    not be taken leave its outputs open. Spec: ONNX If-21.
    """
    condition = op.contents_or_none(0)
    scope = op.scope()
    then: Graph = op.attr("then_branch")
    otherwise: Graph = op.attr("else_branch")
    for body in (then, otherwise):
        _check_outputs(op, body, len(op.node.outputs))
    if condition is not None and isinstance(condition[0], int):
        taken, dead = (then, otherwise) if condition[0] else (otherwise, then)
        others = op.dead_body(dead)
        ones = op.body(taken, [])
        _check_kinds(op, ones, others)
        return [hide_inner_dims(op, info, scope) for info in ones]
    ones, others = op.body(then, [], certain=False), op.body(otherwise, [], certain=False)
    joining = _Joining(op)
    return [hide_inner_dims(op, joining.infos(a, b), scope) for a, b in zip(ones, others, strict=True)]


def _check_outputs(op: Op, body: Graph, expected: int) -> None:
    if len(body.outputs) != expected:
        raise op.error(f"outputs of its body {body.name!r}: {len(body.outputs)}, expected {expected}")


def _check_kinds(op: Op, ones: Sequence[Info], others: Sequence[Info]) -> None:
    """Raises ShapeInferenceError where two branches differ in type, shapes aside, as far as it is known."""
    for index, (a, b) in enumerate(zip(ones, others, strict=False)):
        if None not in (a.type, b.type) and kind_of(a.type) != kind_of(b.type):
            raise op.error(f"output {index} is {a.type} in one branch and {b.type} in the other: types differ")


@shape_rule("Loop", types=())
def loop(op: Op) -> list[Info]:
    """States keep what every turn keeps, all of it where there is no turn; scan outputs get an axis of as many elements as
    there are turns.

    Costs two passes over the body, one more for each state that changes late. Spec: ONNX Loop-21.
    """
    body: Graph = op.attr("body")
    _check_outputs(op, body, len(op.node.outputs) + 1)
    scope = op.scope()
    trips = op.contents_or_none(0) if op.has(0) else None
    given = op.info(1) if op.has(1) else op.tensor("bool", (), (1,))
    number = op.tensor("int64", ())
    count = len(op.inputs) - 2
    most: Dim | None = 0 if given.contents == (0,) else None if trips is None else maximum(trips[0], 0)
    certain = given.contents == (1,) and (not op.has(0) or (isinstance(most, int) and most > 0))
    state, found = _find_fixed_point(
        op, body, [number], [given, *(op.info(k + 2) for k in range(count))], [], certain, most == 0
    )
    turns = most if most == 0 or state[0].contents == (1,) else None
    scans = [_stack(op, info, 0, op.fresh() if turns is None else turns, scope) for info in found[count + 1 :]]
    states = state[1:] if most == 0 else map(_fill, state[1:], found[1:])
    return [*(hide_inner_dims(op, info, scope) for info in states), *scans]


def _fill(state: Info, found: Info) -> Info:
    """An optional that every turn fills is declared as what it holds."""
    if isinstance(state.type, OptionalType) and found.type is not None and not isinstance(found.type, OptionalType):
        return Info(state.type.element)
    return state


def _find_fixed_point(
    op: Op, body: Graph, before: list[Info], state: list[Info], behind: list[Info], certain: bool = False, never: bool = False
) -> tuple[list[Info], list[Info]]:
    """The state that a further turn changes no more, and the body's outputs for it, of which the first ones are the state.

    `before` and `behind` are the body's other inputs. `certain`: there is a turn, `never`: there is none.
    """
    joining = _Joining(op)
    seen: Seen = {}
    while True:
        found = op.body(body, [*before, *state, *behind], seen, certain)
        if never:
            return state, found
        after = [joining.infos(a, b) for a, b in zip(state, found, strict=False)]
        if all(a is b for a, b in zip(state, after, strict=True)):
            return state, found
        state = after


def _stack(op: Op, info: Info, axis: int, length: Dim, scope: int) -> Info:
    """The results of all turns along a new axis."""
    inner = hide_inner_dims(op, Info(info.type), scope)
    if inner.dtype is None or inner.shape is None:
        return Info() if inner.dtype is None else op.tensor(inner.dtype, None)
    at = op.axis(axis, len(inner.shape) + 1)
    return op.tensor(inner.dtype, [*inner.shape[:at], length, *inner.shape[at:]])


def _check_scan(op: Op, scanned: int, stacked: int) -> None:
    """Raises ShapeInferenceError for more scan inputs than inputs, and for lists of another length, or directions but 0 and 1."""
    if scanned > len(op.inputs) or stacked < 0:
        raise op.error(f"num_scan_inputs is {scanned}, of {len(op.inputs)} inputs and {len(op.node.outputs)} outputs")
    for name, count in (("input", scanned), ("output", stacked)):
        for what in (f"scan_{name}_axes", f"scan_{name}_directions"):
            given = op.attr(what)
            if given and len(given) != count:
                raise op.error(f"{what} {list(given)} should be {count} numbers")
            if given and what.endswith("directions") and not {0, 1}.issuperset(given):
                raise op.error(f"{what} {list(given)} should be 0 or 1 each")


def _infer_types(op: Op, body: Graph, infos: Sequence[Info], whole: int = 0) -> None:
    """Infer the types in the body of a Scan where the rank of an input that it slices, one behind the `whole` ones, is not known."""
    if any(info.shape is None for info in infos[whole:]):
        op.body(body, [UNKNOWN if info.dtype is None else Info(TensorType(info.dtype, None)) for info in infos], certain=False)


@shape_rule("Scan", since=9, types=())
def scan(op: Op) -> list[Info]:
    """The body sees one slice of each scan input at a time. Spec: ONNX Scan-21."""
    body: Graph = op.attr("body")
    _check_outputs(op, body, len(op.node.outputs))
    scanned = op.attr("num_scan_inputs")
    states = len(op.inputs) - scanned
    _check_scan(op, scanned, len(op.node.outputs) - states)
    _infer_types(op, body, [op.info(k) for k in range(len(op.inputs))], states)
    in_axes = op.attr("scan_input_axes") or [0] * scanned
    lengths, slices = [], []
    for index, axis in enumerate(in_axes, states):
        shape = op.shape(index)
        axis = op.axis(axis, len(shape))
        lengths.append(shape[axis])
        slices.append(op.tensor(op.dtype(index), replace_dim(shape, axis)))
    scope = op.scope()
    length = common_dim(op, lengths)
    certain = isinstance(length, int) and length > 0
    state, found = _find_fixed_point(op, body, [], [op.info(k) for k in range(states)], slices, certain, length == 0)
    out_axes = op.attr("scan_output_axes") or [0] * (len(found) - states)
    stacked = [_stack(op, info, axis, length, scope) for info, axis in zip(found[states:], out_axes, strict=True)]
    return [*(hide_inner_dims(op, info, scope) for info in state), *stacked]


@shape_rule("Scan", types=())
def scan_with_batch_axis(op: Op) -> list[Info]:
    """Before opset 9 every input has a batch axis in front, and the first one gives lengths. Spec: ONNX Scan-8."""
    body: Graph = op.attr("body")
    _check_outputs(op, body, len(op.node.outputs))
    scanned = op.attr("num_scan_inputs")
    states = len(op.inputs) - 1 - scanned
    _infer_types(op, body, [op.info(k) for k in range(1, len(op.inputs))])
    batch, lengths = op.shape(1)[0], [op.shape(k)[1] for k in range(states + 1, len(op.inputs))]
    start = [op.tensor(op.dtype(k), op.shape(k)[1:]) for k in range(1, states + 1)]
    slices = [op.tensor(op.dtype(k), op.shape(k)[2:]) for k in range(states + 1, len(op.inputs))]
    scope = op.scope()
    state, found = _find_fixed_point(op, body, [], start, slices)
    length = common_dim(op, lengths)
    stacked = [_stack(op, info, 0, length, scope) for info in found[states:]]
    return [_stack(op, info, 0, batch, scope) for info in [*state, *stacked]]


RULES = [*if_, *loop, *scan, *scan_with_batch_axis]
