"""Mutations of serialised models: of bytes wherever they are, and of fields of protobuf's messages."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.wire import BYTES, VARINT, Field, fields, varint

NUMBERS = (0, 1, 2, 3, 7, 16, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, -1, -2, -(2**31), -(2**63))
Mutation = Callable[[Random, bytes], bytes]


def flipped(rng: Random, data: bytes) -> bytes:
    """Some bits, in few bytes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: Random, data: bytes) -> bytes:
    """Without the end, or without some bytes."""
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.3 else data[:at] + data[at + rng.randrange(1, 9) :]


def inserted(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]


def repeated(rng: Random, data: bytes) -> bytes:
    """A stretch of bytes, several times."""
    at = rng.randrange(len(data))
    behind = min(len(data), at + rng.randrange(1, 64))
    return data[:at] + data[at:behind] * rng.choice((2, 3, 50)) + data[behind:]


def field_number(rng: Random, data: bytes) -> bytes:
    one = _any(rng, data)
    number = rng.choice((one.number + 1, max(one.number - 1, 0), rng.randrange(1, 32), 0, 2**29 - 1))
    return _replaced(data, one.start, one.length_at, varint(number << 3 | one.wire))


def wire_type(rng: Random, data: bytes) -> bytes:
    one = _any(rng, data)
    return _replaced(data, one.start, one.length_at, varint(one.number << 3 | rng.randrange(8)))


def length(rng: Random, data: bytes) -> bytes:
    """A length that is not that of the bytes behind it."""
    one = _any(rng, data, BYTES)
    size = one.end - one.payload
    wrong = rng.choice((size + 1, max(size - 1, 0), 0, 2 * size, *NUMBERS))
    return _replaced(data, one.length_at, one.payload, varint(wrong)) if one.wire == BYTES else data


def number(rng: Random, data: bytes) -> bytes:
    """The value of a varint; the lengths of messages around it follow."""
    one = _any(rng, data, VARINT)
    if one.wire != VARINT:
        return data
    return _spliced(data, one, data[one.start : one.length_at] + varint(rng.choice(NUMBERS)))


def removed(rng: Random, data: bytes) -> bytes:
    return _spliced(data, _any(rng, data), b"")


def doubled(rng: Random, data: bytes) -> bytes:
    one = _any(rng, data)
    return _spliced(data, one, data[one.start : one.end] * rng.choice((2, 2, 40)))


def swapped(rng: Random, data: bytes) -> bytes:
    """A message, or a string, becomes another one of the model."""
    one, other = _any(rng, data, BYTES), _any(rng, data, BYTES)
    content = data[other.payload : other.end]
    return _spliced(data, one, data[one.start : one.length_at] + varint(len(content)) + content)


def content(rng: Random, data: bytes) -> bytes:
    """Other bytes in a string, a tensor, a packed list: as many, fewer, more."""
    one = _any(rng, data, BYTES)
    size = rng.choice((one.end - one.payload, 0, 1, 3, 8, 4096))
    made = rng.choice((rng.randbytes(size), bytes(size), b"\xff" * size, b"y" * size))
    return _spliced(data, one, data[one.start : one.length_at] + varint(len(made)) + made)


MUTATIONS: dict[Mutation, int] = {
    **dict.fromkeys((flipped, cut, inserted, repeated, field_number, wire_type, length), 1),
    number: 6,
    removed: 2,
    doubled: 2,
    swapped: 5,
    content: 4,
}
"""With their weights: after the first ones a model can seldom be read."""


def _any(rng: Random, data: bytes, wire: int | None = None) -> Field:
    """A field of that kind, of any kind where there is none of it."""
    found = fields(data, 0, len(data)) or [Field(0, 1, BYTES, 0, len(data), 0, 0)]
    return rng.choice([one for one in found if wire in (None, one.wire)] or found)


def _replaced(data: bytes, start: int, end: int, by: bytes) -> bytes:
    return data[:start] + by + data[end:]


def _spliced(data: bytes, one: Field, by: bytes) -> bytes:
    """Other bytes in the place of a field, and lengths of the messages around it that fit, so that they are read to their end."""
    around = [other for other in fields(data, 0, len(data)) or [] if other.payload <= one.start and one.end <= other.end]
    around = [other for other in around if other.wire == BYTES and other.depth < one.depth]
    made, start, end = by, one.start, one.end
    for other in sorted(around, key=lambda other: -other.depth):
        made = data[other.payload : start] + made + data[end : other.end]
        made = data[other.start : other.length_at] + varint(len(made)) + made
        start, end = other.start, other.end
    return data[:start] + made + data[end:]
