"""TfIdfVectorizer: counts n-grams of a pool. Strings become numbers of the pool in a Python step, the counting is native."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, native, shift, span
from ort_lite.shapes import minimum, product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.ngrams import Ngrams, count_row, ngram_table, weigh
from ort_lite_cpu.operators.text_steps import emit_lookup, emit_stream
from ort_lite_cpu.operators.words import KnownWords, can_stream, count_words, word_table
from ort_lite_cpu.registry import STRING, operator

MOST = 2**31
"""More columns than a model can ask for."""


@native
@extents(x="rows * items", table="4 * (g.mask + 1)", columns="given", weights="g.width", y="rows * g.width")
def count_ngrams(
    x: Ptr, table: Ptr, columns: Ptr, weights: Ptr, y: Ptr, rows: int, items: int, g: Ngrams, part: int, parts: int
) -> int:
    """y (rows, width) = how often each n-gram occurs in a row of x (rows, items), times its column's weight.

    Items of an n-gram are up to `skips` apart from being neighbours, evenly; single items are counted once. once: any number
    of times counts as one. Spec: ONNX TfIdfVectorizer-9.

    The table has a free place, n-grams are numbers of `columns`, and those are below width: `_count` and `_ngrams` see to it.
    skips is at most items: further apart nothing is found, and positions would overflow.
    """
    for row in span(rows, part, parts):
        own = shift(y, row * g.width)
        count_row(shift(x, row * items), table, columns, own, items, g)
        weigh(own, weights, g)
    return OK


@operator("TfIdfVectorizer", since=9, types=frozenset({"int32", "int64"}))
def tf_idf(op: NodeLowering) -> None:
    """Map (C) to (columns), (N, C) to (N, columns). Spec: ONNX TfIdfVectorizer-9."""
    _count(op, op.input(0), list(op.attr("pool_int64s") or ()))


@operator("TfIdfVectorizer", since=9, types=STRING, python=True)
def tf_idf_of_strings(op: NodeLowering) -> None:
    """Emit TfIdfVectorizer of strings: each is numbered by its position in the pool, and others are -1."""
    pool: list[str] = list(op.attr("pool_strings") or ())
    numbers = {text: k for k, text in enumerate(dict.fromkeys(pool))}
    gram = [numbers[text] for text in pool]
    stream = emit_stream(op, lambda fill: fill not in numbers) if can_stream(numbers) else None
    if stream is not None:
        _count_words(op, *stream, numbers, gram)
        return
    x = emit_lookup(op, numbers, "int64", -1)
    _count(op, x, gram)


def _count(op: NodeLowering, x: Tensor, pool: Sequence[int]) -> None:
    rows, items = product(x.shape[:-1]), x.shape[-1] if x.shape else 1
    grams = _Grams(op, pool)
    skips = minimum(grams.skips, items)
    work = rows * (items * (1 + skips) * 4 + grams.width)
    operands = [x, *grams.operands, op.output(0)]
    touched = {"columns": grams.count}
    op.emit(count_ngrams, operands, rows=rows, items=items, g=grams.sizes(skips), work=work, touched=touched)


def _count_words(op: NodeLowering, stream: Tensor, least: int, numbers: dict[str, int], pool: Sequence[int]) -> None:
    rows, nbytes = op.raw(0).shape[0], stream.size
    grams, (letters, words) = _Grams(op, pool), word_table(numbers)
    found = op.temporary("int64", (op.options.threads, nbytes))
    skips = minimum(grams.skips, nbytes)
    work = nbytes * 2 + nbytes * (1 + skips) + rows * grams.width
    operands = [stream, op.table(letters), op.table(words), found, *grams.operands, op.output(0)]
    known, touched = KnownWords(len(letters), len(words) - 1, least), {"columns": grams.count}
    op.emit(
        count_words, operands, nbytes=nbytes, rows=rows, known=known, g=grams.sizes(skips), slices=1, work=work, touched=touched
    )


class _Grams:
    """The n-grams as both kernels read them: operands, and their sizes."""

    def __init__(self, op: NodeLowering, pool: Sequence[int]) -> None:
        """`pool`: numbers of the items, one n-gram behind the other."""
        shortest, longest = op.attr("min_gram_length"), op.attr("max_gram_length")
        columns = np.array(op.attr("ngram_indexes"), np.int64)
        if not columns.size or not 0 <= columns.min() <= columns.max() < MOST or not 1 <= shortest <= longest:
            raise op.reject(
                f"ngram_indexes should be columns from 0 on, below {MOST}, and 1 <= min_gram_length <= max_gram_length"
            )
        self.skips = op.attr("max_skip_count", 0)
        if self.skips < 0:
            raise op.reject(f"max_skip_count is {self.skips}; it should be 0 or more")
        self.width, self.count = int(columns.max()) + 1, len(columns)
        mode, weights = op.attr("mode"), op.attr("weights")
        scale = np.ones(self.width, np.float32)
        if weights and mode != "TF":
            if len(weights) != len(columns):
                raise op.reject(f"there are {len(weights)} weights for {len(columns)} n-grams")
            scale[columns] = weights
        ngrams = _ngrams(op, pool, shortest, longest)
        table = ngram_table(ngrams)
        self.operands = [op.table(table), op.table(columns), op.table(scale)]
        self._table = self.width, len(table) - 1, shortest, max(map(len, ngrams), default=1)
        self._once = int(mode == "IDF")

    def sizes(self, skips: Any) -> Ngrams:
        """Return the record of the kernels."""
        return Ngrams(*self._table, skips, self._once)


def _ngrams(op: NodeLowering, pool: Sequence[int], shortest: int, longest: int) -> dict[tuple[int, ...], int]:
    """Return n-grams of the requested lengths with their numbers in the pool."""
    starts = [*op.attr("ngram_counts"), len(pool)]
    if longest > len(starts) - 1:
        raise op.reject(f"max_gram_length is {longest}; ngram_counts has {len(starts) - 1} elements, one for each length")
    found: dict[tuple[int, ...], int] = {}
    number = 0
    for length, (start, end) in enumerate(pairwise(starts), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % length:
            raise op.reject(f"ngram_counts {starts[:-1]} do not cut the pool of {len(pool)} into n-grams")
        for at in range(start, end, length):
            if shortest <= length <= longest:
                ngram = tuple(pool[at : at + length])
                if found.setdefault(ngram, number) != number:
                    raise op.reject(f"the pool has the n-gram at {at} twice, as number {found[ngram]} and {number}")
            number += 1
    if number > len(op.attr("ngram_indexes")):
        raise op.reject(f"there are {len(op.attr('ngram_indexes'))} ngram_indexes for {number} n-grams")
    return found
