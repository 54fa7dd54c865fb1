"""Scan outputs of a Loop or Scan without a turn: they have no rows, and the shape of a row is inferred."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph, OptionalType, SequenceType, TensorType, Value
from ort_lite.inference import UNKNOWN, Inference, Info, constant_info
from ort_lite.shapes import Shape
from ort_lite_cpu.lowering.op import NodeLowering

Sizes = tuple[int, ...]


class Rowless:
    """The scan outputs of a node whose body never runs, each without rows: of shape (0, ...), along the first axis.

    A row has the shape that the first turn would give it, as far as inference tells for the arrays of the run, and so the same in
    every session of a model. Dimensions that depend on what a turn computes are 0. Where the body does not fit the sizes of the
    run, the rank is the one that was known when the model was loaded.
    """

    def __init__(
        self, op: NodeLowering, graph: Graph, captures: Sequence[Value], first: int, axes: Sequence[Sequence[int]]
    ) -> None:
        """Prepare for a node whose first scan output is `first`. `axes` has for each the axes that a row lacks."""
        self._rules, self._graph = op.values.inference.rules, graph
        self._captures = {value: op.values.inference.of(value) for value in captures}
        self._infos = [op.info(first + k) if op.wants(first + k) else UNKNOWN for k in range(len(axes))]
        self._known = [_row(op, first + k, missing) for k, missing in enumerate(axes)]

    def __call__(self, inputs: Sequence[Info], captured: Sequence[Any]) -> list[Array]:
        """Infer the body for its inputs and for the captures of the run. O(nodes of the body), nothing where shapes are known."""
        shapes: Sequence[Shape | None] = self._known
        if not all(shape is not None and _is_fixed(shape) for shape in shapes):
            shapes = self._infer(inputs, captured)
        return [
            np.empty((0, *_sizes(shape, known)), np.float32 if info.dtype is None else to_numpy(info.dtype))
            for shape, known, info in zip(shapes, self._known, self._infos, strict=True)
        ]

    def _infer(self, inputs: Sequence[Info], captured: Sequence[Any]) -> list[Shape | None]:
        captures = zip(self._captures.items(), captured, strict=True)
        infos = {value: info_of(contents, known) for (value, known), contents in captures}
        found = Inference(self._rules, infos).infer_body(self._graph, inputs, certain=False)
        return [info.shape for info in found[len(found) - len(self._known) :]]


def _row(op: NodeLowering, index: int, missing: Sequence[int]) -> Shape | None:
    """Return the shape of a row of an output, None where not even its rank is known before the run."""
    if not op.wants(index):
        return ()
    value = op.node.outputs[index]
    assert value is not None
    whole = op.info(index).shape or value.shape
    if whole is None:
        return None
    left_out = {axis % len(whole) for axis in missing}
    return tuple(dim for axis, dim in enumerate(whole) if axis not in left_out)


def _is_fixed(shape: Shape) -> bool:
    return all(isinstance(dim, int) for dim in shape)


def _sizes(shape: Shape | None, known: Shape | None) -> Sizes:
    found = known if shape is None else shape
    return tuple(dim if isinstance(dim, int) and dim > 0 else 0 for dim in found or ())


def info_of(contents: Any, known: Info) -> Info:
    """Return what is known of an input of a run, elements included. An optional stays one, whatever it holds."""
    if isinstance(known.type, OptionalType):
        held = info_of(contents, Info(known.type.element)).type
        return known if held is None else Info(OptionalType(held))
    if isinstance(contents, np.ndarray):
        return constant_info(contents)
    if isinstance(contents, list) and contents and all(isinstance(one, np.ndarray) for one in contents):
        return Info(SequenceType(_element([constant_info(one) for one in contents])))
    return known


def _element(infos: Sequence[Info]) -> TensorType:
    """Return the type of all elements of a sequence: their sizes are -1 where they differ."""
    first = infos[0]
    assert first.dtype is not None
    shapes = [info.shape or () for info in infos]
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        return TensorType(first.dtype)
    return TensorType(first.dtype, tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)))
