"""The two kinds of models that a search calls, as onnxruntime's tools export them: what goes into a body, and from where."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node, TensorType
from ort_lite_cpu.operators.control_flow import Captured
from ort_lite_cpu.operators.microsoft.generation.settings import Settings

Body = Callable[[Sequence[Any]], list[Any]]
"""A compiled graph with what it captures."""
SHARED = (
    "a body whose past is in the buffer of the present (with inputs past_sequence_length, beam_width or cache_indirection); "
    "export the model without past_present_share_buffer"
)
"""The form that is refused: its calls would write into one another's past, which bodies here do not."""


def bind_bodies(bodies: Sequence[Captured], captured: Sequence[Any]) -> list[Body]:
    """Return the bodies with their captured values."""
    return [partial(body, captured=captured) for body in bodies]


class Run(Protocol):
    """The calls of one search, and what goes from one to the next. Rows are sequences, num_beams for each of the batch."""

    def begin(self) -> tuple[Array, Array]:
        """Return the sequences to begin with (rows, length), and logits (rows, V) of what follows."""
        ...

    def go_on(self, sequences: Array, rows: Array) -> Array:
        """Return the logits after `sequences` (rows, length), which go on from those rows of the call before."""
        ...


def width_of(node: Node, graph: Graph) -> int:
    """Return V of the logits, output 0 (rows, steps, V). Raises InvalidGraph where the graph does not say it."""
    type_ = graph.outputs[0].type
    shape = type_.shape if isinstance(type_, TensorType) else None
    if shape is None or len(shape) != 3 or not isinstance(shape[2], int) or shape[2] < 1:
        raise InvalidGraph(
            f"{node}: output 0 of its body {graph.name!r} is {type_}; logits (rows, steps, vocabulary) with a number for the "
            "vocabulary are expected"
        )
    return shape[2]


def check_names(node: Node, graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raise InvalidGraph where the first inputs or outputs have other names: they would be taken for what they are not."""
    for kind, values, names in (("inputs", graph.inputs, inputs), ("outputs", graph.outputs, outputs)):
        came = [value.name for value in values[: len(names)]]
        if came != list(names):
            raise InvalidGraph(f"{node}: {kind} of its body {graph.name!r} begin with {came}, expected {list(names)}")


class Cache(NamedTuple):
    """The form of an input that remembers tokens, (..., rows, heads, tokens, size)."""

    heads: int
    size: int
    dtype: Any
    """NumPy's."""


def cache_of(node: Node, graph: Graph, index: int, rank: int) -> Cache:
    """Return the form of a body's input. Raises InvalidGraph if the graph does not state it."""
    type_ = graph.inputs[index].type
    shape = type_.shape if isinstance(type_, TensorType) else None
    if not isinstance(type_, TensorType) or shape is None or len(shape) != rank:
        raise InvalidGraph(
            f"{node}: input {index} of its body {graph.name!r} is {type_}; a tensor of {rank} dimensions is expected"
        )
    heads, size = shape[-3], shape[-1]
    if not isinstance(heads, int) or not isinstance(size, int):
        raise InvalidGraph(
            f"{node}: input {index} of its body {graph.name!r} is {type_}; numbers of heads and for the head size are expected"
        )
    return Cache(heads, size, to_numpy(type_.dtype))


Form = Callable[[Settings, Array, Array | None, Sequence[Any]], Run]
"""A function from settings, input_ids (B, S), attention_mask (B, S) or None, and captures of the bodies to the calls of one search."""
