"""The beams of a BeamSearch: which sequences go on, and the best that have ended."""

from heapq import heappop, heappush

import numpy as np

from ort_lite.dtypes import Array


class Beams:
    """`width` sequences for each of `batch`; `scores` are sums of logarithms, one a sequence. Spec: onnxruntime's BeamSearchScorer."""

    def __init__(self, batch: int, width: int, kept: int, length_penalty: float, eos: int, pad: int) -> None:
        """Raises ValueError where there would be no beams, or more results than beams."""
        if not 1 <= width <= 128 or not 1 <= kept <= width:
            raise ValueError(
                f"num_beams is {width}, num_return_sequences {kept}; expected at most 128, and no more results than beams"
            )
        self.batch, self.width, self._kept = batch, width, kept
        self.early = False
        self._penalty, self._eos, self._pad = np.float32(length_penalty), eos, pad
        first = np.full((batch, width), -1e9, np.float32)  # beams of one sequence must not all begin alike
        first[:, 0] = 0
        self.scores = first.reshape(-1)
        self.done = np.zeros(batch, np.bool_)
        self._ended: list[list[tuple[float, int, Array]]] = [[] for _ in range(batch)]
        self._added = 0

    def turn(self, scores: Array, sequences: Array) -> tuple[Array, Array]:
        """From scores (batch * width, vocabulary) of a further token: which sequence goes on in each beam, and its token."""
        vocabulary = scores.shape[1]
        flat = scores.reshape(self.batch, self.width * vocabulary)
        if flat.shape[1] < 2 * self.width:
            raise ValueError(f"a vocabulary of {vocabulary} has no {2 * self.width} candidates for {self.width} beams")
        best = np.argsort(-flat, 1, kind="stable")[:, : 2 * self.width]
        rows, tokens = np.zeros(len(scores), np.int64), np.full(len(scores), self._pad, np.int32)
        values = np.take_along_axis(flat, best, 1)
        self.scores = np.zeros(len(scores), np.float32)
        for batch in range(self.batch):
            if not self.done[batch]:
                self._fill(batch, best[batch], values[batch], vocabulary, sequences, rows, tokens)
                self.done[batch] = self._is_done(batch, values.reshape(-1), sequences.shape[1])
        return rows, tokens

    def _fill(
        self, batch: int, best: Array, values: Array, vocabulary: int, sequences: Array, rows: Array, tokens: Array
    ) -> None:
        """The beams of one of the batch: candidates in order, those that end here among the first ones kept as results."""
        beam, first = 0, batch * self.width
        for rank, (place, value) in enumerate(zip(best.tolist(), values, strict=True)):
            row, token = first + place // vocabulary, place % vocabulary
            if 0 <= self._eos == token:
                if rank < self.width:
                    self._add(batch, sequences[row], value)
                continue
            self.scores[first + beam], rows[first + beam], tokens[first + beam] = value, row, token
            beam += 1
            if beam == self.width:
                break

    def _add(self, batch: int, sequence: Array, total: np.float32) -> None:
        score = float(np.float32(total / np.float32(len(sequence)) ** self._penalty))
        ended = self._ended[batch]
        if len(ended) < self.width or score > ended[0][0]:
            self._added += 1
            heappush(ended, (score, self._added, sequence))
            if len(ended) > self.width:
                heappop(ended)

    def _is_done(self, batch: int, values: Array, length: int) -> bool:
        """Whether no sequence that goes on can become better than the worst that has ended.

        onnxruntime looks at the candidates from number batch * width on, as if there were `width` for each of the batch.
        """
        ended = self._ended[batch]
        if len(ended) < self.width:
            return False
        top = values[batch * self.width : batch * self.width + 2 * self.width].max()
        return self.early or ended[0][0] >= float(np.float32(top / np.float32(length) ** self._penalty))

    def results(self, sequences: Array, longest: int) -> tuple[Array, Array]:
        """(batch, kept, longest), padded, and their scores (batch, kept), the best first."""
        found = np.full((self.batch, self._kept, longest), self._pad, np.int32)
        scores = np.zeros((self.batch, self._kept), np.float32)
        for batch in range(self.batch):
            if not self.done[batch]:
                for row in range(batch * self.width, (batch + 1) * self.width):
                    self._add(batch, sequences[row], self.scores[row])
            for place, (score, _, sequence) in enumerate(sorted(self._ended[batch], reverse=True)[: self._kept]):
                found[batch, place, : len(sequence)] = sequence
                scores[batch, place] = score
        return found, scores
