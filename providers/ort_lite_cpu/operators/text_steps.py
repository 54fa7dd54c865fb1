"""Operators on texts as one Python step: what one hands to the next is a list, and no array of objects."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, to_numpy
from ort_lite.errors import OrtLiteError
from ort_lite.graph import Node, TensorType
from ort_lite.inference import Info
from ort_lite.shapes import symbol
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.lookup import Lookup
from ort_lite_cpu.operators.texts import text_stream
from ort_lite_cpu.run.pace import Pace, step_error

Dims = tuple[int, ...]
View = Callable[[Array], Array]
"""A function from an array to some of its elements, or to another shape of it."""
Stage = Callable[[list[str], Dims], tuple[list[str], Dims]]
"""A function from texts in flat order and their shape to others."""
Finish = Callable[[list[str], Dims], Array]
"""A function from the final texts and their shape to an array."""


class Streamed(ABC):
    """A stage from texts to rows of words. `stream` says them as bytes (see `words`)."""

    least = 1
    """Words of a stream that have fewer bytes do not count."""
    letters: bytes | None = None
    """The byte of a stream that each ASCII character becomes (256,), END for one that it cannot hold. None: it depends on others."""
    apart = False
    """True if each character is a word. If not, characters that are not ASCII are BETWEEN words."""

    def __init__(self, fill: str) -> None:
        """`fill` is what rows are filled up with."""
        self.fill = fill

    @abstractmethod
    def __call__(self, texts: list[str], shape: Dims) -> tuple[list[str], Dims]: ...

    @abstractmethod
    def stream(self, texts: list[str]) -> bytes:
        """Return the words of all texts, a row each."""


class TextStep:
    """The function of a step: views of the array and then stages in order, each with its node, and the array at last."""

    def __init__(
        self,
        node: Node,
        views: Sequence[tuple[Node, View]] = (),
        stages: Sequence[tuple[Node, Stage]] = (),
        finish: Finish | None = None,
    ) -> None:
        """`node` is that of `finish`; None: the texts themselves are wanted."""
        self.views, self.stages = list(views), list(stages)
        self._node, self._finish, self._pace = node, finish, Pace(node)
        self.is_view = not self.stages and finish is None
        """True if the result may be the array that comes in."""

    def __call__(self, x: Array) -> list[Array]:
        done, pace = 0, self._pace
        try:
            for _, view in self.views:
                x = view(x)
                done += 1
            if self.is_view:
                return [x]
            if not self.stages and isinstance(self._finish, Lookup):
                return [self._finish.find(x)]
            if isinstance(self._finish, WordStream) and (stream := self._finish.read(x)) is not None:
                return [stream]
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
            nodes = [*(node for node, _ in (*self.views, *self.stages)), self._node]
            raise step_error(nodes[done], error) from error


def emit_view(op: NodeLowering, view: View) -> None:
    """Set output 0 to a view of input 0's array."""
    op.set(0, _emit(op, [(op.node, view)], [], None, op.info()))


def emit_texts(op: NodeLowering, stage: Stage) -> None:
    """Set output 0 to what `stage` makes of the texts of input 0."""
    op.set(0, _emit(op, [], [(op.node, stage)], None, op.info()))


def emit_lookup(op: NodeLowering, numbers: Mapping[str, Any], dtype: DType, other: Any = None, missing: str = "") -> Tensor:
    """Emit the conversion of input 0's texts to their numbers, `other` for texts that have none.

    Without an `other`, the run fails with the text, its position and `missing`.
    """
    finish = Lookup(op.pace, op.kernels, numbers, to_numpy(dtype), other, missing)
    return _emit(op, [], [], finish, Info(TensorType(dtype, op.raw(0).shape)))


