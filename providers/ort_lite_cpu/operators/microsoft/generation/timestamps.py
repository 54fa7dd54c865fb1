"""Timestamps of Whisper: they come in pairs around text, and do not go back."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.operators.microsoft.generation.settings import LOWEST, Settings, Timestamps

INITIAL = 50
"""The latest of the timestamps that may be the first one."""


def pair_timestamps(settings: Settings, tokens: Timestamps, scores: Array, sequence: Array) -> None:
    """Forbid in scores (V,) what may not follow the sequence, as onnxruntime does. O(V + length)."""
    first, found = tokens.first, np.flatnonzero(sequence >= tokens.first)
    begun = int(found[0]) + 1 if found.size else len(sequence)
    _forbid(scores, tokens.no_timestamps, tokens.start_of_lm)
    if len(sequence) > begun:
        _forbid(scores, settings.start, tokens.translate, tokens.transcribe)
    is_last = sequence[-1] >= first
    is_pair = len(sequence) <= begun or sequence[-2] >= first
    if is_last and is_pair:
        scores[first:] = LOWEST
    elif is_last:
        scores[: max(settings.eos, 0)] = LOWEST
    if found.size:
        scores[first : sequence[found[-1]] + (0 if is_last and not is_pair else 1)] = LOWEST
    if len(sequence) == begun:
        scores[first + INITIAL + 1 :] = LOWEST
    if _sum_of_logarithms(scores[first:]) > scores[:first].max():
        scores[:first] = LOWEST


def _forbid(scores: Array, *tokens: int) -> None:
    for token in tokens:
        if 0 <= token < len(scores):
            scores[token] = LOWEST


def _sum_of_logarithms(scores: Array) -> np.float32:
    """Return the logarithm of the sum of the probabilities whose logarithms these are."""
    allowed = scores[scores > LOWEST]
    if not allowed.size:
        return np.float32(LOWEST)
    return np.float32(np.log(np.exp(allowed - allowed.max()).sum(dtype=np.float32)) + allowed.max())
