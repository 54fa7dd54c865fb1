"""Operators of com.microsoft that generate sequences. Sources as in microsoft.py."""

from ort_lite.graph import Graph, TensorType
from ort_lite.inference import ContentsUnknown, Info, Op
from ort_lite.shapes import Dim
from ort_lite_transforms.shapes.fused import microsoft_rule


def _decoded(op: Op) -> Dim:
    """How long sequences are, once the decoder's shapes are known: any number of sequences, tokens and rows of the past."""
    for name in ("decoder", "init_decoder"):
        body: Graph | None = op.attr(name)
        if body is not None:
            op.body(body, [_open(op, value.type) for value in body.inputs])
    known = op.known(1)
    if known is None:
        op.needs(ContentsUnknown(1))
        return op.fresh()
    return known[0]


def _open(op: Op, type_: object) -> Info:
    """An input of the decoder: numbers stay, what else there is of dimensions is open."""
    if not isinstance(type_, TensorType) or type_.shape is None:
        return Info()
    return op.tensor(type_.dtype, [dim if isinstance(dim, int) else op.fresh() for dim in type_.shape])


@microsoft_rule("GreedySearch", types=("int32",))
def greedy_search(op: Op) -> list[Info]:
    """(batch, tokens) -> (batch, max_length)."""
    return [op.tensor("int32", (op.shape(0)[0], _decoded(op)))]


@microsoft_rule("BeamSearch", types=("int32", "float32", "float32"))
def beam_search(op: Op) -> list[Info]:
    """(batch, tokens) -> (batch, results, max_length), (batch, results), (turns, batch, beams, vocabulary)."""
    (batch, tokens), longest = op.shape(0), _decoded(op)
    numbers = [op.known(index) for index in (3, 4)]
    beams, results = (op.fresh() if known is None else known[0] for known in numbers)
    every = (longest - tokens, batch, beams, op.attr("vocab_size") or op.fresh())
    return [op.tensor("int32", (batch, results, longest)), op.tensor("float32", (batch, results)), op.tensor("float32", every)]


RULES = [*greedy_search, *beam_search]
