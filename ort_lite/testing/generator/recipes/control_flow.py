"""Recipes of If, Loop and Scan. Their bodies are drafts that the generator extends with a few nodes."""

from collections.abc import Sequence

import numpy as np

from ort_lite.graph.types import TensorType, Type
from ort_lite.record import Record
from ort_lite.testing.generator.bodies import add_next_state, add_output, add_row
from ort_lite.testing.generator.draft import Draft, Known, sizes_of
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

SIMPLE = ("float32", "float32", "int64", "bool", "float64", "int32")
MOST_TURNS = 4


def more_kinds(draw: Draw, most: int) -> list[str]:
    """Return up to `most` element types for additional states or outputs."""
    return [draw.choice(SIMPLE) for _ in range(draw.integer(0, most))]


@recipe("If")
def if_(draw: Draw) -> NodeProposal:
    """Draw a condition and two branches with the same number and types of outputs."""
    condition = (
        draw.value(0, 0, 0).name if draw.chance(0.5) else draw.array(np.full(draw.choice([(), (), (1,)]), draw.chance(0.5)))
    )
    then, otherwise = draw.body(), draw.body()
    types: list[Type] = []
    for kind in [draw.output_kind(0), *more_kinds(draw, 2)]:
        first = add_output(draw.inside(then), kind)
        alike = first.shape if draw.chance(0.6) else None
        types.append(_either(first, add_output(draw.inside(otherwise), kind, alike)))
    return call([condition], len(types), types=types, then_branch=then, else_branch=otherwise)


def _either(first: Known, second: Known) -> Type:
    """Return the type of an output. Its shape is known if both branches have the same one."""
    if not isinstance(first.type, TensorType):
        return first.type
    return TensorType(first.type.dtype, first.shape if first.shape == second.shape else None)


@recipe("Loop")
def loop(draw: Draw) -> NodeProposal:
    """Draw states and a body. The number of iterations follows from the trip count, the first condition and the body's condition."""
    count = draw.maybe(draw.integer(0, MOST_TURNS), 0.8)
    goes_on = draw.maybe(draw.chance(0.85), 0.7)
    states = [draw.value_of(draw.types["V"], open_shape=True), *_tensors(draw, more_kinds(draw, 2))]
    shape_grows = draw.chance(0.2) and states[0].shape is not None and states[0].rank > 0
    formal = [TensorType(state.kind, None) if k == 0 and shape_grows else state.type for k, state in enumerate(states)]
    body = draw.body([TensorType("int64", ()), TensorType("bool", ()), *formal])
    inner = draw.inside(body)
    turn, condition, *inputs = [body.values[name] for name in body.inputs]
    turns = _next_condition(inner, turn, condition, count, True if goes_on is None else goes_on)
    types: list[Type | None] = []
    for k, (state, known) in enumerate(zip(states, inputs, strict=True)):
        if k == 0 and shape_grows:
            types.append(_growing(inner, known, state, turns))
        else:
            add_next_state(inner, known)
            types.append(state.type)
    types.extend(TensorType(kind, (turns, *add_row(inner, kind))) for kind in more_kinds(draw, 2))
    size = np.array(count if draw.chance(0.8) else [count], np.int64) if count is not None else None
    operands = ["" if size is None else draw.array(size)]
    operands.append("" if goes_on is None else draw.array(np.array(goes_on)))
    return call([*operands, *(state.name for state in states)], len(types), types=types, body=body)


def _tensors(draw: Draw, kinds: Sequence[str]) -> list[Known]:
    return [draw.value_of(kind, high=3) for kind in kinds]


def _next_condition(inner: Draw, turn: Known, condition: Known, count: int | None, starts: bool) -> int:
    """Add the condition output of a loop's body and return the number of iterations."""
    body = inner.draft
    most = 1 << 30 if count is None else count
    how = "until" if count is None and starts else inner.choice(["same", "same", "fixed", "until"])
    if how == "same":
        following, turns = body.append("Identity", [condition.name])[0], most
    elif how == "fixed":
        value = count is not None and inner.chance(0.7)
        following = body.append("Identity", [inner.array(np.array(value))])[0]
        turns = most if value else min(most, 1)
    else:
        last = inner.integer(0, MOST_TURNS - 1)
        reached = body.append("Equal", [turn.name, inner.scalar(last, "int64")])[0]
        following, turns = body.append("Not", [reached.name])[0], min(most, last + 1)
    body.outputs.append(following.name)
    return turns if starts else 0


