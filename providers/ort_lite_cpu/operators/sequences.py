"""Sequences and optionals: Python steps over lists, and None for an optional without an element.

Elements are handed on as they are, never written to: a list costs what its length costs, not its arrays.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph import Graph, Node, TensorType
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.control_flow import Captured, captures_of
from ort_lite_cpu.operators.copying import concatenate, contiguous, stack
from ort_lite_cpu.registry import ANY, operator
from ort_lite_cpu.run.pace import check

FIRST = (0,)
"""Output 0 may be, or hold, what the step was given."""


def _position(at: Array, length: int, last: int) -> int:
    """Return an index from the end or the start. Raises IndexError out of [-length, last]."""
    index = int(at.reshape(-1)[0])
    if not -length <= index <= last:
        raise IndexError(f"position {index} is out of range [-{length}, {last}] of a sequence of {length}")
    return index + length if index < 0 else index


@operator("SequenceConstruct", since=11, types=ANY, python=True)
def sequence_construct(op: NodeLowering) -> None:
    """Emit SequenceConstruct. Spec: ONNX SequenceConstruct-11."""
    op.values.host(op.node, lambda *arrays: [list(arrays)], python=True, shared=FIRST)


@operator("SequenceEmpty", since=11, types=ANY, python=True)
def sequence_empty(op: NodeLowering) -> None:
    """Emit SequenceEmpty. Spec: ONNX SequenceEmpty-11."""
    op.python(lambda: [[]])


@operator("SequenceLength", since=11, types=ANY, python=True)
def sequence_length(op: NodeLowering) -> None:
    """Emit SequenceLength. Spec: ONNX SequenceLength-11."""
    op.python(lambda sequence: [np.array(len(sequence), np.int64)])


@operator("SequenceAt", since=11, types=ANY, python=True)
def sequence_at(op: NodeLowering) -> None:
    """Emit SequenceAt. Spec: ONNX SequenceAt-11."""

    def step(sequence: Sequence[Any], at: Array) -> list[Any]:
        return [sequence[_position(at, len(sequence), len(sequence) - 1)]]

    op.values.host(op.node, step, python=True, shared=FIRST)


@operator("SequenceErase", since=11, types=ANY, python=True)
def sequence_erase(op: NodeLowering) -> None:
    """Erase an element, by default the last. Spec: ONNX SequenceErase-11."""

    def step(sequence: Sequence[Any], at: Array | None = None) -> list[Any]:
        index = _position(np.array(-1) if at is None else at, len(sequence), len(sequence) - 1)
        return [[*sequence[:index], *sequence[index + 1 :]]]

    op.values.host(op.node, step, python=True, shared=FIRST)


@operator("SequenceInsert", since=11, types=ANY, python=True)
def sequence_insert(op: NodeLowering) -> None:
    """Emit SequenceInsert; the default position is the end. Spec: ONNX SequenceInsert-11."""

    def step(sequence: Sequence[Any], element: Any, at: Array | None = None) -> list[Any]:
        index = len(sequence) if at is None else _position(at, len(sequence), len(sequence))
        return [[*sequence[:index], element, *sequence[index:]]]

    op.values.host(op.node, step, python=True, shared=FIRST)


@operator("ConcatFromSequence", since=11, types=ANY, python=True)
def concat_from_sequence(op: NodeLowering) -> None:
    """Emit ConcatFromSequence. Spec: ONNX ConcatFromSequence-11."""
    join = stack if op.attr("new_axis", 0) else concatenate
    axis, pace, node = int(op.attr("axis")), op.pace, op.node
    op.python(lambda sequence: [join(node, pace.take_references(sequence), axis)])


@operator("SplitToSequence", since=11, types=ANY, python=True)
def split_to_sequence(op: NodeLowering) -> None:
    """Split by the lengths of the pieces, or by one length, or into single entries, then without the axis unless `keepdims`.

    Spec: ONNX SplitToSequence-24.
    """
    axis, keep, node = op.attr("axis", 0), bool(op.attr("keepdims", 1)), op.node

    def step(x: Array, split: Array | None = None) -> list[Any]:
        count = x.shape[axis]
        pieces: list[Any] = []  # of a run that is cancelled it lives as long as the error: freeing millions takes a while
        if split is None:
            pieces.extend(_piece(node, x, axis, k, k + 1 if keep else None) for k in range(count))
            return [pieces]
        if split.ndim == 0:
            if int(split) < 1:
                raise ValueError(f"split is {int(split)}, expected 1 or more")
            starts: Iterable[int] = chain(range(0, count, int(split)), [count])  # an empty axis has no piece
        elif int(split.sum()) == count and not (split < 0).any():
            starts = [0, *np.cumsum(split).tolist()]
        else:
            raise ValueError(f"the lengths {split.tolist()} do not add up to the {count} of axis {axis}")
        pieces.extend(_piece(node, x, axis, start, end) for start, end in pairwise(starts))
        return [pieces]

    op.values.host(op.node, step, python=True, shared=FIRST)


def _piece(node: Node, x: Array, axis: int, start: int, end: int | None) -> Array:
    """Return entries start to end - 1 along the axis; without an end entry start, without the axis."""
    check(node)
    axis += x.ndim if axis < 0 else 0
    return contiguous(node, np.asarray(x[(*(slice(None),) * axis, start if end is None else slice(start, end))], x.dtype))


@operator("SequenceMap", since=17, types=ANY, python=True)
def sequence_map(op: NodeLowering) -> None:
    """Run the body for each element of the first sequence and its counterparts in others; tensors are given to each.

    Spec: ONNX SequenceMap-17.
    """
    graph: Graph = op.attr("body")
    captures = captures_of(op, graph)
    body = Captured(op, graph, captures)
    given, outputs = len(op.node.inputs), len(op.node.outputs)

    def step(*arrays: Any) -> list[Any]:
        inputs, captured = arrays[:given], arrays[given:]
        made: list[list[Any]] = [[] for _ in range(outputs)]
        for k in range(len(inputs[0])):
            results = body([value[k] if isinstance(value, list) else value for value in inputs], captured)
            for elements, result in zip(made, results, strict=True):
                elements.append(result)
            body.settle(made)
        return made

    op.values.host(op.node, step, python=True, captures=captures, shared=range(outputs))


@operator("Optional", since=15, types=ANY, python=True)
def optional(op: NodeLowering) -> None:
    """Emit Optional. Spec: ONNX Optional-15."""
    op.values.host(op.node, lambda *value: [value[0] if value else None], python=True, shared=FIRST)


@operator("OptionalGetElement", since=15, types=ANY, python=True)
def optional_get_element(op: NodeLowering) -> None:
    """Pass a tensor, or the content of an optional, on. Spec: ONNX OptionalGetElement-18."""
    value = op.node.inputs[0]
    if value is not None and isinstance(op.values.inference.of(value).type, TensorType):
        op.pass_on(op.raw(0))
        return

    def step(value: Any) -> list[Any]:
        if value is None:
            raise ValueError("the optional is empty; ask OptionalHasElement first")
        return [value]

    op.values.host(op.node, step, python=True, shared=FIRST)


@operator("OptionalHasElement", since=15, types=ANY, python=True)
def optional_has_element(op: NodeLowering) -> None:
    """Emit OptionalHasElement: False too for an input that is left out. Spec: ONNX OptionalHasElement-18."""
    op.python(lambda *value: [np.array(bool(value) and value[0] is not None)])
