"""Texts that native code reads. CPython keeps an ASCII text in one piece: a header, then its letters.

NumPy's arrays of objects hold the addresses of texts. Where what is read does not agree with probes (another implementation, a build
without GIL), nothing is read.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import and_, or_
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.cpu import host
from ort_lite.native.lang import cast, load64, pointer_i64, pointer_u8, pointer_u16, pointer_u32, store64
from ort_lite.native.spec import Spec
from ort_lite_cpu.operators.words import BETWEEN, END, find_word, word_table
from ort_lite_cpu.run.address import address_of
from ort_lite_cpu.run.kernels import Kernels

UNREAD = -1
"""The number of an object that is no ASCII text."""

# Byte offsets in a text of what precedes its letters.
_TYPE, _LENGTH, _STATE = 8, 16, 32


# --- Native
def find_letters(wanted: int, text: int) -> int:
    """Return 4 * the address of a text's letters + (0, 1 or 2 for letters of 1, 2 or 4 bytes); 0 for what cannot be read.

    `wanted` is that of `TextStream`.
    """
    state = load64(text + _STATE)
    if load64(text + _TYPE) != load64(wanted):
        return 0
    if state & load64(wanted + 8) == load64(wanted + 8):
        return 4 * (text + load64(wanted + 16))
    for width in range(3):
        bits = load64(wanted + 48 + 8 * width)
        if bits != 0 and state & bits == bits:
            return 4 * (text + load64(wanted + 40)) + width
    return 0


def wide_byte(wanted: int, letters: int, place: int) -> int:
    """Return the byte that one of the letters of 2 or 4 bytes becomes, which `find_letters` has found."""
    address = letters >> 2
    code: int = cast(pointer_u16(address)[place], "i64") if letters & 3 == 1 else cast(pointer_u32(address)[place], "i64")
    if code < 256:
        byte: int = cast(pointer_u8(load64(wanted + 24))[code], "i64")
        return byte
    for k in range(load64(wanted + 72)):
        if load64(wanted + 80 + 16 * k) == code:
            return load64(wanted + 88 + 16 * k)
    return BETWEEN


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

    Returns the bytes that it needs; if there is less room, nothing is written. Returns UNREAD for an object that is no text that it
    can read, or a text with a character that the stream cannot hold.
    """
    table, apart, needed = pointer_u8(load64(wanted + 24)), load64(wanted + 32), 0
    for k in range(count):
        text = load64(objects + 8 * k)
        if text == 0 or find_letters(wanted, text) == 0:
            return UNREAD
        needed += load64(text + _LENGTH) * (1 + apart) + 1
    if needed > room:
        return needed
    y, at, least = pointer_u8(stream), 0, 255
    for k in range(count):
        text = load64(objects + 8 * k)
        letters = find_letters(wanted, text)
        for place in range(load64(text + _LENGTH)):
            if apart != 0:
                y[at] = BETWEEN
                at += 1
            narrow = letters & 3 == 0
            byte = cast(table[pointer_u8(letters >> 2)[place]], "i64") if narrow else wide_byte(wanted, letters, place)
            least = min(least, byte)
            y[at] = byte
            at += 1
        y[at] = END
        at += 1
    return needed if least > END else UNREAD


NUMBER_TEXTS = Spec.plain(number_texts, "i64(i64,i64,i64,i64)")
STREAM_TEXTS = Spec.plain(stream_texts, "i64(i64,i64,i64,i64,i64)")


# --- Python
class _Own(str):
    """A class of texts whose letters lie elsewhere."""

    __slots__ = ()


def _read(number: int) -> int:
    return ctypes.c_void_p.from_address(number).value or 0


class TextLayout(NamedTuple):
    """The places of the letters of texts."""

    ascii: int
    """The bits of the state that an ASCII text in one piece has, and no other."""
    letters: int
    """The offset of its letters."""
    others: int
    """The offset of the letters of other texts in one piece."""
    widths: tuple[int, ...]
    """The bits of the state of those with letters of 1, 2 and 4 bytes."""


