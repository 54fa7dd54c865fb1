"""GreedySearch and BeamSearch of com.microsoft, for decoders like GPT-2: a loop that calls the compiled decoder once a token.

A decoder reads input_ids, position_ids and attention_mask, int32, and the past of each layer, (2, sequences, heads, rows, size), and
gives logits (sequences, rows, vocabulary) and the presents. Spec: onnxruntime's contrib operators, and its kernels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import Graph, TensorType
from ort_lite.record import Record
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.control_flow import Captured, captures_of
from ort_lite_cpu.operators.microsoft.beams import Beams
from ort_lite_cpu.registry import operator

INTEGERS = frozenset({"int32"})
LEAST = np.finfo(np.float32).min


class Settings(Record):
    """Of a run: attributes, and inputs by the names of the operators' documentation. None: left out."""

    eos: int
    pad: int
    longest: int
    shortest: int
    penalty: float
    ngram: int
    vocabulary: Array | None
    prefix: Array | None

    def scores(self, scores: Array, sequences: Array, step: int) -> Array:
        """`scores` (sequences, vocabulary) with all rules applied, in onnxruntime's order; tokens ruled out have the least score."""
        rows = np.arange(len(sequences))[:, None]
        if self.penalty != 1.0:
            said = scores[rows, sequences]
            scores[rows, sequences] = np.where(said < 0, said * np.float32(self.penalty), said / np.float32(self.penalty))
        if 0 < self.ngram <= sequences.shape[1]:
            self._forbid_repetitions(scores, sequences)
        if self.vocabulary is not None:
            scores[:, self.vocabulary == 0] = LEAST
        if self.prefix is not None and step == 0:
            scores[np.repeat(self.prefix == 0, len(scores) // len(self.prefix), 0)] = LEAST
        if sequences.shape[1] < self.shortest and 0 <= self.eos < scores.shape[1]:
            scores[:, self.eos] = LEAST
        return scores

    def _forbid_repetitions(self, scores: Array, sequences: Array) -> None:
        """No token that would end an n-gram that a sequence has already. O(sequences * length * n)."""
        size = self.ngram
        windows = np.lib.stride_tricks.sliding_window_view(sequences, size, 1)
        met = (windows[:, :, : size - 1] == sequences[:, None, sequences.shape[1] - size + 1 :]).all(-1)
        row, place = np.nonzero(met)
        scores[row, windows[row, place, size - 1]] = LEAST


class Decoder:
    """The body, and the state that its next call begins with: one row a sequence."""

    def __init__(
        self, call: Callable[[Sequence[Any]], list[Any]], ids: Array, mask: Array, pad: int, pasts: Sequence[Array]
    ) -> None:
        """Positions count the tokens that are no padding, whatever `mask` says, as in onnxruntime."""
        self._call = call
        self._mask = mask
        counts = ids != pad
        positions = np.maximum(np.cumsum(counts, 1) - 1, 0) * counts
        self._next = counts.sum(1, keepdims=True).astype(np.int32)
        self._feed: list[Array] = [ids, positions.astype(np.int32), mask]
        self._pasts = list(pasts)

    def logits(self) -> Array:
        """Of the last tokens, float32 (sequences, vocabulary)."""
        logits, *self._pasts = self._call([*self._feed, *self._pasts])
        return np.asarray(logits[:, -1], np.float32)

    def feed(self, tokens: Array, rows: Array | None = None) -> None:
        """The next call reads one token a sequence, the state being that of `rows`: which sequence goes on; None: each its own."""
        if rows is not None:
            self._pasts = [np.ascontiguousarray(past[:, rows]) for past in self._pasts]
        self._mask = np.concatenate([self._mask, np.ones_like(self._mask[:, :1])], 1)
        self._feed = [tokens.astype(np.int32)[:, None], self._next, self._mask]
        self._next = self._next + np.int32(1)


def _body(op: NodeLowering) -> tuple[Graph, list[tuple[np.dtype[Any], int, int]]]:
    """The decoder, and of each layer the element type, heads and head size of its past. Rejects what is none like GPT-2."""
    for name, wanted in (("model_type", 0), ("encoder", None), ("init_decoder", None)):
        if op.attr(name, wanted) != wanted:
            raise op.reject(f"{name}: it takes decoders like GPT-2, as one body")
    body: Graph = op.attr("decoder")
    if len(body.inputs) != len(body.outputs) + 2 or len(body.inputs) < 4:
        raise op.reject(
            f"a decoder of {len(body.inputs)} inputs and {len(body.outputs)} outputs, expected two outputs less, and a past"
        )
    layers = []
    for value in body.inputs[3:]:
        type_ = value.type
        shape = type_.shape if isinstance(type_, TensorType) else None
        if not isinstance(type_, TensorType) or shape is None or len(shape) != 5:
            raise op.reject(f"the past {value.name!r} of the decoder is {type_}, expected 5 dimensions")
        heads, size = shape[2], shape[4]
        if not isinstance(heads, int) or not isinstance(size, int) or min(heads, size) < 1:
            raise op.reject(f"the past {value.name!r} of the decoder is {type_}, expected numbers of heads and of columns")
        layers.append((to_numpy(type_.dtype), heads, size))
    return body, layers


def _number(array: Any, default: Any) -> Any:
    return default if array is None else array.reshape(-1)[0].item()


def _settings(op: NodeLowering, ids: Array, longest: Any, others: Sequence[Any]) -> Settings:
    """`others`: min_length, repetition_penalty, vocab_mask, prefix_vocab_mask. Raises ValueError for what does not fit."""
    shortest, penalty, vocabulary, prefix = others
    made = Settings(
        eos=op.attr("eos_token_id"),
        pad=op.attr("pad_token_id"),
        longest=_number(longest, 0),
        shortest=_number(shortest, 0),
        penalty=_number(penalty, 1.0),
        ngram=op.attr("no_repeat_ngram_size", 0),
        vocabulary=vocabulary,
        prefix=prefix,
    )
    if ids.ndim != 2 or 0 in ids.shape:
        raise ValueError(f"input_ids are {ids.shape}, expected sequences of tokens, all of one length")
    if made.longest <= ids.shape[1]:
        raise ValueError(f"max_length is {made.longest}, expected more than the {ids.shape[1]} tokens of input_ids")
    if not made.penalty > 0:
        raise ValueError(f"repetition_penalty is {made.penalty}, expected more than 0")
    return made


def _checked(made: Settings, scores: Array, sequences: Array, batch: int) -> None:
    """That masks and tokens are of the vocabulary. Raises ValueError."""
    count = scores.shape[1]
    for name, mask, shape in (("vocab_mask", made.vocabulary, (count,)), ("prefix_vocab_mask", made.prefix, (batch, count))):
        if mask is not None and mask.shape != shape:
            raise ValueError(f"{name} is {mask.shape}, expected {shape}")
    ruled = made.penalty != 1.0 or made.ngram > 0
    if ruled and not ((sequences >= 0) & (sequences < count)).all():
        raise ValueError(f"input_ids has tokens that are none of a vocabulary of {count}")


def _mask_of(ids: Array, given: Array | None, pad: int) -> Array:
    """Which tokens count: those that are no padding, unless a mask says it."""
    if given is not None and given.shape != ids.shape:
        raise ValueError(f"attention_mask is {given.shape}, expected {ids.shape}, as input_ids")
    return (ids != pad).astype(np.int32) if given is None else given.astype(np.int32)


def _repeated(array: Array, count: int) -> Array:
    return np.ascontiguousarray(np.repeat(array, count, 0))


def _vocabulary(op: NodeLowering, logits: Array) -> Array:
    """Without the padding of a vocabulary that is smaller than the logits."""
    size = op.attr("vocab_size", -1)
    return logits[:, :size].copy() if size > 0 else logits.copy()


@operator("GreedySearch", domain="com.microsoft", types=INTEGERS)
def greedy_search(op: NodeLowering) -> None:
    """(batch, tokens) -> (batch, max_length): the likeliest token each time, padding behind the end. Spec: GreedySearch-1."""
    body, layers = _body(op)
    captures = captures_of(op, body)
    called = Captured(op, body, captures)

    def step(ids: Array, longest: Any, *others: Any) -> list[Array]:
        given = [*others[: len(op.node.inputs) - 2], *(None,) * (7 - len(op.node.inputs))]
        captured = others[len(op.node.inputs) - 2 :]
        settings = _settings(op, ids, longest, given[:4])
        pasts = [np.zeros((2, len(ids), heads, 0, size), dtype) for dtype, heads, size in layers]
        mask = _mask_of(ids, given[4], settings.pad)
        decoder = Decoder(lambda inputs: called(inputs, captured), ids, mask, settings.pad, pasts)
        return [_greedy(op, settings, decoder, ids)]

    op.lowering.host(op.node, step, python=False, captures=captures)


def _greedy(op: NodeLowering, settings: Settings, decoder: Decoder, ids: Array) -> Array:
    sequences, ended = ids, np.zeros(len(ids), np.bool_)
    while sequences.shape[1] < settings.longest:
        scores = _vocabulary(op, decoder.logits())
        step = sequences.shape[1] - ids.shape[1]
        if step == 0:
            _checked(settings, scores, ids, len(ids))
        tokens = settings.scores(scores, sequences, step).argmax(1).astype(np.int32)
        ended |= tokens == settings.eos
        tokens[ended] = settings.pad
        sequences = np.concatenate([sequences, tokens[:, None]], 1)
        if ended.all():
            break
        decoder.feed(tokens)
    whole = np.full((len(ids), settings.longest), settings.pad, np.int32)
    whole[:, : sequences.shape[1]] = sequences
    return whole


@operator("BeamSearch", domain="com.microsoft", types=INTEGERS)
def beam_search(op: NodeLowering) -> None:
    """(batch, tokens) -> the best sequences of each, (batch, num_return_sequences, max_length), their scores, and those of all tokens.

    Spec: BeamSearch-1.
    """
    body, layers = _body(op)
    captures = captures_of(op, body)
    called = Captured(op, body, captures)
    if op.has(11):
        raise op.reject("logits_processor")
    wanted = [k for k in range(3) if op.wants(k)]

    def step(ids: Array, longest: Any, *others: Any) -> list[Array]:
        count = len(op.node.inputs) - 2
        given = [*others[:count], *(None,) * (8 - count)]
        captured = others[count:]
        shortest, width, kept, length_penalty, *rules = given
        settings = _settings(op, ids, longest, [shortest, *rules[:3]])
        beams = Beams(len(ids), _number(width, 1), _number(kept, 1), _number(length_penalty, 1.0), settings.eos, settings.pad)
        beams.early = bool(op.attr("early_stopping", 0))
        mask = _repeated(_mask_of(ids, rules[3], settings.pad), beams.width)
        pasts = [np.zeros((2, len(mask), heads, 0, size), dtype) for dtype, heads, size in layers]
        decoder = Decoder(lambda inputs: called(inputs, captured), _repeated(ids, beams.width), mask, settings.pad, pasts)
        results = _beams(op, settings, decoder, ids, beams)
        return [results[k] for k in wanted]

    op.lowering.host(op.node, step, python=False, captures=captures)


def _beams(op: NodeLowering, settings: Settings, decoder: Decoder, ids: Array, beams: Beams) -> list[Array]:
    sequences = _repeated(ids, beams.width)
    history: list[Array] = []
    turns = settings.longest - ids.shape[1]
    while sequences.shape[1] < settings.longest:
        logits = _vocabulary(op, decoder.logits())
        if not history:
            _checked(settings, logits, ids, len(ids))
        scores = settings.scores(_log_softmax(logits), sequences, len(history)) + beams.scores[:, None]
        history.append(scores)
        rows, tokens = beams.turn(scores, sequences)
        sequences = np.concatenate([sequences[rows], tokens[:, None]], 1)
        if beams.done.all():
            break
        decoder.feed(tokens, rows)
    found, found_scores = beams.results(sequences, settings.longest)
    every = np.zeros((turns, len(ids), beams.width, history[0].shape[1]), np.float32)
    for turn, scores in enumerate(history):
        every[turn] = scores.reshape(every.shape[1:])
    return [found, found_scores, every]


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True, dtype=np.float32)))
