"""Entries of prepared programs: their sections as one body in the store beside the cached objects."""

import io

from ort_lite.native import store

_MAGIC = b"prepared program 1\n"
_SIZE = 8  # bytes of a number in the header


def pack(sections: list[bytes]) -> bytes:
    """Return the sections as one body: how many there are, their sizes, and they."""
    numbers = [len(sections), *map(len, sections)]
    return b"".join([_MAGIC, *(number.to_bytes(_SIZE, "little") for number in numbers), *sections])


class Section:
    """Some bytes of a body."""

    __slots__ = ("_body", "_size", "_start")

    def __init__(self, body: bytes, start: int, size: int) -> None:
        self._body, self._start, self._size = body, start, size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self._body[self._start : self._start + self._size]

    def open(self) -> io.BytesIO:
        """Return a file object at the first byte. It does not copy the body, and does not end with the section."""
        made = io.BytesIO(self._body)
        made.seek(self._start)
        return made

    def leave_rest(self, file: io.BytesIO) -> None:
        """Leave a file object of `open` only the bytes that were not yet read from it: it does not need the body any more."""
        rest = self._body[file.tell() : self._start + self._size]
        file.seek(0)
        file.truncate()
        file.write(rest)
        file.seek(0)


def unpack(body: bytes, count: int) -> list[Section] | None:
    """Return `count` sections; None if the body does not consist of them."""
    start = len(_MAGIC)
    at = start + _SIZE * (1 + count)
    numbers = [int.from_bytes(body[k : k + _SIZE], "little") for k in range(start, at, _SIZE)]
    if body[:start] != _MAGIC or numbers[0] != count or at + sum(numbers[1:]) != len(body):
        return None
    found = []
    for size in numbers[1:]:
        found.append(Section(body, at, size))
        at += size
    return found


def read(key: str, count: int) -> list[Section] | None:
    """Return the sections of an entry; None if there is none, it is damaged, or another user could have written it."""
    body = store.read(key)
    return None if body is None else unpack(body, count)


def write(key: str, sections: list[bytes]) -> bool:
    """Store an entry and make room for it. Return False if it is not stored."""
    return store.write(key, pack(sections))
