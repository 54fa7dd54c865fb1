"""GreedySearch and BeamSearch: a body is called for every token, as Loop calls its; what it gives is weighed in between.

The bodies are compiled. What happens between two calls is a Python step: a few vectors of the vocabulary's size a row.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.microsoft.generation.beams import Hypotheses, advance, best
from ort_lite_cpu.operators.microsoft.generation.forms import Run
from ort_lite_cpu.operators.microsoft.generation.node import DECODER_ONLY, ENCODER_DECODER, WHISPER, emit_search, kind_of
from ort_lite_cpu.operators.microsoft.generation.scores import log_softmax, process_scores
from ort_lite_cpu.operators.microsoft.generation.settings import Settings, floats, optional, scalar
from ort_lite_cpu.registry import operator

ALLOWED = frozenset({"int32"})
CROSS, SILENCE, EXTRA = 3, 4, 13
"""Outputs of WhisperBeamSearch: weights of cross attention, and the probability of silence; an input of it: tokens to go on with."""
Choose = Callable[[Array], Array]
"""A function from scores (B, V) to a token for each, int32 (B,)."""


@operator("GreedySearch", domain="com.microsoft", types=ALLOWED, python=True)
def greedy_search(op: NodeLowering) -> None:
    """Map input_ids (B, S) to sequences (B, max_length): the likeliest token each time. Spec: onnxruntime GreedySearch-1."""

    def step(settings: Settings, run: Run, arrays: Sequence[Any]) -> list[Any]:
        return [greedy(settings, run, len(arrays[0]), lambda scores: scores.argmax(axis=1).astype(np.int32))]

    emit_search(op, step, {"mask": 6, "repetition": 3, "vocab": 4, "prefix": 5})


def greedy(settings: Settings, run: Run, batch: int, choose: Choose) -> Array:
    """Return sequences (batch, max_length), pads behind their ends."""
    sequences, logits = run.begin()
    ended = np.zeros(batch, np.bool_)
    first = True

    def next_tokens() -> Array:
        scores = floats(settings, logits)
        process_scores(settings, scores, sequences, first)
        return choose(scores)

    while True:
        tokens = settings.compute(batch * settings.vocabulary, next_tokens)
        ended |= tokens == settings.eos
        tokens = np.where(ended, np.int32(settings.pad), tokens)
        sequences = np.concatenate([sequences, tokens[:, None]], axis=1)
        if ended.all() or sequences.shape[1] == settings.max_length:
            break
        logits, first = run.go_on(sequences, np.arange(batch)), False
    left = settings.max_length - sequences.shape[1]
    return np.pad(sequences, ((0, 0), (0, left)), constant_values=settings.pad)


@operator("BeamSearch", domain="com.microsoft", types=ALLOWED | {"float32"}, python=True)
@operator("WhisperBeamSearch", domain="com.microsoft", types=frozenset({"float32"}), python=True)
def beam_search(op: NodeLowering) -> None:
    """Find sequences (B, num_return_sequences, max_length) and their scores (B, num_return_sequences).

    Scores of all tokens are (max_length - S, B, num_beams, V), zeros behind the last turn. The last output of WhisperBeamSearch is the
    probability of no_speech_token_id in the first turn (B,). Spec: onnxruntime BeamSearch-1, WhisperBeamSearch-1.
    """
    whisper = kind_of(op) == WHISPER
    _check_whisper(op, whisper)
    penalty = next((value.dtype for value in op.node.inputs[5:7] if value is not None), None) or "float32"
    dtype, count, wants_scores, wants_silence = to_numpy(penalty), len(op.node.outputs), op.wants(2), op.wants(SILENCE)

    def step(settings: Settings, run: Run, arrays: Sequence[Any]) -> list[Any]:
        if not whisper and scalar(settings.node, "logits_processor", optional(arrays, 11), 0):
            raise settings.error("logits_processor is not 0; what it asks for is of model_type 2 (Whisper)")
        if wants_silence and not 0 <= settings.silence < settings.vocabulary:
            raise settings.error(f"no_speech_token_id is {settings.silence}; a number below {settings.vocabulary} is expected")
        sequences, totals, scores, silence = search_beams(settings, run, len(arrays[0]), wants_scores)
        with np.errstate(over="ignore"):  # of what no beam goes on with: -1e9 is -inf in float16
            kept = settings.compute(scores.size, lambda: scores.astype(dtype, copy=False))
            found = [sequences, totals.astype(dtype), kept, None, silence.astype(dtype)]
        return found[:count]

    places = {"mask": 9, "repetition": 6, "vocab": 7, "prefix": 8, "beams": 3, "returned": 4, "length": 5}
    places |= {"starts": 10, "processor": 11, "temperature": 14} if whisper else {}
    emit_search(
        op, step, places, (WHISPER,) if op.node.op_type == "WhisperBeamSearch" else (DECODER_ONLY, ENCODER_DECODER, WHISPER)
    )


def _check_whisper(op: NodeLowering, whisper: bool) -> None:
    """Raise NotImplemented for inputs and outputs that only Whisper has, or onnxruntime's kernel for CUDA alone."""
    if op.has(10) and not whisper:
        raise op.reject(
            "decoder_input_ids; they are for model_type 2 (Whisper), others begin with input_ids or decoder_start_token_id"
        )
    if op.wants(CROSS) or op.has(EXTRA):
        name = "the output cross_qk" if op.wants(CROSS) else "extra_decoding_ids"
        raise op.reject(f"{name}; onnxruntime has it for CUDA alone")


