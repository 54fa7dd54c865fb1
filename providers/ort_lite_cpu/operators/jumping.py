"""The If, Loop and Scan operators as jump instructions, for bodies that can be inlined: no Python runs between iterations.

A state has memory of its own, which a turn reads and then overwrites. What is scanned is copied row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ort_lite.graph import Graph, TensorType, Value
from ort_lite.inference import Info
from ort_lite.record import Record
from ort_lite.shapes import maximum, minimum, product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import work_of_copy
from ort_lite_cpu.kernels import jumps, primitives
from ort_lite_cpu.lowering.builder import Builder
from ort_lite_cpu.lowering.inline import Inlined, Known, count, expect, inline_body, jump, pass_outer, splice
from ort_lite_cpu.lowering.lowered import Instruction, Requirement
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Buffer, Tensor, bits, same_shape
from ort_lite_cpu.lowering.values import Values

ANY_TURNS = 1000
"""The assumed number of turns of a loop that only the run knows; its assumed cost is at least `LONG` nanoseconds.

A run never keeps the GIL that long: `RunOptions.terminate` has to reach it."""
LONG = 1_000_000
MANY_TURNS, SECOND = 1_000_000, 1_000_000_000
"""The largest assumed turns and nanoseconds of a loop, so that products stay within 64 bits."""
NEVER_ENDS = np.full(1, np.iinfo(np.int64).max)


# --- If
def as_branches(op: NodeLowering) -> bool:
    """Return False, with nothing emitted, if the branches have to be called."""
    values = op.values
    condition = _number(op, 0) if op.options.inline else None
    if condition is None:
        return False
    tensor, info = condition
    known = None if info.contents is None else info.contents[0]
    graphs: list[Graph] = [op.attr("else_branch"), op.attr("then_branch")]
    if isinstance(known, int):
        return _surely(op, inline_body(values, graphs[known != 0], []))
    otherwise, then = (inline_body(values, graph, []) for graph in graphs)
    if otherwise is not None and then is not None and _alike(otherwise, then):
        _either(op, values.builder.store(tensor), then, otherwise)
        return True
    if then is None or known is None:
        return False
    expect(values, Requirement(op.node, known, "", (), expected=True), sure=True)
    return _surely(op, then)


def _surely(op: NodeLowering, branch: Inlined | None) -> bool:
    if branch is None:
        return False
    splice(op.values, branch, sure=True)
    for k, (tensor, info) in enumerate(branch.results):
        _set(op, k, tensor, info)
    return True


def _alike(a: Inlined, b: Inlined) -> bool:
    """Return True if the results have the same types and shapes for all values of symbols."""
    pairs = zip(a.results, b.results, strict=True)
    return all(x.dtype == y.dtype and same_shape(x.shape, y.shape) for (x, _), (y, _) in pairs)


def _either(op: NodeLowering, condition: Tensor, then: Inlined, otherwise: Inlined) -> None:
    """Emit `then` or `otherwise` as the condition says; both leave their results in the same memory."""
    values = op.values
    outs = [values.builder.new(tensor.dtype, tensor.shape) for tensor, _ in then.results]
    for branch in (then, otherwise):
        branch.results = [(_readable(values.builder, branch, tensor), info) for tensor, info in branch.results]
    test = jump(values.builder, jumps.unless, [condition])
    begin = count(values.builder)
    _land(values, then, outs)
    leave = jump(values.builder, jumps.always, [])
    middle = count(values.builder)
    _land(values, otherwise, outs)
    test.jump, leave.jump = middle - begin + 1, count(values.builder) - middle + 1
    for k, out in enumerate(outs):
        _set(op, k, out, _shape_info(out))


def _readable(builder: Builder, body: Inlined, tensor: Tensor) -> Tensor:
    """Return the tensor, stored in memory in logical order unless the body owns it."""
    return tensor if body.owns(tensor) else builder.store(tensor)


def _land(values: Values, branch: Inlined, outs: Sequence[Tensor]) -> None:
    """Append a branch that leaves its results in `outs`: they are made there, or copied."""
    targets: dict[Buffer | None, Buffer] = {}
    for (tensor, _), out in zip(branch.results, outs, strict=True):
        if _fits(branch, tensor, out) and tensor.buffer not in targets:
            assert out.buffer is not None
            targets[tensor.buffer] = out.buffer
    splice(values, branch, sure=False, targets=targets)
    for (tensor, _), out in zip(branch.results, outs, strict=True):
        source = _redirect(tensor, targets)
        if source.buffer is not out.buffer:
            _copy(values.builder, source, out)


def _fits(branch: Inlined, tensor: Tensor, out: Tensor) -> bool:
    """Return True if the branch may compute the tensor in the memory of `out`."""
    assert out.buffer is not None
    return branch.owns(tensor) and tensor.buffer is not None and same(tensor.buffer.nbytes, out.buffer.nbytes)


# --- Loop and Scan
class Row(Record):
    """A slice of a tensor, of which each turn has its own, along `axis`; from the last to the first where `back`."""

    whole: Tensor
    slice: Tensor
    axis: int
    back: bool

    @property
    def sizes(self) -> dict[str, Dim]:
        """The sizes for the kernels that copy a row."""
        shape = bits(self.whole).shape
        outer, inner = product(shape[: self.axis]), product(shape[self.axis + 1 :])
        return {"outer": outer, "turns": shape[self.axis], "inner": inner, "back": int(self.back)}


class State(Record):
    """The loop-carried state: before the first iteration, during one, and after the last."""

    start: Tensor
    held: Tensor
    result: Tensor


class Turns(Record):
    """The iteration count of a body: `turn` runs up to `limit` while `going` is true. `number` is the total, if it is known."""

    turn: Tensor
    limit: Tensor
    going: Tensor
    number: Dim | None

    @property
    def operands(self) -> list[Tensor]:
        """The counter, the limit and the condition, as operands of a kernel."""
        return [self.turn, self.limit, self.going]


def as_loop(op: NodeLowering) -> bool:
    """Emit a Loop as jumps if its states keep their shapes, and its iteration count is known wherever rows are stacked."""
    if not op.options.inline:
        return False
    values, graph = op.values, op.attr("body")
    returned, inputs = values.bodies[graph].result_slots, op.node.inputs[2:]
    stacks = len(returned) > 1 + len(inputs)
    number = _trips(op, stacks)
    limit = _number(op, 0) if op.has(0) else (op.array(NEVER_ENDS), Info())
    begun = [None if value is None else pass_outer(values, value) for value in inputs]
    condition = _number(op, 1) if op.has(1) else _true()
    starts = [one for one in begun if one is not None]
    if limit is None or condition is None or len(starts) < len(begun):
        return False
    turn = values.builder.new("int64", (1,))
    number_of_turn = values.builder.view(turn, ())
    held = [_state_in_loop(values.builder, one, fixed=_is_slot(returned[1 + k], 2 + k)) for k, one in enumerate(starts)]
    made, going, always = _while(values, graph, condition, [(number_of_turn, _shape_info(number_of_turn)), *held])
    if made is None or (stacks and (number is None or not always)):
        return False
    pairs = [(condition, (going, condition[1])), *zip(starts, held, strict=True)]
    states = _states(pairs, made.results)
    turns = Turns(turn, values.builder.store(limit[0]), values.builder.store(going), number if always else None)
    if states is None or not made.instructions:
        return False
    rows = [] if number is None else [_stack(values.builder, tensor, number, 0) for tensor, _ in made.results[len(pairs) :]]
    _roll(values, made, turns, states, [], rows)
    _leave(op, held, rows)
    return True


def _trips(op: NodeLowering, wanted: bool) -> Dim | None:
    """Return the iteration count of a Loop without a condition if it is known at binding; if `wanted`, read it from an input."""
    if not op.has(0):
        return None
    info = op.values.inference.of(_input(op, 0))
    contents = info.contents
    if contents is None and wanted and not op.values.is_body and info.shape is not None and same(product(info.shape), 1):
        contents = op.contents(0)
    return None if contents is None else maximum(contents[0], 0)


def _while(values: Values, graph: Graph, condition: Known, others: Sequence[Known]) -> tuple[Inlined | None, Tensor, bool]:
    """Return (the body of a Loop, the place of its condition during a turn, True if that is always true)."""
    number, *states = others
    if condition[1].contents == (1,):
        true = _true()
        made = inline_body(values, graph, [number, true, *states])
        if made is None or made.results[0][1].contents == (1,):
            return made, true[0], True
    fixed = _is_slot(values.bodies[graph].result_slots[0], 1)
    going = values.builder.view(condition[0], ()) if fixed else values.builder.new("bool", ())
    return inline_body(values, graph, [number, (going, _shape_info(going)), *states]), going, False


def as_scan(op: NodeLowering) -> bool:
    """Emit a Scan as jumps if its states keep their shapes."""
    values, graph, scans = op.values, op.attr("body"), op.attr("num_scan_inputs")
    if not op.options.inline or not scans:
        return False
    begun = [None if value is None else pass_outer(values, value) for value in op.node.inputs]
    found = [one for one in begun if one is not None]
    split = len(begun) - scans
    if len(found) < len(begun):
        return False
    axes, backs = op.attr("scan_input_axes", [0] * scans), op.attr("scan_input_directions", [0] * scans)
    taken = [_take_row(values.builder, x, axis, back) for (x, _), axis, back in zip(found[split:], axes, backs, strict=True)]
    number = taken[0].whole.shape[taken[0].axis]
    if not all(same(row.whole.shape[row.axis], number) for row in taken):
        return False
    starts, returned = found[:split], values.bodies[graph].result_slots
    held = [_state_in_loop(values.builder, one, fixed=_is_slot(returned[k], k)) for k, one in enumerate(starts)]
    slices = [(row.slice, _shape_info(row.slice)) for row in taken]
    made = inline_body(values, graph, [*held, *slices])
    states = None if made is None else _states([*zip(starts, held, strict=True)], made.results)
    if made is None or states is None:
        return False
    results = [tensor for tensor, _ in made.results[split:]]
    axes, backs = op.attr("scan_output_axes", [0] * len(results)), op.attr("scan_output_directions", [0] * len(results))
    rows = [_stack(values.builder, x, number, axis, back) for x, axis, back in zip(results, axes, backs, strict=True)]
    limit = values.builder.store(Tensor("int64", (1,), contents=(number,)))
    _roll(values, made, Turns(values.builder.new("int64", (1,)), limit, _true()[0], number), states, taken, rows)
    _leave(op, held, rows)
    return True


# --- Parts of a loop
def _true() -> Known:
    array = np.ones((), np.bool_)
    return Tensor("bool", (), Buffer(1, array)), Info(TensorType("bool", ()), (1,))


def _shape_info(tensor: Tensor) -> Info:
    """Return the Info of a tensor of which no more is known than its type and shape."""
    return Info(TensorType(tensor.dtype, tensor.shape))


def _is_slot(returned: object, number: int) -> bool:
    """Return True if a body's output is the value in a slot. Outputs that are constants are arrays."""
    return type(returned) is int and returned == number