def _layout() -> TextLayout | None:
    if sys.implementation.name != "cpython" or object.__basicsize__ != _LENGTH:
        return None
    plain, elsewhere = ["", "a", "letters", str(sys.maxsize)], [_Own("own")]
    wide = [[letter * count for count in (2, 3)] for letter in "\xe9\u4e2d\U0001f600"]
    letters, others = sys.getsizeof("") - 1, sys.getsizeof(wide[2][0]) - 12

    def join(function: Callable[[int, int], int], *texts: Sequence[str]) -> int:
        return reduce(function, [_read(id(text) + _STATE) & 0xFFFFFFFF for text in chain(*texts)])

    is_ascii = join(and_, plain) & ~join(or_, *wide)
    is_whole = join(and_, plain, *wide) & ~join(or_, elsewhere)
    alone = [join(and_, own) & ~join(or_, *(each for each in wide if each is not own)) for own in wide]
    kind = alone[0] & alone[1] >> 1 & alone[2] >> 2  # a field of 3 bits; those that are none have any value
    order = "le" if sys.byteorder == "little" else "be"
    fits = [_is_at(text, letters, "ascii") for text in plain]
    for own, encoding in zip(wide, ("latin-1", f"utf-16-{order}", f"utf-32-{order}"), strict=True):
        fits += [_is_at(text, others, encoding) for text in own]
    if not (all(fits) and is_ascii and is_whole and kind.bit_count() == 1):
        return None
    return TextLayout(is_ascii | is_whole, letters, others, tuple(kind << k | is_whole for k in range(3)))


def _is_at(text: str, offset: int, encoding: str) -> bool:
    """Return True if a text has its letters at an offset."""
    data, head = text.encode(encoding), id(text)
    alike = _read(head + _TYPE) == id(str) and _read(head + _LENGTH) == len(text)
    return alike and ctypes.string_at(head + offset, len(data)) == data


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
        addresses = address_of(self._pool), address_of(self._words)
        self._wanted = np.array([id(str), _LAYOUT.ascii, _LAYOUT.letters, *addresses, *sizes], np.int64)
        self._entry = entry

    def write(self, x: Array, numbers: Array) -> int:
        """Write the numbers of objects (n,), contiguous as `numbers` (n,) is. Returns how many are UNREAD."""
        found: int = self._entry(address_of(self._wanted), address_of(x), address_of(numbers), len(x))
        return found


class TextStream:
    """The stream of texts of which each character becomes a byte (see `words`)."""

    def __init__(self, letters: bytes, apart: bool, others: Mapping[int, int] | None, kernels: Kernels, entry: Any) -> None:
        """`letters`: the byte of each ASCII character, END for one that a stream cannot hold. `apart`: each character is a word.

        `others`: the bytes of other characters, BETWEEN for those that are missing; None: texts with others are not read. `entry` is
        that of STREAM_TEXTS, of these kernels.
        """
        assert _LAYOUT is not None
        self._made_of = letters, apart, others, kernels
        known = others or {}
        rest = bytes(known.get(code, BETWEEN) for code in range(128, 256))
        self._table = np.frombuffer(letters[:128] + rest, np.uint8)
        read = (0, 0, 0) if others is None else _LAYOUT.widths
        pairs = chain(*known.items())
        plain = id(str), _LAYOUT.ascii, _LAYOUT.letters, address_of(self._table), apart
        self._wanted = np.array([*plain, _LAYOUT.others, *read, len(known), *pairs], np.int64)
        self._entry = entry

    def __reduce__(self) -> tuple[Any, ...]:
        return text_stream, self._made_of

    def write(self, x: Array, y: Array, room: int) -> int:
        """Write the stream of objects (n,) into bytes (room,), both contiguous, if it fits. Returns its bytes, or UNREAD."""
        needed: int = self._entry(address_of(self._wanted), address_of(x), len(x), address_of(y), room)
        return needed


def text_numbers(texts: Sequence[str], kernels: Kernels) -> TextNumbers | None:
    """Return the numbers of texts, or None where native code cannot read them or is missing."""
    entry = _entry(NUMBER_TEXTS, 4, kernels)
    return None if entry is None else TextNumbers(texts, entry)


def text_stream(letters: bytes, apart: bool, others: Mapping[int, int] | None, kernels: Kernels) -> TextStream | None:
    """Return the stream of texts, or None where native code cannot read them or is missing."""
    entry = _entry(STREAM_TEXTS, 5, kernels)
    return None if entry is None else TextStream(letters, apart, others, kernels, entry)


def _entry(spec: Spec, arguments: int, kernels: Kernels) -> Any:
    """Return a function of so many numbers that is called with the GIL; None where there is none."""
    own = Kernels(host(), kernels.compile)
    if _LAYOUT is None or not (own.all_come or own.has_kernel(spec)):
        return None
    [address] = own.load([spec])
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * arguments)(address)
