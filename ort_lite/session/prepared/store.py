"""Entries on disk: files like those of kernels, with the same checks, in a folder beside them whose size is limited."""

import os
from contextlib import suppress

from ort_lite.native import cache

MOST_BYTES = 1 << 28
"""The size of all entries together; the least recently used ones are removed."""
_MAGIC = b"prepared program 1\n"
_SIZE = 8  # bytes of a number in the header


def directory() -> str:
    """Return the folder of entries; "" if there is no folder for kernels."""
    kernels = cache.directory()
    return os.path.join(kernels, cache.PROGRAMS) if kernels else ""


def pack(sections: list[bytes]) -> bytes:
    """Return the sections as one body: how many there are, their sizes, and they."""
    numbers = [len(sections), *map(len, sections)]
    return b"".join([_MAGIC, *(number.to_bytes(_SIZE, "little") for number in numbers), *sections])


def unpack(body: bytes, count: int) -> list[memoryview] | None:
    """Return `count` sections; None if the body does not consist of them."""
    start = len(_MAGIC)
    at = start + _SIZE * (1 + count)
    numbers = [int.from_bytes(body[k : k + _SIZE], "little") for k in range(start, at, _SIZE)]
    if body[:start] != _MAGIC or numbers[0] != count or at + sum(numbers[1:]) != len(body):
        return None
    view, found = memoryview(body), []
    for size in numbers[1:]:
        found.append(view[at : at + size])
        at += size
    return found


def read(key: str, count: int) -> list[memoryview] | None:
    """Return the sections of an entry; None if there is none, it is damaged, or another user could have written it."""
    folder = directory()
    body = cache.read(folder, key) if folder else None
    return None if body is None else unpack(body, count)


def write(key: str, sections: list[bytes]) -> int:
    """Store an entry and make room for it. Return its size, or 0 if it is not stored."""
    folder, body = directory(), pack(sections)
    if not folder or len(body) > MOST_BYTES // 4 or not cache.make_folder(folder) or not cache.write(folder, key, body):
        return 0
    limit(folder, MOST_BYTES)
    return len(body)


def limit(folder: str, most: int) -> None:
    """Remove the least recently used entries until the others have `most` bytes together."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                found.append((state.st_mtime, state.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            break
        with suppress(OSError):
            os.unlink(path)
        total -= size
