"""Texts in slices: parts of each, a table of rows of parts, and two arrays side by side."""

import re
from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from operator import add
from sys import getsizeof

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.run.pace import CHARACTERS, CHEAP, ELEMENTS, Pace

_SPACE, _OTHER = re.compile(r"\s"), re.compile(r"\S")


def split(pace: Pace, texts: list[str], delimiter: str | None, limit: int) -> "tuple[list[str], array[int]]":
    """Return the parts of text.split(delimiter, limit) of all texts, and how many each has."""

    def rows(block: list[str]) -> list[list[str]]:
        if len(block) > 1 or len(block[0]) <= CHARACTERS:
            return [text.split(delimiter, limit) for text in block]
        return [[*(_words(pace, block[0], limit) if delimiter is None else _parts(pace, block[0], delimiter, limit))]]

    return flatten(pace, texts, rows)


def flatten(pace: Pace, texts: list[str], rows: Callable[[list[str]], list[list[str]]]) -> "tuple[list[str], array[int]]":
    """Return the elements of the rows that a function makes of texts, and how many each row has.

    The lists of a slice are dropped at its end: Python's garbage collector would go through millions of them at once.
    """
    found: list[str] = []
    counts = array("q")
    for block in pace.texts(texts):
        made = rows(block)
        counts.extend(map(len, made))
        if len(made) > 1:
            flat = list(chain.from_iterable(made))
            pace.take_texts(flat)
            found += flat
            continue
        for part in pace.slices(len(made[0]), CHEAP):
            pace.take_texts(made[0][part])
            found += made[0][part]
    return found, counts


def parts(pace: Pace, text: str, delimiter: str) -> list[str]:
    """Return text.split(delimiter)."""
    return text.split(delimiter) if len(text) <= CHARACTERS else [*_parts(pace, text, delimiter, -1)]


def words(pace: Pace, text: str) -> list[str]:
    """Return text.split()."""
    return text.split() if len(text) <= CHARACTERS else [*_words(pace, text, -1)]


def _parts(pace: Pace, text: str, delimiter: str, limit: int) -> Iterator[str]:
    """Return text.split(delimiter, limit), looking at CHARACTERS at a time."""
    start = at = count = 0
    while at < len(text) and count != limit:
        pace.check()
        found = text.find(delimiter, at, at + CHARACTERS + len(delimiter))
        if found < 0:
            at += CHARACTERS + 1
        else:
            yield text[start:found]
            start = at = found + len(delimiter)
            count += 1
    yield text[start:]


def _words(pace: Pace, text: str, limit: int) -> Iterator[str]:
    """Return text.split(None, limit), looking at CHARACTERS at a time."""
    end = count = 0
    while (start := _next(pace, _OTHER, text, end)) < len(text):
        end = len(text) if count == limit else _next(pace, _SPACE, text, start)
        yield text[start:end]
        count += 1


def _next(pace: Pace, kind: re.Pattern[str], text: str, at: int) -> int:
    """Return the position of the next character of a kind, or the length of the text if there is none."""
    while at < len(text):
        pace.check()
        found = kind.search(text, at, at + CHARACTERS)
        if found is not None:
            return found.start()
        at += CHARACTERS
    return len(text)


def fill_table(pace: Pace, texts: list[str], counts: Array, most: int) -> Array:
    """Return a table (rows, most) of the texts, counts[row] in each row, and empty strings behind them."""
    y, at = pace.empty((len(counts), most)), 0
    for part in pace.slices(len(counts), max(CHEAP // max(most, 1), 1)):
        y[part].fill("")
        end = at + int(counts[part].sum())
        y[part][np.arange(most) < counts[part, None]] = np.fromiter(texts[at:end], object, end - at)
        at = end
    return y


def join_texts(pace: Pace, a: Array, b: Array) -> Array:
    """Return a + b, which broadcast."""
    if a.shape == b.shape and a.size <= ELEMENTS and not pace.counts and _characters(a) + _characters(b) <= CHARACTERS:
        return np.asarray(a + b, object)
    a, b = np.broadcast_arrays(a, b)
    y = pace.empty((a.size,))
    for part, left, right in pairs(pace, a, b):
        total = sum(map(len, left)) + sum(map(len, right))
        pace.take(total)
        y[part] = made = list(map(add, left, right))
        if pace.counts:
            pace.take(sum(map(getsizeof, made)) - total)
    return y.reshape(a.shape)


def _characters(x: Array) -> int:
    return sum(map(len, x.reshape(-1).tolist()))


def pairs(pace: Pace, a: Array, b: Array) -> Iterator[tuple[slice, list[str], list[str]]]:
    """Yield slices in flat order with the texts of two arrays of one shape. Checks for cancellation between slices."""
    for part in pace.slices(a.size):
        yield from _halves(pace, part.start, a.flat[part].tolist(), b.flat[part].tolist())


def _halves(pace: Pace, start: int, left: list[str], right: list[str]) -> Iterator[tuple[slice, list[str], list[str]]]:
    if len(left) == 1 or sum(map(len, left)) + sum(map(len, right)) <= CHARACTERS:
        yield slice(start, start + len(left)), left, right
        return
    half = len(left) // 2
    yield from _halves(pace, start, left[:half], right[:half])
    pace.check()
    yield from _halves(pace, start + half, left[half:], right[half:])