def search_beams(settings: Settings, run: Run, batch: int, keep: bool) -> tuple[Array, Array, Array, Array]:
    """Return sequences, their scores, those of all tokens, of which there is nothing without `keep`, and the probability of silence."""
    sequences, logits = run.begin()
    found = [Hypotheses(settings) for _ in range(batch)]
    totals = np.tile(np.where(np.arange(settings.beams) > 0, np.float32(-1e9), np.float32(0)), batch)
    turns = settings.max_length - sequences.shape[1]
    kept = np.zeros((turns if keep else 0, batch, settings.beams, settings.vocabulary), np.float32)

    silence = np.zeros(batch, np.float32)

    def weigh(turn: int) -> Array:
        scores = log_softmax(settings, floats(settings, logits))
        if turn == 0 and settings.silence >= 0:
            silence[:] = np.exp(scores[:: settings.beams, settings.silence])
        with np.errstate(over="ignore"):  # of tokens that are forbidden already
            process_scores(settings, scores, sequences, turn == 0)
            scores += totals[:, None]
        if keep:
            kept[turn] = scores.reshape(kept.shape[1:])
        return scores

    for turn in range(turns):
        scores = settings.compute(len(totals) * settings.vocabulary, weigh, turn)
        totals, tokens, rows = advance(settings, found, sequences, best(settings, scores, batch))
        sequences = np.concatenate([sequences[rows], tokens[:, None]], axis=1)
        if all(each.done for each in found):
            break
        if turn + 1 < turns:
            logits = run.go_on(sequences, rows)
    return *_best_sequences(settings, found, sequences, totals), kept, silence


def _best_sequences(settings: Settings, found: Sequence[Hypotheses], sequences: Array, totals: Array) -> tuple[Array, Array]:
    """Return the best sequences of each entry, filled up with pads, and their scores; unfinished ones count as they are."""
    shape = (len(found), settings.returned)
    made, scores = np.full((*shape, settings.max_length), settings.pad, np.int32), np.zeros(shape, np.float32)
    for b, hypotheses in enumerate(found):
        settings.pace.check()
        if not hypotheses.done:
            for row in range(b * settings.beams, (b + 1) * settings.beams):
                hypotheses.add(sequences[row], totals[row])
        for k, (score, sequence) in enumerate(hypotheses.kept[: settings.returned]):
            made[b, k, : len(sequence)], scores[b, k] = sequence, score
    return made, scores