def _growing(inner: Draw, known: Known, state: Known, turns: int) -> Type:
    """Add a state that each iteration extends by rows, and return its final type."""
    axis = inner.axis(state.rank) if inner.draft.opsets[""] >= 11 else inner.integer(0, state.rank - 1)
    sizes = list(state.sizes)
    sizes[axis] = inner.integer(1, 2)
    part = inner.tensor_of(state.kind, sizes)
    inner.draft.outputs.append(inner.draft.append("Concat", [known.name, part], {"axis": axis})[0].name)
    last = list(state.sizes)
    last[axis] += turns * sizes[axis]
    return TensorType(state.kind, tuple(last))


@recipe("Scan")
def scan(draw: Draw) -> NodeProposal:
    """Draw states, which keep their shapes, and scan inputs of equal length along their axes.

    Without iterations, axes are 0, because onnxruntime aborts the process otherwise.
    """
    length = 0 if draw.chance(0.03) else draw.integer(1, 4)
    kinds = [draw.types["V"], *more_kinds(draw, 2)]
    draw.rng.shuffle(kinds)
    state_count = draw.integer(0, len(kinds) - 1)
    states = [TensorType(kind, draw.shape(0, 2, most=4)) for kind in kinds[:state_count]]
    slices = [TensorType(kind, draw.shape(0, 2, most=4)) for kind in kinds[state_count:]]
    body = draw.body([*states, *slices])
    inner = draw.inside(body)
    for name in body.inputs[:state_count]:
        add_next_state(inner, body.values[name])
    results = [draw.choice(kinds), *more_kinds(draw, 1)]
    rows = [TensorType(kind, add_row(inner, kind)) for kind in results]
    return (_old_scan if draw.version == 8 else _new_scan)(draw, _Operands(length, states, slices, rows), body)


class _Operands(Record, eq=False):
    """The types of a Scan's states, of the slices of its inputs and of the rows of its outputs, and the number of slices, `length`."""

    length: int
    states: Sequence[TensorType]
    slices: Sequence[TensorType]
    rows: Sequence[TensorType]


def _tensor(draw: Draw, type_: TensorType, *sizes: int) -> str:
    return draw.tensor_of(type_.dtype, (*sizes, *(sizes_of(type_) or ())))


def _old_scan(draw: Draw, own: _Operands, body: Draft) -> NodeProposal:
    """Draw Scan-8, whose operands have a leading batch axis; in scan inputs and outputs the sequence axis follows."""
    batch, length = draw.integer(1, 2), own.length
    operands = [_tensor(draw, one, batch) for one in own.states] + [_tensor(draw, one, batch, length) for one in own.slices]
    lengths = draw.ints(*(draw.integer(min(1, length), length) for _ in range(batch))) if draw.chance(0.5) else ""
    types = [TensorType(one.dtype, (batch, *(one.shape or ()))) for one in own.states]
    types += [TensorType(one.dtype, (batch, length, *(one.shape or ()))) for one in own.rows]
    directions = draw.maybe([draw.integer(0, 1) for _ in own.slices])
    count = len(own.slices)
    return call([lengths, *operands], len(types), types=types, body=body, num_scan_inputs=count, directions=directions)


def _new_scan(draw: Draw, own: _Operands, body: Draft) -> NodeProposal:
    operands, types = [_tensor(draw, one) for one in own.states], [*own.states]
    input_axes, output_axes = [], []
    for one in own.slices:
        axis, whole = _stack(draw, one, own.length)
        input_axes.append(axis)
        operands.append(_tensor(draw, whole))
    for one in own.rows:
        axis, whole = _stack(draw, one, own.length)
        output_axes.append(axis)
        types.append(whole)
    return call(
        operands,
        len(types),
        types=types,
        body=body,
        num_scan_inputs=len(own.slices),
        scan_input_axes=input_axes if any(input_axes) or draw.chance(0.3) else None,
        scan_output_axes=output_axes if any(output_axes) or draw.chance(0.3) else None,
        scan_input_directions=draw.maybe([draw.integer(0, 1) for _ in own.slices]),
        scan_output_directions=draw.maybe([draw.integer(0, 1) for _ in own.rows]),
    )


def _stack(draw: Draw, one: TensorType, length: int) -> tuple[int, TensorType]:
    """Draw an axis, and return it with the type of the tensors stacked along it."""
    sizes = list(sizes_of(one) or ())
    rank = len(sizes) + 1
    axis = _axis(draw, rank, draw.version >= 11) if length else 0
    sizes.insert(axis % rank, length)
    return axis, TensorType(one.dtype, tuple(sizes))


def _axis(draw: Draw, rank: int, negative: bool) -> int:
    if draw.chance(0.5):
        return 0
    return draw.axis(rank) if negative else draw.integer(0, rank - 1)
