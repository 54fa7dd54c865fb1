"""Searches for the likeliest sequence of tokens, whose bodies are models. Sources as in microsoft.py."""

from collections.abc import Sequence

from ort_lite.dtypes import DType
from ort_lite.graph import Graph, TensorType
from ort_lite.inference import UNKNOWN, Info, Op
from ort_lite.shapes import Dim
from ort_lite_transforms.shapes.fused import microsoft_rule


def _into_bodies(op: Op, names: Sequence[str]) -> None:
    """Infers the bodies for inputs as they are declared. What is open there differs from call to call, and is no other's."""
    for name in names:
        graph: Graph | None = op.attr(name)
        if graph is not None:
            op.body(graph, [_any_size(op, value.type) for value in graph.inputs])


def _any_size(op: Op, declared: object) -> Info:
    if not isinstance(declared, TensorType):
        return UNKNOWN
    shape = declared.shape
    return op.tensor(declared.dtype, None if shape is None else [dim if isinstance(dim, int) else op.fresh() for dim in shape])


def _number(op: Op, index: int, default: int) -> Dim:
    """The one element of an input, a number of its own where only the run tells it."""
    if not op.has(index):
        return default
    known = op.contents_or_none(index)
    return op.fresh() if not known else known[0]


def _vocabulary(op: Op) -> Dim:
    """Return the number of tokens to choose from."""
    decoder: Graph = op.attr("decoder")
    logits = decoder.outputs[0].type if decoder.outputs else None
    width = logits.shape[-1] if isinstance(logits, TensorType) and logits.shape else op.fresh()
    wanted: int = op.attr("vocab_size", -1)
    return wanted if wanted > 0 else width if isinstance(width, int) else op.fresh()


@microsoft_rule("GreedySearch", types=(0,))
def greedy_search(op: Op) -> list[Info]:
    """input_ids (B, S) -> (B, max_length)."""
    _into_bodies(op, ("decoder", "init_decoder"))
    batch, _ = _prompt(op)
    return [op.tensor("int32", (batch, _number(op, 1, 0)))]


@microsoft_rule("Sampling", types=(0, "float32"))
def sampling(op: Op) -> list[Info]:
    """Infer as GreedySearch; and scores (B, V)."""
    return [*greedy_search[0].function(op), op.tensor("float32", (op.shape(0)[0], _vocabulary(op)))]


def _prompt(op: Op) -> tuple[Dim, Dim]:
    """The sizes of input_ids. Raises ShapeInferenceError where it is no matrix."""
    shape = op.shape(0)
    if len(shape) != 2:
        raise op.error("input_ids should have two dimensions, batch and steps")
    return shape[0], shape[1]


def _prompt_dims(op: Op, kind: int) -> tuple[Dim, Dim]:
    """The batch, and the tokens that sequences begin with: the prompt, one token, or those of decoder_input_ids."""
    if kind != 2:
        batch, steps = _prompt(op)
        return batch, 1 if kind == 1 else steps
    if len(op.shape(0)) != 3:
        raise op.error("input_ids should have three dimensions, batch, features and steps, with model_type 2 (Whisper)")
    return op.shape(0)[0], op.shape(10)[1] if op.has(10) else 1


def _scores(op: Op) -> DType:
    """Return the type of scores: that of length_penalty or repetition_penalty."""
    return next((op.dtype(k) for k in (5, 6) if op.has(k)), "float32")


@microsoft_rule("BeamSearch", types=("int32", _scores, _scores))
def beam_search(op: Op) -> list[Info]:
    """-> (B, num_return_sequences, max_length), scores of those, of all tokens (max_length - S, B, num_beams, V).

    Scores have the type of length_penalty.
    """
    return _beams(op, op.attr("model_type", 0))


def _beams(op: Op, kind: int) -> list[Info]:
    _into_bodies(op, ("decoder", "init_decoder", "encoder"))
    batch, begun = _prompt_dims(op, kind)
    longest, beams, returned = _number(op, 1, 0), _number(op, 3, 1), _number(op, 4, 1)
    return [
        op.tensor("int32", (batch, returned, longest)),
        op.tensor(_scores(op), (batch, returned)),
        op.tensor(_scores(op), (longest - begun, batch, beams, _vocabulary(op))),
    ]


@microsoft_rule("WhisperBeamSearch", types=("int32", _scores, _scores, "float32", _scores))
def whisper_beam_search(op: Op) -> list[Info]:
    """Infer as BeamSearch; weights of cross attention, which are left open, and a probability for each of the batch."""
    silence = op.tensor(_scores(op), op.shape(0)[:1])
    return [*_beams(op, op.attr("model_type", 2)), op.tensor("float32", None), silence]


RULES = [*greedy_search, *sampling, *beam_search, *whisper_beam_search]