def _state_in_loop(builder: Builder, start: Known, fixed: bool) -> Known:
    """Return a state during the turns: no more is known of it than its shape, unless every turn hands it on as it is."""
    if fixed:
        return start
    tensor = builder.new(start[0].dtype, start[0].shape)
    return tensor, _shape_info(tensor)


def _states(pairs: Sequence[tuple[Known, Known]], results: Sequence[Known]) -> list[State] | None:
    """Return the states that change, or None if one does not keep its type and shape."""
    states = []
    for ((start, _), (held, _)), (result, _) in zip(pairs, results, strict=False):
        if result.dtype != held.dtype or not same_shape(result.shape, held.shape):
            return None
        if held.buffer is not None and held.buffer.constant is None and start.buffer is not held.buffer:
            states.append(State(start, held, result))
    return states


def _take_row(builder: Builder, x: Tensor, axis: int, back: int) -> Row:
    axis += len(x.shape) if axis < 0 else 0
    slice_ = builder.new(x.dtype, x.shape[:axis] + x.shape[axis + 1 :])
    return Row(builder.store(x), slice_, axis, back != 0)


def _stack(builder: Builder, row: Tensor, number: Dim, axis: int, back: int = 0) -> Row:
    axis += len(row.shape) + 1 if axis < 0 else 0
    return Row(builder.new(row.dtype, (*row.shape[:axis], number, *row.shape[axis:])), row, axis, back != 0)


