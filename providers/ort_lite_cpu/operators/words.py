"""Words that a Tokenizer finds, counted by a TfIdfVectorizer behind it: bytes go from one to the other, and no strings."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, cast, native, shift, shr, wmul
from ort_lite_cpu.operators.ngrams import Ngrams, count_row, weigh

END, BETWEEN = 0, 1
"""Bytes of a stream: behind each row, and between words, of which there may be several. Words are UTF-8."""
HASH, START, LENGTH, NUMBER = 0, 1, 2, 3
"""Columns of a table of words. A START of -1 is a free place."""
BASIS, PRIME = -3750763034362895579, 1099511628211
"""The offset basis and the prime of FNV-1a, 64 bits."""


@native
def hash_of(text: Ptr, start: int, end: int) -> int:
    """Return FNV-1a of text[start : end], bytes."""
    mixed = BASIS
    for k in range(start, end):
        mixed = wmul(mixed ^ cast(text[k], "i64"), PRIME)
    return mixed


@native
def is_word(text: Ptr, start: int, pool: Ptr, known: int, length: int) -> int:
    """Return 1 if text[start :] and pool[known :] begin with the same `length` bytes, else 0."""
    for k in range(length):
        if text[start + k] != pool[known + k]:
            return 0
    return 1


@native
def find_word(text: Ptr, start: int, end: int, pool: Ptr, words: Ptr, mask: int) -> int:
    """Return the number of the word text[start : end], -1 for one that is not in the table."""
    mixed = hash_of(text, start, end)
    row = shr(mixed, 20) & mask
    while words[row * 4 + START] >= 0:
        same = words[row * 4 + HASH] == mixed and words[row * 4 + LENGTH] == end - start
        if same and is_word(text, start, pool, words[row * 4 + START], end - start) != 0:
            number: int = words[row * 4 + NUMBER]
            return number
        row = (row + 1) & mask
    return -1


class KnownWords(NamedTuple):
    """The words that count, as `word_table` lists them."""

    letters: int
    """Bytes of all words."""
    mask: int
    """Rows of the table, less 1."""
    least: int
    """Bytes of the shortest word that counts."""


@native
@extents(
    stream="nbytes",
    pool="known.letters",
    words="4 * (known.mask + 1)",
    numbers="parts * nbytes",
    table="4 * (g.mask + 1)",
    columns="given",
    weights="g.width",
    y="rows * g.width",
)
def count_words(
    stream: Ptr,
    pool: Ptr,
    words: Ptr,
    numbers: Ptr,
    table: Ptr,
    columns: Ptr,
    weights: Ptr,
    y: Ptr,
    nbytes: int,
    rows: int,
    known: KnownWords,
    g: Ngrams,
    part: int,
    parts: int,
) -> int:
    """Count n-grams, like `tf_idf.count_ngrams`, of a stream's words that are `known`; missing rows are empty.

    A row has no more words than the stream has bytes. `word_table` has made what `words` says of `pool`.
    """
    mine = shift(numbers, part * nbytes)
    first, last = rows * part // parts, rows * (part + 1) // parts
    at = row = 0
    while row < first and at < nbytes:
        row += 1 if stream[at] == END else 0
        at += 1
    for row in range(first, last):
        items = 0
        while at < nbytes and stream[at] != END:
            end = at
            while end < nbytes and stream[end] > BETWEEN:
                end += 1
            if end > at and end - at >= known.least:
                mine[items] = find_word(stream, at, end, pool, words, known.mask)
                items += 1
            at = end if end < nbytes and stream[end] == END else end + 1
        at += 1
        own = shift(y, row * g.width)
        count_row(mine, table, columns, own, items, g)
        weigh(own, weights, g)
    return OK


def can_stream(words: Iterable[str]) -> bool:
    """Return True if a stream can hold these words without ambiguity."""
    return all(word and chr(END) not in word and chr(BETWEEN) not in word for word in words)


def word_table(numbers: dict[str, int]) -> tuple[Array, Array]:
    """Return (bytes of all words, table with open addressing, at most half full)."""
    size = 1 << max(2 * len(numbers), 1).bit_length()
    table = np.full((size, 4), -1, np.int64)
    pool = bytearray()
    for word, number in numbers.items():
        data = word.encode()
        mixed = _hash(data)
        row = (mixed >> 20) & (size - 1)
        while table[row, START] >= 0:
            row = (row + 1) & (size - 1)
        table[row] = mixed, len(pool), len(data), number
        pool += data
    return np.frombuffer(bytes(pool) or b"\0", np.uint8), table


def _hash(data: bytes) -> int:
    """Return `hash_of`, in Python."""
    mixed = BASIS
    for byte in data:
        wrapped = ((mixed ^ byte) * PRIME) & (2**64 - 1)
        mixed = wrapped - 2**64 if wrapped >= 2**63 else wrapped
    return mixed
