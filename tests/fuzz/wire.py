"""Protobuf's wire format, as far as mutations need it: where the fields of a message begin and end."""

from __future__ import annotations

from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIDTHS = {FIXED64: 8, FIXED32: 4}
TEN = 10
"""Bytes that a varint has at most."""


class Field(NamedTuple):
    """One field: its tag begins at `start`, its payload at `payload`, the next field at `end`; how deep it lies in messages."""

    start: int
    number: int
    wire: int
    payload: int
    end: int
    depth: int
    length_at: int
    """Where the varint of the length, or of the value, begins."""


def varint(value: int) -> bytes:
    """Negative ones as protobuf writes them: 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def fields(data: bytes, start: int, end: int, depth: int = 0) -> list[Field] | None:
    """Those between two offsets and all inside of them; None where the bytes are no message."""
    found: list[Field] = []
    at = start
    while at < end:
        one = _field(data, at, end, depth)
        if one is None:
            return None
        found.append(one)
        if one.wire == BYTES and one.end - one.payload > 1:
            found.extend(fields(data, one.payload, one.end, depth + 1) or [])
        at = one.end
    return found


def _field(data: bytes, at: int, end: int, depth: int) -> Field | None:
    tag, after = _read(data, at, end)
    number, wire = tag >> 3, tag & 7
    if after < 0 or not number:
        return None
    if wire in WIDTHS:
        return _within(Field(at, number, wire, after, after + WIDTHS[wire], depth, after), end)
    if wire not in (VARINT, BYTES):
        return None
    value, behind = _read(data, after, end)
    if behind < 0:
        return None
    return _within(Field(at, number, wire, behind, behind + (value if wire == BYTES else 0), depth, after), end)


def _within(one: Field, end: int) -> Field | None:
    return one if one.end <= end else None


def _read(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint and the offset behind it, -1 where there is none."""
    value = 0
    for k in range(min(TEN, end - at)):
        value |= (data[at + k] & 0x7F) << 7 * k
        if data[at + k] < 0x80:
            return value, at + k + 1
    return 0, -1