def emit_stream(op: NodeLowering, accepts: Callable[[str], bool]) -> tuple[Tensor, int] | None:
    """Return (the bytes that a stage that can be streamed would make, the least length of its words).

    Returns None without such a stage, if others read its words too, or if `accepts` refuses what it fills rows up with.
    """
    x, values, value = op.raw(0), op.values, op.node.inputs[0]
    if value is None or not values.is_read_once(value) or len(x.shape) != 2:
        return None

    def fits(function: Any) -> bool:
        stage = function.stages[-1][1] if isinstance(function, TextStep) and function.stages else None
        return isinstance(stage, Streamed) and accepts(stage.fill)

    before = values.builder.take_back(x, (), fits, lost=x.shape[1:])
    if before is None:
        return None
    head: Any = before.function
    node, last = head.stages[-1]
    step = TextStep(node, head.views, head.stages[:-1], WordStream(op, [stage for _, stage in head.stages[:-1]], last))
    nbytes = symbol(f"{x.name}.bytes#{len(values.builder.result.sources)}")
    [made] = values.builder.step(op.node, step, before.inputs, [Info(TensorType("uint8", (nbytes,)))])
    assert made is not None
    return made, last.least


SHORT = 1 << 10
"""Bytes of the stream of few texts."""
PIECE, LONG = 1 << 12, 1 << 24
"""Texts that native code reads at once, and the bytes that it writes at most: 20 ms."""


class WordStream:
    """The end of a step: texts as a stream, of one of few sizes. What is behind its last row is not defined."""

    def __init__(self, op: NodeLowering, stages: Sequence[Stage], last: Streamed) -> None:
        self._pace, self._last = op.pace, last
        tables = [getattr(stage, "letters", None) for stage in (*stages, last)]
        letters = bytes(range(128))
        for table in tables:
            letters = letters.translate(table) if table is not None else b""
        others = None
        if last.letters is not None and not last.apart and len(stages) <= 1:
            others = {code: last.letters[k] for stage in stages for code, k in getattr(stage, "others", {}).items()}
        self._native = None if None in tables else text_stream(letters, last.apart, others, op.kernels)

    def read(self, x: Array) -> Array | None:
        """Return the stream of an array of texts (n,); None where native code cannot read them, or they are very long."""
        native, dtype = self._native, x.dtype
        if native is None or not dtype.hasobject:
            return None
        x, y = np.ascontiguousarray(x), np.empty(SHORT, np.uint8)
        if len(x) <= PIECE:
            needed = native.write(x, y, SHORT)
            if needed <= SHORT:
                return y if needed >= 0 else None
        pieces = [x[part] for part in self._pace.slices(len(x), PIECE)]
        sizes = [native.write(piece, y, 0) for piece in pieces]
        if min(sizes) < 0 or max(sizes) > LONG:
            return None
        y, at = self._empty(sum(sizes)), 0
        for piece, size in zip(pieces, sizes, strict=True):
            self._pace.check()
            if native.write(piece, y[at:], size) < 0:
                return None
            at += size
        return y

    def __call__(self, texts: list[str], shape: Dims) -> Array:
        """Return the stream of texts."""
        stream = self._last.stream(texts)
        y = self._empty(len(stream))
        y[: len(stream)] = np.frombuffer(stream, np.uint8)
        return y

    def _empty(self, nbytes: int) -> Array:
        """Return an array with room for so many bytes, at most a quarter too large if it is not short.

        Its size determines a bound segment, and texts of few lengths share one.
        """
        grain = max(SHORT, 1 << max(nbytes.bit_length() - 3, 0))
        size = max(-(-nbytes // grain), 1) * grain
        self._pace.take(size)
        return np.empty(size, np.uint8)


def _emit(
    op: NodeLowering,
    views: Sequence[tuple[Node, View]],
    stages: Sequence[tuple[Node, Stage]],
    finish: Finish | None,
    info: Info,
) -> Tensor:
    """Emit a step of its own, or extend the step that produces the texts if they have no other reader."""
    x, values, value = op.raw(0), op.values, op.node.inputs[0]
    inputs: Sequence[Tensor | None] = [x]
    before = None
    if value is not None and values.is_read_once(value):
        before = values.builder.take_back(x, info.shape or (), lambda function: _continues(function, views))
    function = TextStep(op.node, views, stages, finish)
    if before is not None:
        inputs, head = before.inputs, before.function
        assert isinstance(head, TextStep)
        function = TextStep(op.node, [*head.views, *views], [*head.stages, *stages], finish)
    shared, exact = (0,) if function.is_view else (), not function.stages
    [made] = values.builder.step(op.node, function, inputs, [info], shared=shared, exact=exact)
    assert made is not None
    return made


def _continues(function: Any, views: Sequence[Any]) -> bool:
    """Return True for a step behind which there may be views, and stages."""
    return isinstance(function, TextStep) and (function.is_view or not views)
