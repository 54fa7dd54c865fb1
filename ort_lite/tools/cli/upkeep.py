"""The contents of a cache folder: objects by last use, their problems, pruning, and all of them in one file."""

import errno
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from time import time

from ort_lite.errors import InvalidArgument
from ort_lite.native import cache, private
from ort_lite.native.spec import KEY_DIGITS, is_of_this_version
from ort_lite.record import Record

_KEY = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}")
_UNFINISHED = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}\..+")
_AN_HOUR = 3600.0


class Entry(Record):
    """An object: its key, its bytes on disk, when it was used last (to within a day)."""

    key: str
    nbytes: int
    used: float

    @property
    def stale(self) -> bool:
        """No process of this version of ort-lite, Numba and Python will ask for it."""
        return not is_of_this_version(self.key)


def entries(folder: str) -> list[Entry]:
    """The objects of a folder, those first that were used last. Empty where there is no folder."""
    found = [Entry(name, state.st_size, state.st_mtime) for name, state in _files(folder) if _KEY.fullmatch(name)]
    return sorted(found, key=lambda entry: (-entry.used, entry.key))


def find_partial_files(folder: str) -> list[str]:
    """Names of files that a process left which ended while it wrote them."""
    before = time() - _AN_HOUR
    return sorted(name for name, state in _files(folder) if _UNFINISHED.fullmatch(name) and state.st_mtime < before)


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    if not folder:
        return
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        for item in found:
            with suppress(FileNotFoundError):  # another process removes or replaces it
                yield item.name, item.stat(follow_symlinks=False)


def trouble(folder: str, key: str) -> str:
    """Describe what is wrong with an object; "" if it is used when it is asked for."""
    try:
        with open(os.path.join(folder, key), "rb", opener=private.opener) as file:
            state = os.fstat(file.fileno())
            wrong = private.trouble_of(state, final=True) or ("is too large" if state.st_size > cache.MOST_BYTES else "")
            return wrong or ("" if cache.body_of(key, file.read(state.st_size)) is not None else "is not what was written")
    except OSError as error:
        return error.strerror or type(error).__name__


def remove(folder: str, names: Iterable[str]) -> None:
    """Removes files. Processes that use the objects have them in memory; those to come compile them again."""
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


def to_prune(found: list[Entry], stale: bool, days: float | None, nbytes: int | None) -> list[Entry]:
    """Return the entries that are stale, have not been used for so many days, or exceed so many bytes: those used longest ago
    go first.
    """
    gone = {entry.key for entry in found if stale and entry.stale}
    if days is not None:
        gone |= {entry.key for entry in found if entry.used < time() - days * cache.DAY}
    kept = 0
    for entry in found:
        if entry.key not in gone and nbytes is not None:
            kept += entry.nbytes
            if kept > nbytes:
                gone.add(entry.key)
                kept -= entry.nbytes
    return [entry for entry in found if entry.key in gone]


def export(folder: str, path: str) -> int:
    """Writes all objects that are intact and of this version into a tar file; how many. Equal objects make equal bytes."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    keys = sorted(entry.key for entry in entries(folder) if not entry.stale and not trouble(folder, entry.key))
    temporary = f"{path}.{os.getpid()}"
    try:
        with tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive:
            for key in keys:
                with open(os.path.join(folder, key), "rb", opener=private.opener) as file:
                    data = file.read()
                member = tarfile.TarInfo(key)  # of nobody, at no time: the rest would be this machine's
                member.size, member.mode = len(data), 0o600
                archive.addfile(member, BytesIO(data))
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return len(keys)


def import_(folder: str, path: str) -> tuple[int, int]:
    """Keeps the objects of a file that `export` wrote; how many are new, and how many of all no process of this version asks for.

    Raises InvalidArgument, before any is kept, for a member that is not an object under its key; OSError where they cannot be kept.
    """
    keys = [key for key, _ in _members(path)]
    new = 0
    for key, body in _members(path):
        if trouble(folder, key):
            if not cache.write(folder, key, body):
                raise OSError(f"{folder or 'no folder'}: objects cannot be kept there")
            new += 1
    return new, sum(not is_of_this_version(key) for key in keys)


def _members(path: str) -> Iterator[tuple[str, bytes]]:
    """(key, object) of each; nothing is unpacked, whatever a file says where it belongs."""
    try:
        with open(path, "rb", opener=private.linked_opener) as opened, tarfile.open(fileobj=opened, mode="r:") as archive:
            for member in archive:
                if not (_KEY.fullmatch(member.name) and member.isreg() and member.size <= cache.MOST_BYTES):
                    raise InvalidArgument(f"{path}: {member.name!r} is not an object of a kernel cache; nothing was imported")
                file = archive.extractfile(member)
                body = cache.body_of(member.name, file.read() if file is not None else b"")
                if body is None:
                    raise InvalidArgument(f"{path}: {member.name} is damaged; nothing was imported")
                yield member.name, body
    except (tarfile.TarError, EOFError) as error:
        raise InvalidArgument(f"{path}: {error}; expected a file of `ort-lite cache export`") from None
