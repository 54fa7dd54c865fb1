"""Maintenance of a kernel cache folder: list, verify, prune, export and import its objects."""

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
from ort_lite.native.cache import PROGRAMS
from ort_lite.native.spec import KEY_DIGITS, is_of_this_version
from ort_lite.record import Record

_KEY = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}")
_UNFINISHED = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}\..+")
_AN_HOUR = 3600.0


class Entry(Record):
    """An object of the cache: its key, its size in bytes, and the time of its last use, to within a day."""

    key: str
    nbytes: int
    used: float

    @property
    def stale(self) -> bool:
        """Return True if no process with this version of ort-lite, Numba and Python will ask for the object."""
        return not is_of_this_version(self.key)


def programs_of(folder: str) -> str:
    """Return the folder of prepared programs beside the kernels of a folder: their files are named and checked alike."""
    return os.path.join(folder, PROGRAMS) if folder else ""


def entries(folder: str) -> list[Entry]:
    """Return the objects of a folder, the most recently used first. A folder that does not exist has none."""
    found = [Entry(name, state.st_size, state.st_mtime) for name, state in _files(folder) if _KEY.fullmatch(name)]
    return sorted(found, key=lambda entry: (-entry.used, entry.key))


def find_partial_files(folder: str) -> list[str]:
    """Return the names of files that were left behind by processes that ended while writing them."""
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
    """Describe what is wrong with an object, or return "" if it is usable."""
    try:
        with open(os.path.join(folder, key), "rb", opener=private.opener) as file:
            state = os.fstat(file.fileno())
            wrong = private.trouble_of(state, final=True) or ("is too large" if state.st_size > cache.MOST_BYTES else "")
            return wrong or ("" if cache.body_of(key, file.read(state.st_size)) is not None else "is not what was written")
    except OSError as error:
        return error.strerror or type(error).__name__


def remove(folder: str, names: Iterable[str]) -> None:
    """Remove the files of objects. Running processes keep what they have loaded; later ones compile again."""
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


def to_prune(found: list[Entry], stale: bool, days: float | None, nbytes: int | None) -> list[Entry]:
    """Return the entries to remove: stale ones, ones unused for `days`, and the least recently used beyond `nbytes`."""
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
    """Write all intact objects of this version to a tar file and return their number. Equal objects make equal bytes."""
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
    """Import the objects of a file written by `export`. Returns the number of new ones, and of those that no process of this
    version will use.

    Raises InvalidArgument, before importing any, for a member that is not an object under its own key, and OSError if the folder is
    not writable.
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
    """Yield the key and bytes of each object. Nothing is unpacked to the paths that the file names."""
    try:
        with open(path, "rb", opener=private.link_opener) as opened, tarfile.open(fileobj=opened, mode="r:") as archive:
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
