"""Shapes that the inputs of an operator have together, as ONNX's documents say it in words: one line an operator.

    RoiAlign | N C H W, R 4, R

A letter is one number wherever it occurs, as is the name of an attribute; `2*hidden_size` a product; `_` any number; `...` any
number of dims. An input is also `#`, one element; `_?`, a vector or a scalar; `=1`, shaped like input 1; `~0`, what broadcasts to
input 0; `*`, anything. `:layout` is the form where that attribute is 1, `@14` one from that version on, of which the newest holds.
Behind a second bar are attributes that are axes of input 0, `axis+` of a result with one axis more, `axes` a list of them. Dims that
are not known fit everywhere.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import prod

from ort_lite.inference import Info, Op, ShapeRule
from ort_lite.record import Record
from ort_lite.shapes import Shape

_TEXT = """
AffineGrid | N _ _, _
ArgMax | ... | axis
ArgMin | ... | axis
BatchNormalization@9 | N C ..., C, C, C, C
CenterCropPad | ..., _
Clip@11 | ..., #, #
Col2Im | N _ _, _, _
Compress | ... | axis
ConstantOfShape | _
Conv | N _ ..., M _ ..., M
ConvInteger | N _ ..., M _ ...
ConvTranspose | N C ..., C G ..., group*G
CumProd | ..., #
CumSum | ..., #
DeformConv | N C H W, M _ kh kw, N 2*offset_group*kh*kw OH OW, M, N offset_group*kh*kw OH OW
DepthToSpace | N C H W
Det | ... M M
Dropout@12 | ..., #, #
EyeLike | _ _
Expand | ..., _
GRU | S N I, D 3*hidden_size I, D 3*hidden_size hidden_size, D 6*hidden_size, N, D N hidden_size
Gather | _ ...  | axis
GatherElements | _ ... | axis
GlobalAveragePool | N C ...
GlobalLpPool | N C ...
GlobalMaxPool | N C ...
GridSample | N _ ..., N ...
GroupNormalization | N C ..., num_groups, num_groups
GroupNormalization@21 | N C ..., C, C
Hardmax | ... | axis
InstanceNormalization | N C ..., C, C
LRN | N C ...
LSTM | S N I, D 4*hidden_size I, D 4*hidden_size hidden_size, D 8*hidden_size, N, D N hidden_size, D N hidden_size, D 3*hidden_size
GRU:layout | N S I, D 3*hidden_size I, D 3*hidden_size hidden_size, D 6*hidden_size, N, N D hidden_size
LSTM:layout | N S I, D 4*hidden_size I, D 4*hidden_size hidden_size, D 8*hidden_size, N, N D hidden_size, N D hidden_size
RNN:layout | N S I, D hidden_size I, D hidden_size hidden_size, D 2*hidden_size, N, N D hidden_size
LayerNormalization@17 | ..., ~0, ~0 | axis
LogSoftmax | ... | axis
LpNormalization | ... | axis
MaxRoiPool | N C H W, R 5
MaxUnpool | N C ..., =0, _
MeanVarianceNormalization | ... | axes
MelWeightMatrix | #, #, #, #, #
Multinomial | B C
NegativeLogLikelihoodLoss | N C ..., N ..., C
NonMaxSuppression | B S 4, B C S, #, #, #
OneHot | ..., #, 2 | axis+
PRelu@7 | ..., ~0
Pad@11 | ..., *, #
QLinearConv | N _ ..., #, #, M _ ..., *, *, #, #, M
RMSNormalization | ..., ~0 | axis
RNN | S N I, D hidden_size I, D hidden_size hidden_size, D 2*hidden_size, N, D N hidden_size
Range | #, #, #
ReduceL1 | ..., _? | axes
ReduceL2 | ..., _? | axes
ReduceLogSum | ..., _? | axes
ReduceLogSumExp | ..., _? | axes
ReduceMax | ..., _? | axes
ReduceMean | ..., _? | axes
ReduceMin | ..., _? | axes
ReduceProd | ..., _? | axes
ReduceSum | ..., _? | axes
ReduceSumSquare | ..., _? | axes
Reshape@5 | ..., _
ReverseSequence | _ _ ..., _
RoiAlign | N C H W, R 4, R
STFT | B _ ..., #, _, #
Scatter | _ ..., *, =1 | axis
ScatterElements | _ ..., *, =1 | axis
Slice@10 | ..., _, _, _, _
Softmax | ... | axis
SoftmaxCrossEntropyLoss | N C ..., N ..., C
SpaceToDepth | N C H W
Split@13 | ..., _ | axis
Squeeze | ..., _?
Tile@6 | ..., _
TopK | ..., # | axis
Trilu | ... _ _, #
Unique | ... | axis
Unsqueeze | ..., _?
"""


class Wanted(Record):
    """The expected shape of an input: the tokens; `whole`, if one of them says it all, or the dims that have names."""

    tokens: tuple[str, ...]
    whole: str
    rank: int
    """Without what `...` stands for."""
    more: bool
    """Whether there is a `...`."""
    named: tuple[tuple[int, str, tuple[str, ...]], ...]
    """(axis, from the end behind a `...`; token; its factors)."""


class Form(Record):
    """A line: what each input should be, and attributes that are axes, each with how many axes more the result has."""

    inputs: tuple[Wanted, ...]
    axes: tuple[tuple[str, int], ...]


@cache
def _forms() -> dict[str, list[tuple[int, Form]]]:
    """Return the forms by operator, newest version first."""
    found: dict[str, list[tuple[int, Form]]] = {}
    for line in _TEXT.strip().splitlines():
        head, inputs, *axes = (part.strip() for part in line.split("|"))
        name, _, since = head.partition("@")
        names = axes[0].split() if axes else ()
        form = Form(
            tuple([_parse_form(tuple(one.split())) for one in inputs.split(", ")]),
            tuple([(axis.rstrip("+"), int(axis.endswith("+"))) for axis in names]),
        )
        found.setdefault(name, []).insert(0, (int(since or 1), form))
    return found


def _parse_form(tokens: tuple[str, ...]) -> Wanted:
    whole = tokens[0] if tokens[0] in _WHOLE else ""
    more = "..." in tokens
    before = tokens.index("...") if more else len(tokens)
    places = [(axis if axis < before else axis - len(tokens), token) for axis, token in enumerate(tokens)]
    named = tuple([(axis, token, tuple(token.split("*"))) for axis, token in places if token not in ("_", "...")])
    return Wanted(tokens, whole, len(tokens) - more, more, () if whole else named)


def with_form_check(rule: ShapeRule) -> ShapeRule:
    """The rule, behind a check of the operator's form; ONNX's own operators have one."""
    forms = [] if rule.domain else _forms().get(rule.op_type, [])
    if not forms:
        return rule
    function, batch_first = rule.function, _forms().get(f"{rule.op_type}:layout", [])

    def check_first(op: Op) -> list[Info]:
        if not op.at_load:
            return function(op)
        for since, form in batch_first if batch_first and op.attr("layout") else forms:
            if since <= op.version:
                _check(op, form)
                break
        return function(op)

    return ShapeRule(rule.op_type, rule.since, rule.domain, check_first, rule.types)


_Size = tuple[int, str | tuple[int, int]]
"""A number, and where it is from: words, or (input, axis)."""


def _check(op: Op, form: Form) -> None:
    sizes: dict[str, _Size] = {}
    for index, (info, wanted) in enumerate(zip(op.inputs, form.inputs, strict=False)):
        shape = None if info is None else info.shape
        if shape is not None:
            _check_input(op, index, shape, wanted, sizes)
    if form.axes and (first := _shape(op, 0)) is not None:
        for name, more in form.axes:
            given = op.attr(name)
            for axis in given if isinstance(given, list) else () if given is None else (given,):
                op.axis(axis, len(first) + more)


def _shape(op: Op, index: int) -> Shape | None:
    info = op.inputs[index] if index < len(op.inputs) else None
    return None if info is None else info.shape


_WHOLE: dict[str, Callable[[Op, Shape], bool]] = {
    "*": lambda op, shape: True,
    "#": lambda op, shape: len(shape) <= 1 and (not shape or shape[0] == 1 or not isinstance(shape[0], int)),
    "_?": lambda op, shape: len(shape) <= 1,
    "=0": lambda op, shape: _fits(shape, _shape(op, 0), same=True),
    "=1": lambda op, shape: _fits(shape, _shape(op, 1), same=True),
    "~0": lambda op, shape: _fits(shape, _shape(op, 0), same=False),
}
_SAID = {
    "#": "should be one element",
    "_?": "should have rank 0 or 1",
    "=0": "should be shaped like input 0",
    "=1": "should be shaped like input 1",
    "~0": "should broadcast to the shape of input 0",
}


def _fits(shape: Shape, other: Shape | None, same: bool) -> bool:
    """Return True if the shapes are the same, or the first broadcasts to the other."""
    if other is None:
        return True
    if len(shape) > len(other) or (same and len(shape) < len(other)):
        return False
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return all(a == b or (not same and a == 1) for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _check_input(op: Op, index: int, shape: Shape, wanted: Wanted, sizes: dict[str, _Size]) -> None:
    rank = len(shape)
    if wanted.whole:
        if not _WHOLE[wanted.whole](op, shape):
            raise op.error(f"{_who(op, index)} has shape [{', '.join(map(str, shape))}], rank {rank}; it {_SAID[wanted.whole]}")
        return
    if rank < wanted.rank or (rank > wanted.rank and not wanted.more):
        more = " or more" if wanted.more else ""
        raise op.error(f"{_who(op, index)} has rank {rank}; it should have {wanted.rank}{more}, ({' '.join(wanted.tokens)})")
    for axis, token, factors in wanted.named:
        dim = shape[axis]
        if isinstance(dim, int) and (token not in sizes or sizes[token][0] != dim):
            _check_dim(op, (index, axis % rank), dim, token, factors, sizes)


def _check_dim(op: Op, place: tuple[int, int], dim: int, token: str, factors: Sequence[str], sizes: dict[str, _Size]) -> None:
    known: list[_Size] = []
    for factor in factors:
        found = _number(op, factor, sizes)
        if found is None:
            if len(factors) == 1:
                sizes[token] = dim, place
            return
        known.append(found)
    wanted = prod([number for number, _ in known])
    if dim != wanted:
        origin = known[-1][1]
        origin = origin if isinstance(origin, str) else f" of {_dimension(op, origin)}"
        said = f"but {token} is {wanted}{origin}" if origin else f"it should be {wanted}"
        raise op.error(f"{_dimension(op, place)} is {dim}, {said}")


def _number(op: Op, factor: str, sizes: dict[str, _Size]) -> _Size | None:
    """Return the value of a name; None: not known yet."""
    if factor in sizes:
        return sizes[factor]
    if factor.isdigit():
        return int(factor), ""
    if factor == "D" and "hidden_size" in op.node.attributes:
        return (2 if op.attr("direction") == "bidirectional" else 1), " by its direction"
    given = op.attr(factor, 1 if factor in ("group", "offset_group") else None)
    return (given, " by its attribute") if isinstance(given, int) else None


def _dimension(op: Op, place: tuple[int, int]) -> str:
    index, axis = place
    return f"dimension {axis} of {_who(op, index)}"


def _who(op: Op, index: int) -> str:
    value = op.node.inputs[index]
    return f"input {index}" if value is None else f"input {index} ({value.name!r})"