def _roll(
    values: Values, made: Inlined, turns: Turns, states: Sequence[State], taken: Sequence[Row], rows: Sequence[Row]
) -> None:
    """Append the loop: states begin, then for each turn its slices, the body, its rows, and the states of the next one."""
    for state in states:
        _copy(values.builder, values.builder.store(state.start), state.held)
    ends = [_readable(values.builder, made, state.result) for state in states]
    slices = [_readable(values.builder, made, row.slice) for row in rows]
    enter = jump(values.builder, jumps.begin, turns.operands)
    begin = count(values.builder)
    for row in taken:
        values.builder.emit(values.builder.owner, jumps.take, [bits(row.whole), turns.turn, bits(row.slice)], named=row.sizes)
    targets = _overwritten(made, states)
    splice(values, made, sure=False, targets=targets)
    for row, slice_ in zip(rows, slices, strict=True):
        source = _redirect(slice_, targets)
        values.builder.emit(values.builder.owner, jumps.give, [bits(source), turns.turn, bits(row.whole)], named=row.sizes)
    # A result that the body does not make may be another state, which is overwritten below.
    ends = [end if made.owns(end) else values.builder.copy(end, values.builder.owner) for end in ends]
    for state, end in zip(states, ends, strict=True):
        source = _redirect(end, targets)
        if source.buffer is not state.held.buffer:
            _copy(values.builder, source, state.held)
    work = sum((each.work for each in made.instructions), start=0)
    cost = maximum(ANY_TURNS * work, LONG) if turns.number is None else minimum(turns.number, MANY_TURNS) * work
    again = jump(values.builder, jumps.again, turns.operands, minimum(cost, SECOND))
    after = count(values.builder)
    enter.jump, again.jump = after - begin + 1, begin - after + 1


