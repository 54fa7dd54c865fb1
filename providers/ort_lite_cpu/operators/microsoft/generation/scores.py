"""Scores of tokens from logits: what is forbidden, what costs. Rows are sequences, columns tokens."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.operators.microsoft.generation.settings import LOWEST, Settings
from ort_lite_cpu.operators.microsoft.generation.timestamps import pair_timestamps


def log_softmax(settings: Settings, logits: Array) -> Array:
    """Return the logarithms of the softmax of each row, (rows, V), float32. Raises InvalidArgument where the largest is infinite."""
    largest = logits.max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        raise settings.error("its body gives logits that are infinite: no token has a probability")
    shifted = logits - largest
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), np.float32)


def process_scores(settings: Settings, scores: Array, sequences: Array, first: bool) -> None:
    """Change scores (rows, V) in onnxruntime's order. sequences: (rows, length) so far; first: nothing is chosen yet.

    Cost: rows * (V + length * ngram).
    """
    s = settings
    if s.repetition_penalty != 1.0:
        _penalize_repeats(s, scores, sequences)
    if 0 < s.ngram <= sequences.shape[1]:
        _ngrams(s, scores, sequences)
    if s.vocab_mask is not None:
        scores[:, s.vocab_mask == 0] = LOWEST
    if s.prefix_vocab_mask is not None and first:
        scores[np.repeat(s.prefix_vocab_mask == 0, s.beams, axis=0)] = LOWEST
    if sequences.shape[1] < s.min_length and 0 <= s.eos < s.vocabulary:
        scores[:, s.eos] = LOWEST
    if s.temperature > 0 and s.temperature != 1.0:
        scores /= np.float32(s.temperature)
    if s.presence_mask is not None:
        scores -= np.repeat(s.presence_mask, s.beams, axis=0) * np.float32(s.presence_penalty)
    if s.timestamps is not None:
        for row, sequence in zip(scores, sequences, strict=True):
            s.pace.check()
            pair_timestamps(s, s.timestamps, row, sequence)


def _penalize_repeats(settings: Settings, scores: Array, sequences: Array) -> None:
    """Make tokens of the sequence less likely, once each, however often they occur."""
    penalty = np.float32(settings.repetition_penalty)
    for row, sequence in zip(scores, sequences, strict=True):
        settings.pace.check()
        tokens = np.unique(sequence)
        tokens = tokens[(tokens >= 0) & (tokens < settings.vocabulary)]
        row[tokens] = np.where(row[tokens] < 0, row[tokens] * penalty, row[tokens] / penalty)


def _ngrams(settings: Settings, scores: Array, sequences: Array) -> None:
    """Forbid tokens that would end a run of `ngram` tokens that the sequence has already."""
    n = settings.ngram
    windows = np.lib.stride_tricks.sliding_window_view(sequences, n, axis=1)
    ends = sequences[:, sequences.shape[1] - n + 1 :]
    for row, own, end in zip(scores, windows, ends, strict=True):
        settings.pace.check()
        tokens = own[(own[:, :-1] == end).all(axis=1), -1]
        row[tokens[(tokens >= 0) & (tokens < settings.vocabulary)]] = LOWEST
