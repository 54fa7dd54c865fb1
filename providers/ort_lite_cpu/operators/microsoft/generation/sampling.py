"""Sampling: as GreedySearch, but a token is drawn from the likely ones. The same seed draws what onnxruntime draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.microsoft.generation.forms import Run
from ort_lite_cpu.operators.microsoft.generation.node import emit_search
from ort_lite_cpu.operators.microsoft.generation.search import ALLOWED, greedy
from ort_lite_cpu.operators.microsoft.generation.settings import Settings, optional, scalar
from ort_lite_cpu.registry import operator

PLACES = {"mask": 6, "repetition": 3, "vocab": 4, "prefix": 5, "presence": 7}
MODULUS, FACTOR = 2147483647, 16807
STEPS = MODULUS - 1


class Nucleus(Record):
    """The tokens that stay: those that together have the probability `top_p`."""

    top_p: float
    filter_value: float
    least: int
    """The number of tokens that stay at least."""
    custom: bool
    """True for onnxruntime's other way: the likeliest first, until they exceed `top_p`, and the next one stays too."""


@operator("Sampling", domain="com.microsoft", types=ALLOWED, python=True)
def sampling(op: NodeLowering) -> None:
    """Map input_ids (B, S) to sequences (B, max_length), and the scores that the last tokens were drawn by (B, V).

    Spec: onnxruntime Sampling-1.
    """
    nucleus = Nucleus(
        top_p=float(op.attr("top_p", 0.0)),
        filter_value=float(op.attr("filter_value", -1e20)),
        least=int(op.attr("min_tokens_to_keep", 0)),
        custom=op.attr("custom", 0) != 0,
    )

    def step(settings: Settings, run: Run, arrays: Sequence[Any]) -> list[Any]:
        seed = scalar(settings.node, "seed", optional(arrays, 8), 0)
        if seed < 0:
            raise settings.error(f"seed is {seed}; a number of 0 or more is expected")
        generator = Generator(seed)
        drawn_by = np.zeros((len(arrays[0]), settings.vocabulary), np.float32)

        def choose(scores: Array) -> Array:
            for row, target in zip(scores, drawn_by, strict=True):
                settings.pace.check()
                target[:] = filter_scores(nucleus, row)
            return np.array([draw_token(row, generator.uniform()) for row in drawn_by], np.int32)

        return [greedy(settings, run, len(arrays[0]), choose), drawn_by]

    emit_search(op, step, PLACES)


class Generator:
    """The minimal standard generator of Lewis, Goodman and Miller, which std::default_random_engine is in GNU's library."""

    def __init__(self, seed: int) -> None:
        self._state = seed % MODULUS or 1

    def uniform(self) -> float:
        """Draw a number in [0, 1), from two numbers, as std::uniform_real_distribution<double> makes it."""
        low, high = self._next() - 1, self._next() - 1
        return (low + high * float(STEPS)) / (float(STEPS) * float(STEPS))

    def _next(self) -> int:
        self._state = self._state * FACTOR % MODULUS
        return self._state


def filter_scores(nucleus: Nucleus, scores: Array) -> Array:
    """Return scores (V,), with those of unlikely tokens replaced by `filter_value`. O(V log V)."""
    made = scores.copy()
    order = np.argsort(-scores if nucleus.custom else scores, kind="stable")
    ranked = scores[order]
    shares = np.exp(ranked - ranked.max())
    sums = np.cumsum(shares / shares.sum(), dtype=np.float32)
    places = np.arange(len(scores))
    if nucleus.custom:
        off = np.zeros(len(scores), np.bool_)
        off[1:] = sums[:-1] > np.float32(nucleus.top_p)
    else:
        off = (sums <= np.float32(1) - np.float32(nucleus.top_p)) & ((places < len(scores) - nucleus.least) | (places == 0))
    made[order[off]] = np.float32(nucleus.filter_value)
    return made


def draw_token(scores: Array, number: float) -> int:
    """Return the token at `number` of [0, 1) of the probabilities of scores (V,). Scores that are not finite have none."""
    finite = np.isfinite(scores)
    largest = scores[finite].max(initial=np.finfo(np.float32).min)
    sums = np.cumsum(np.where(finite, np.exp(np.where(finite, scores, 0).astype(np.float64) - np.float64(largest)), 0))
    return int(min(np.searchsorted(sums, number * sums[-1], side="right"), len(scores) - 1))