def _overwritten(made: Inlined, states: Sequence[State]) -> dict[Buffer | None, Buffer]:
    """Return the results that the body may make in the memory of the state that they become: nothing else reads that any more.

    So a cache to which the body appends is not copied.
    """
    instructions, targets = made.instructions, dict[Buffer | None, Buffer]()
    if any(each.jump < 0 for each in instructions):
        return targets  # an inner loop reads again what it has read
    passed = {tensor.buffer for tensor, _ in made.results}
    for state in states:
        old, new = state.held.buffer, state.result.buffer
        if old is None or old in passed or new in targets or not _fits(made, state.result, state.held):
            continue
        last = max((k for k, each in enumerate(instructions) if old in each.operands), default=-1)
        first = min(k for k, each in enumerate(instructions) if new in each.operands)
        if last < first or (last == first and _is_written_over(instructions[first], new, old)):
            targets[new] = old
    return targets


def _is_written_over(instruction: Instruction, new: Buffer | None, old: Buffer) -> bool:
    """Return True if the instruction may write `new` to the memory of `old`, which it reads once."""
    operands = instruction.operands
    pairs = [pair for pair in (instruction.inplace, instruction.over) if pair is not None]
    return operands.count(old) == 1 and any((operands[out], operands[source]) == (new, old) for out, source in pairs)


def _redirect(tensor: Tensor, targets: Mapping[Buffer | None, Buffer]) -> Tensor:
    buffer = targets.get(tensor.buffer)
    return tensor if buffer is None else tensor.replace(buffer=buffer)


def _leave(op: NodeLowering, states: Sequence[Known], rows: Sequence[Row]) -> None:
    """Make states and rows the outputs of the node."""
    for k, (tensor, info) in enumerate(states):
        _set(op, k, tensor, info)
    for k, row in enumerate(rows, len(states)):
        _set(op, k, row.whole, _shape_info(row.whole))


# --- Of all three
def _input(op: NodeLowering, index: int) -> Value:
    value = op.node.inputs[index]
    assert value is not None
    return value


def _number(op: NodeLowering, index: int) -> Known | None:
    """Return an input of one element, as a body gets it."""
    found = pass_outer(op.values, _input(op, index))
    return found if found is not None and same(found[0].size, 1) else None


def _set(op: NodeLowering, index: int, tensor: Tensor, info: Info) -> None:
    value = op.node.outputs[index] if index < len(op.node.outputs) else None
    if value is not None:
        op.set(index, tensor)
        op.values.inference.infos[value] = info


def _copy(builder: Builder, x: Tensor, y: Tensor) -> None:
    source, target = bits(x), bits(y)
    builder.emit(
        builder.owner,
        primitives.copy,
        [source, target],
        named={"count": target.size},
        work=work_of_copy(target.dtype, target.size),
    )
