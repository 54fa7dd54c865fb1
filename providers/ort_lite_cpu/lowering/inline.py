"""A compiled body lowered once more, inside of the program around it: its instructions, between some that jump.

A body is inlined where it is made of programs of this provider which become nothing but instructions whose sizes the program around
it knows. All others are called as functions, see `operators.control_flow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import from_numpy
from ort_lite.errors import OrtLiteError
from ort_lite.graph import Graph, Value
from ort_lite.inference import Info, constant_info
from ort_lite.native.spec import Spec
from ort_lite.provider import Body
from ort_lite.record import Record
from ort_lite.shapes import less, symbols
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels import jumps
from ort_lite_cpu.lowering.builder import Builder
from ort_lite_cpu.lowering.failure import Failure
from ort_lite_cpu.lowering.lower import Lowering
from ort_lite_cpu.lowering.lowered import Instruction, Requirement, Source
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.lowering.values import Values

Known = tuple[Tensor, Info]
"""A value of a body, and what is known of it."""

_NUMBERS = 8
"""The most numbers that `jumps.refuse` has room for; a message that has more is cut."""


class Inlined(Record, frozen=False):
    """A body's instructions, and where its results are after them. Those may be tensors that it was given, or constants."""

    name: str
    items: list[Instruction | Requirement]
    primary: dict[Buffer, Tensor]
    """The primary tensors of buffers that the instructions fill."""
    results: list[Known]

    def owns(self, tensor: Tensor) -> bool:
        """Return True if its instructions make it."""
        return tensor.buffer in self.primary

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions of the body."""
        return [item for item in self.items if isinstance(item, Instruction)]


def pass_outer(values: Values, value: Value) -> Known | None:
    """Return an outer value as bodies get it: in memory, unless its elements are known. None if its rank and numbers are unknown."""
    tensor, info = values.tensor(value), values.inference.of(value)
    if not tensor.ranked or not tensor.dtype or tensor.dtype == "string":
        return None
    return in_memory(values.builder, tensor), info


def in_memory(builder: Builder, tensor: Tensor) -> Tensor:
    """Return the tensor as instructions may read it wherever they are: what is computed in a branch is computed there alone."""
    if tensor.buffer is None and tensor.contents is not None:
        return tensor.replace()
    tensor = builder.store(tensor)
    builder.look_at(tensor)
    return tensor


def inline_body(values: Values, graph: Graph, inputs: Sequence[Known]) -> Inlined | None:
    """Return the body for these inputs, not yet part of the program. None where it has to be called."""
    body = values.bodies[graph]
    captured = [pass_outer(values, value) for value in body.captures]
    if None in captured:
        return None
    slots: dict[int, Known] = dict(enumerate([*inputs, *(one for one in captured if one is not None)]))
    made = Inlined(graph.name, [], {}, [])
    for step in body.steps:
        source = getattr(step.function, "source", None)
        if not isinstance(source, Source) or source.options.replace(inline=True) != values.options:
            return None
        outputs = _lower_into(values, source, [slots[slot] for slot in step.inputs], made)
        if outputs is None:
            return None
        slots.update(zip(step.outputs, outputs, strict=True))
    for slot in body.result_slots:
        known = slots[slot] if type(slot) is int else _constant(slot)
        if known is None:
            return None
        made.results.append(known)
    return made


def settle(body: Body, inlined: bool) -> None:
    """Tell the programs of a body if nobody calls them, see `Source.inlined`; then nobody calls the bodies inside either."""
    for step in body.steps:
        source = getattr(step.function, "source", None)
        if isinstance(source, Source):
            source.inlined = inlined
            for inner in source.bodies.values() if inlined else ():
                settle(inner, inlined)


def _lower_into(values: Values, source: Source, inputs: Sequence[Known], made: Inlined) -> list[Known] | None:
    """Return the outputs of a program whose instructions are added to `made`, or None, with nothing added, if it has other items."""
    child = values.inside(source.bodies)
    for value, (tensor, info) in zip(source.inputs, inputs, strict=True):
        child.give(value, tensor, info)
    outer = {tensor.buffer for tensor, _ in inputs}
    try:
        found = Lowering(child).run(source.nodes, source.outputs)
    except OrtLiteError:  # what is wrong with the body is told when it is called
        return None
    items = [item for item in found.items if isinstance(item, Instruction | Requirement)]
    primary = {buffer: tensor for buffer, tensor in found.primary.items() if buffer not in outer}
    # Elements that the body itself reads are in time for a program of its own alone.
    if len(items) < len(found.items) or not child.outer.issuperset(symbols(_numbers(items, primary.values()))):
        return None
    # A run fails for a negative dimension when it is bound, and also where the body's turn would not come.
    if not values.assume([less(-1, dim) for tensor in primary.values() for dim in tensor.shape]):
        return None
    made.items += items
    made.primary |= primary
    values.builder.result.wanted += found.wanted
    return [(t, child.inference.of(value)) for t, value in zip(found.outputs, source.outputs, strict=True)]


def _numbers(items: Iterable[Instruction | Requirement], tensors: Iterable[Tensor]) -> Iterator[Dim]:
    """Return everything that needs a value when the instructions run."""
    for tensor in tensors:
        yield from tensor.shape
    for item in items:
        if isinstance(item, Requirement):
            yield from (item.condition, *item.numbers)
        else:
            yield from (item.work, item.rounds, *(scalar for scalar in item.scalars if not isinstance(scalar, float)))


def _constant(array: Any) -> Known | None:
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        return None
    array = np.require(array, requirements="C")
    return Tensor(from_numpy(array.dtype), array.shape, Buffer(array.nbytes, array)), constant_info(array)


# --- Into the program
def splice(values: Values, made: Inlined, sure: bool, targets: Mapping[Buffer | None, Buffer] = {}) -> None:
    """Append the body's instructions. What they make in one of `targets` they make in another buffer instead.

    sure: they run whenever the program does. Others look at what they require when their turn comes.
    """
    items, here = values.builder.result.items, f"; in {made.name!r} of {values.builder.owner}"
    for item in made.items:
        inside = item.inside + here
        if isinstance(item, Requirement):
            if item.expected:
                expect(values, item, sure)
            elif sure:
                items.append(item.replace(inside=inside))
            else:
                _refuse(values.builder, item, inside)
        else:
            operands = tuple(targets.get(buffer, buffer) for buffer in item.operands) if targets else item.operands
            items.append(item.replace(operands=operands, inside=inside))
    values.builder.result.primary.update((b, tensor) for b, tensor in made.primary.items() if b not in targets)


def expect(values: Values, required: Requirement, sure: bool) -> None:
    """Go on only if the condition is not 0. Other cases have another program, to which the run changes."""
    if sure and values.is_body:
        values.builder.result.items.append(required)  # whether it is sure there, the program around says
    elif not (sure and values.assume([required.condition])):
        values.builder.emit(required.node, EXPECT, [], scalars=(required.condition,), work=1)


def _refuse(builder: Builder, required: Requirement, inside: str) -> None:
    def message(failure: Failure) -> str:
        return required.message.format(*(failure.scalar(f"v{k}") for k in range(_NUMBERS)))

    numbers = (*required.numbers, *[0] * _NUMBERS)[:_NUMBERS]
    builder.emit(required.node, REFUSE, [], scalars=(required.condition, *numbers), work=1, message=message)
    made = builder.result.items[-1]
    assert isinstance(made, Instruction)
    made.inside = inside


def jump(builder: Builder, kernel: Any, operands: Sequence[Tensor], work: Dim = 1) -> Instruction:
    """Append an instruction that jumps; its destination is set later, see `count`."""
    builder.emit(builder.owner, Spec(kernel, [tensor.native for tensor in operands]), operands, work=work)
    made = builder.result.items[-1]
    assert isinstance(made, Instruction)
    return made


def count(builder: Builder) -> int:
    """Return the number of instructions so far, which is the number of the next."""
    return sum(isinstance(item, Instruction) for item in builder.result.items)


REFUSE, EXPECT = Spec(jumps.refuse), Spec(jumps.expect)
