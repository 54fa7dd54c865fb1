"""Texts that native code reads. CPython keeps an ASCII text in one piece: a header, then its letters.

NumPy's arrays of objects hold the addresses of texts. Where what is read does not agree with probes (another implementation, a build
without GIL), nothing is read.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import host
from ort_lite.native.lang import load64, pointer_i64, pointer_u8, store64
from ort_lite.native.spec import Spec
from ort_lite_cpu.operators.words import BETWEEN, END, find_word, word_table
from ort_lite_cpu.run.address import address_of
from ort_lite_cpu.run.kernels import Kernels

UNREAD = -1
"""The number of an object that is no ASCII text."""

# Byte offsets in a text of what precedes its letters.
_TYPE, _LENGTH, _STATE = 8, 16, 32


# --- Native
def number_texts(wanted: int, objects: int, numbers: int, count: int) -> int:
    """Write the numbers of objects at `count` addresses: see `TextNumbers`. Returns how many are UNREAD. Its caller has the GIL."""
    kind, state, letters = load64(wanted), load64(wanted + 8), load64(wanted + 16)
    pool, words = pointer_u8(load64(wanted + 24)), pointer_i64(load64(wanted + 32))
    mask, longest, other = load64(wanted + 40), load64(wanted + 48), load64(wanted + 56)
    unread = 0
    for k in range(count):
        text, number = load64(objects + 8 * k), UNREAD
        if text != 0 and load64(text + _TYPE) == kind and load64(text + _STATE) & state == state:
            length, number = load64(text + _LENGTH), other
            if length <= longest:
                found = find_word(pointer_u8(text + letters), 0, length, pool, words, mask)
                number = found if found >= 0 else other
        else:
            unread += 1
        store64(numbers + 8 * k, number)
    return unread


def stream_texts(wanted: int, objects: int, count: int, stream: int, room: int) -> int:
    """Write the stream of objects at `count` addresses: see `TextStream`. Its caller has the GIL.

    Returns the bytes that it needs; if there is less room, nothing is written. Returns UNREAD for an object that is no ASCII text,
    or a text with a character that the stream cannot hold.
    """
    kind, state, letters = load64(wanted), load64(wanted + 8), load64(wanted + 16)
    table, apart = pointer_u8(load64(wanted + 24)), load64(wanted + 32)
    needed = 0
    for k in range(count):
        text = load64(objects + 8 * k)
        if text == 0 or load64(text + _TYPE) != kind or load64(text + _STATE) & state != state:
            return UNREAD
        needed += load64(text + _LENGTH) * (1 + apart) + 1
    if needed > room:
        return needed
    y, at, held = pointer_u8(stream), 0, 1
    for k in range(count):
        text = load64(objects + 8 * k)
        x = pointer_u8(text + letters)
        for place in range(load64(text + _LENGTH)):
            if apart != 0:
                y[at] = BETWEEN
                at += 1
            byte = table[x[place]]
            held &= byte != END
            y[at] = byte
            at += 1
        y[at] = END
        at += 1
    return needed if held != 0 else UNREAD


NUMBER_TEXTS = Spec.plain(number_texts, "i64(i64,i64,i64,i64)")
STREAM_TEXTS = Spec.plain(stream_texts, "i64(i64,i64,i64,i64,i64)")


# --- Python
class _Own(str):
    """A class of texts whose letters lie elsewhere."""

    __slots__ = ()


def _read(number: int) -> int:
    return ctypes.c_void_p.from_address(number).value or 0


def _layout() -> tuple[int, int] | None:
    """Return (the bits of the state that an ASCII text has and no other, the offset of its letters)."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != _LENGTH:
        return None
    plain, wide, elsewhere = ["", "a", "letters", str(sys.maxsize)], ["\xe9", "\u4e2d", "\U0001f600"], [_Own("own")]
    letters = sys.getsizeof("") - 1

    def join(function: Callable[[int, int], int], texts: Sequence[str]) -> int:
        return reduce(function, [_read(id(text) + _STATE) & 0xFFFFFFFF for text in texts])

    is_ascii = join(and_, plain) & ~join(or_, wide)
    is_whole = join(and_, plain + wide) & ~join(or_, elsewhere)
    fits = all(
        _read(id(text) + _TYPE) == id(str)
        and _read(id(text) + _LENGTH) == len(text)
        and ctypes.string_at(id(text) + letters, len(text)) == text.encode()
        for text in plain
    )
    return (is_ascii | is_whole, letters) if fits and is_ascii and is_whole else None


_LAYOUT = _layout()


class TextNumbers:
    """The numbers of texts: the position of each in `texts`, which differ, and len(texts) for an ASCII text that is none of them."""

    def __init__(self, texts: Sequence[str], entry: Any) -> None:
        """`entry` is that of NUMBER_TEXTS."""
        assert _LAYOUT is not None
        known = {text: number for number, text in enumerate(texts) if text.isascii()}
        self._pool, self._words = word_table(known)
        longest = max(map(len, known), default=-1)
        sizes = len(self._words) - 1, longest, len(texts)
        self._wanted = np.array([id(str), *_LAYOUT, address_of(self._pool), address_of(self._words), *sizes], np.int64)
        self._entry = entry

    def write(self, x: Array, numbers: Array) -> int:
        """Write the numbers of objects (n,), contiguous as `numbers` (n,) is. Returns how many are UNREAD."""
        found: int = self._entry(address_of(self._wanted), address_of(x), address_of(numbers), len(x))
        return found


class TextStream:
    """The stream of texts of which each ASCII character becomes a byte (see `words`)."""

    def __init__(self, table: bytes, apart: bool, entry: Any) -> None:
        """`table`: the byte of each ASCII character, END for one that a stream cannot hold. `apart`: each character is a word.

        `entry` is that of STREAM_TEXTS.
        """
        assert _LAYOUT is not None
        self._table = np.frombuffer(table, np.uint8)
        self._wanted = np.array([id(str), *_LAYOUT, address_of(self._table), apart], np.int64)
        self._entry = entry

    def write(self, x: Array, y: Array, room: int) -> int:
        """Write the stream of objects (n,) into bytes (room,), both contiguous, if it fits. Returns its bytes, or UNREAD."""
        needed: int = self._entry(address_of(self._wanted), address_of(x), len(x), address_of(y), room)
        return needed


def text_numbers(texts: Sequence[str], kernels: Kernels) -> TextNumbers | None:
    """Return the numbers of texts, or None where native code cannot read them or is missing."""
    entry = _entry(NUMBER_TEXTS, 4, kernels)
    return None if entry is None else TextNumbers(texts, entry)


def text_stream(table: bytes, apart: bool, kernels: Kernels) -> TextStream | None:
    """Return the stream of texts, or None where native code cannot read them or is missing."""
    entry = _entry(STREAM_TEXTS, 5, kernels)
    return None if entry is None else TextStream(table, apart, entry)


def _entry(spec: Spec, arguments: int, kernels: Kernels) -> Any:
    """Return a function of so many numbers that is called with the GIL; None where there is none."""
    own = Kernels(host(), kernels.compile)
    if _LAYOUT is None or not (own.all_come or own.has_kernel(spec)):
        return None
    [address] = own.load([spec])
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * arguments)(address)
