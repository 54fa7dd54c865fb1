"""Operators on texts as one Python step: what one hands to the next is a list, and no array of objects."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from ort_lite.graph import Node, TensorType
from ort_lite.inference import Info
from ort_lite.shapes import symbol
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.run.pace import Pace, step_error

Dims = tuple[int, ...]
Stage = Callable[[list[str], Dims], tuple[list[str], Dims]]
"""A function from texts in flat order and their shape to others."""
Finish = Callable[[list[str], Dims], Array]
"""A function from the final texts and their shape to an array."""


class Streamed(ABC):
    """A stage from texts to rows of words. `stream` says them as bytes (see `words`)."""

    least = 1
    """Words of a stream that have fewer bytes do not count."""

    def __init__(self, fill: str) -> None:
        """`fill` is what rows are filled up with."""
        self.fill = fill

    @abstractmethod
    def __call__(self, texts: list[str], shape: Dims) -> tuple[list[str], Dims]: ...

    @abstractmethod
    def stream(self, texts: list[str]) -> bytes:
        """Return the words of all texts, a row each."""


class TextStep:
    """The function of a step: another shape of the array, stages in order, each with its node, and the array at last."""

    def __init__(
        self, node: Node, view: Dims | None = None, stages: Sequence[tuple[Node, Stage]] = (), finish: Finish | None = None
    ) -> None:
        """`view` may hold a -1. `node` is that of `finish`; None: the texts themselves are wanted."""
        self.view, self.stages = view, list(stages)
        self._node, self._finish, self._pace = node, finish, Pace(node)

    def __call__(self, x: Array) -> list[Array]:
        done, pace = 0, self._pace
        try:
            if self.view is not None:
                x = x.reshape(self.view)
            if not self.stages and self._finish is None:
                return [x]
            texts, shape = pace.elements(x), x.shape
            for _, stage in self.stages:
                texts, shape = stage(texts, shape)
                done += 1
            if self._finish is not None:
                return [self._finish(texts, shape)]
            return [pace.array(texts, shape)]
        except OrtLiteError:
            raise
        except Exception as error:
            node = self.stages[done][0] if done < len(self.stages) else self._node
            raise step_error(node, error) from error


def emit_view(op: NodeLowering, view: Dims) -> None:
    """Set output 0 to the array of input 0 under another shape."""
    [y] = op.builder.step(op.node, TextStep(op.node, view), [op.raw(0)], [op.info()], shared=(0,))
    assert y is not None
    op.set(0, y)


def emit_texts(op: NodeLowering, stage: Stage) -> None:
    """Set output 0 to what `stage` makes of the texts of input 0."""
    op.set(0, _emit(op, [(op.node, stage)], None, op.info()))


def emit_numbers(op: NodeLowering, finish: Finish, info: Info) -> Tensor:
    """Emit the conversion of input 0's texts by `finish`."""
    return _emit(op, [], finish, info)


def emit_stream(op: NodeLowering, accepts: Callable[[str], bool]) -> tuple[Tensor, int] | None:
    """Return (the bytes that a stage that can be streamed would make, the least length of its words).

    Returns None without such a stage, if others read its words too, or if `accepts` refuses what it fills rows up with.
    """
    x, values, value = op.raw(0), op.values, op.node.inputs[0]
    if value is None or values.remaining.get(value) != 1 or len(x.shape) != 2:
        return None

    def fits(function: Any) -> bool:
        stage = function.stages[-1][1] if isinstance(function, TextStep) and function.stages else None
        return isinstance(stage, Streamed) and accepts(stage.fill)

    before = values.builder.take_back(x, (), fits, lost=x.shape[1:])
    if before is None:
        return None
    head: Any = before.function
    node, last = head.stages[-1]
    step = TextStep(node, head.view, head.stages[:-1], lambda texts, shape: np.frombuffer(last.stream(texts), np.uint8))
    nbytes = symbol(f"{x.name}.bytes#{len(values.builder.result.sources)}")
    [made] = values.builder.step(op.node, step, before.inputs, [Info(TensorType("uint8", (nbytes,)))])
    assert made is not None
    return made, last.least


def _emit(op: NodeLowering, stages: Sequence[tuple[Node, Stage]], finish: Finish | None, info: Info) -> Tensor:
    """Emit a step of its own, or extend the previous step if it produces the texts and has no other reader."""
    x, values, value = op.raw(0), op.values, op.node.inputs[0]
    inputs: Sequence[Tensor | None] = [x]
    before: Any = None
    if value is not None and values.remaining.get(value) == 1:
        before = values.builder.take_back(x, info.shape or (), lambda function: isinstance(function, TextStep))
    if before is None:
        function = TextStep(op.node, None, stages, finish)
    else:
        inputs, head = before.inputs, before.function
        function = TextStep(op.node, head.view, [*head.stages, *stages], finish)
    [made] = values.builder.step(op.node, function, inputs, [info])
    assert made is not None
    return made
