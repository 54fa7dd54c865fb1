"""A folder of limited size beside the cached objects: prepared programs, and kernels that plugins compiled.

Its files are named, written and checked like those of `cache.py`.
"""

import os
from contextlib import suppress

from ort_lite.native import cache
from ort_lite.native.digest import digest
from ort_lite.native.spec import with_version

MOST_BYTES = 1 << 28
"""The size of all entries together; the least recently used ones are removed."""
MOST_ENTRIES = 1 << 13
"""The number of all entries: looking at each of them when one is stored takes 5 us."""
LARGEST = 4
"""The part of MOST_BYTES, as a divisor, that one entry may have."""


def key_of(*parts: bytes) -> str:
    """Return the key of an entry for this version of ort-lite, as the name of a file: 40 hexadecimal digits."""
    return with_version(digest(*parts).hex())


def directory() -> str:
    """Return the folder of entries; "" if there is no folder for kernels."""
    kernels = cache.directory()
    return os.path.join(kernels, cache.PROGRAMS) if kernels else ""


def read(key: str) -> bytes | None:
    """Return an entry; None if there is none, it is damaged, or another user could have written it."""
    folder = directory()
    return cache.read(folder, key) if folder else None


def write(key: str, body: bytes) -> bool:
    """Store an entry and make room for it. Return False if it is not stored: it is too large, or the folder cannot be used."""
    folder = directory()
    if not folder or len(body) > MOST_BYTES // LARGEST or not cache.make_folder(folder) or not cache.write(folder, key, body):
        return False
    limit(folder, MOST_BYTES)
    return True


def limit(folder: str, most: int) -> None:
    """Remove the least recently used entries until the others have `most` bytes together, and are MOST_ENTRIES."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                found.append((state.st_mtime, state.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for count, (_, size, path) in enumerate(sorted(found)):
        if total <= most and len(found) - count <= MOST_ENTRIES:
            break
        with suppress(OSError):
            os.unlink(path)
        total -= size
