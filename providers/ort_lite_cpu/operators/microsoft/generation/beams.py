"""Hypotheses of a beam search: which sequences are the best so far, and which go on."""

from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.operators.microsoft.generation.settings import Settings

SLICE = 1 << 18
"""Scores of a row that are looked at, before a run is asked whether it shall end."""


class Hypotheses:
    """The finished sequences of one of a batch, at most num_beams, best first; the older of two equals comes first."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.kept: list[tuple[np.float32, Array]] = []
        self.done = False

    def add(self, sequence: Array, total: np.float32) -> None:
        """Add a sequence. total: the sum of the logarithms of its probabilities. O(num_beams)."""
        score = self._score(total, len(sequence))
        at = len(self.kept)
        while at and score > self.kept[at - 1][0]:
            at -= 1
        self.kept.insert(at, (score, sequence))
        del self.kept[self._settings.beams :]

    def stop(self, best: np.float32, length: int) -> None:
        """Stop if no sequence that goes on, of which `best` is the best, can become better than what is kept."""
        if len(self.kept) < self._settings.beams:
            return
        self.done = self._settings.early_stopping or bool(self.kept[-1][0] >= self._score(best, length))

    def _score(self, total: np.float32, length: int) -> np.float32:
        with np.errstate(over="ignore"):
            return np.float32(total / np.power(np.float32(length), np.float32(self._settings.length_penalty)))


class BeamStep(NamedTuple):
    """The fate of each beam: (rows,) the score, the next token, and the row that it continues from."""

    scores: Array
    tokens: Array
    rows: Array


def best(settings: Settings, scores: Array, batch: int) -> tuple[Array, Array, Array]:
    """Return the 2 * num_beams best of all beams' scores (rows, V): their scores, beams and tokens, (batch, 2 * num_beams)."""
    flat = scores.reshape(batch, settings.beams * settings.vocabulary)
    wanted = 2 * settings.beams
    if wanted > flat.shape[1]:
        raise settings.error(f"num_beams is {settings.beams}; twice as many candidates need a vocabulary of two tokens or more")
    order = np.array([_largest(settings, row, wanted) for row in flat], np.int64).reshape(batch, wanted)
    return np.take_along_axis(flat, order, axis=1), order // settings.vocabulary, order % settings.vocabulary


def _largest(settings: Settings, row: Array, count: int) -> Array:
    """Return the positions of the `count` largest, the larger and then the earlier first. O(n), in slices that can be cancelled."""
    settings.pace.check()
    if row.size <= max(SLICE, count):
        least = np.partition(row, row.size - count)[row.size - count]
        places = np.flatnonzero(row >= least)
        return places[np.argsort(-row[places], kind="stable")[:count]]
    found = []
    for start in range(0, row.size, SLICE):
        part = row[start : start + SLICE]
        found.append(start + _largest(settings, part, min(count, part.size)))
    places = np.concatenate(found)
    return places[np.argsort(-row[places], kind="stable")[:count]]


def advance(settings: Settings, found: list[Hypotheses], sequences: Array, candidates: tuple[Array, Array, Array]) -> BeamStep:
    """End finished sequences, and go on with the best others. sequences: (rows, length)."""
    beams, batch = settings.beams, len(found)
    step = BeamStep(np.zeros(batch * beams, np.float32), np.zeros(batch * beams, np.int32), np.zeros(batch * beams, np.int64))
    every = candidates[0].reshape(-1)
    for b, (hypotheses, totals, sources, tokens) in enumerate(zip(found, *candidates, strict=True)):
        settings.pace.check()
        base = b * beams
        if hypotheses.done:
            step.tokens[base : base + beams] = settings.pad
            continue
        filled = 0
        for rank, (total, source, token) in enumerate(zip(totals, sources, tokens, strict=True)):
            if token == settings.eos:
                if rank < beams:
                    hypotheses.add(sequences[base + source], total)
                continue
            step.scores[base + filled], step.tokens[base + filled], step.rows[base + filled] = total, token, base + source
            filled += 1
            if filled == beams:
                break
        # Of the scores of another than the first of a batch it sees half: where its search ends depends on that, in onnxruntime too.
        hypotheses.stop(every[base : base + 2 * beams].max(), sequences.shape[1])
    return step
