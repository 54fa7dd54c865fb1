"""Files named by a caller or a model: opened first, checked by their descriptor, then read up to the size that was checked.

Only regular files are read: a pipe would block, a device never ends, and files in /proc report a size of 0. Problems are raised as
OSError with an explanation in `strerror`, so that each caller can raise its own class.
"""

import errno
import io
import os
import stat
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import Fail, NoSuchFile, OrtLiteError, OutOfMemory
from ort_lite.memory.arenas import allocate_in_huge_pages
from ort_lite.native.checkpoint import checkpoint

Path = str | os.PathLike[str]

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))
"""Opens a pipe that has just replaced a file without waiting for its writer."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | _NO_LINK
_BELOW = os.open in os.supports_dir_fd and _NO_LINK != 0
_AT_ONCE = 2**30  # bytes to read in one call; no system reads 2 GiB
_PIECE = 2**26  # bytes to read at a time
_HASHED = 2**20  # bytes to hash at a time
_MOST_JSON = 2**28  # bytes; as Python objects they take about thirty times as many
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class NotRegular(OSError):
    """The path leads to a pipe, a socket or a device."""


class Changed(OSError):
    """The size or modification time of the file has changed since it was opened."""


class OpenFile:
    """A regular file open for reading. `size` is its size when it was opened; nothing past that is read."""

    __slots__ = ("_raw", "path", "size", "state")

    def __init__(self, descriptor: int, path: str) -> None:
        """Take over the descriptor, and close it on errors. Raises NotRegular for other kinds of files."""
        try:
            state = os.fstat(descriptor)
            _check_kind(state, path)
            self._raw = io.FileIO(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
        self.path, self.state, self.size = path, state, state.st_size

    @property
    def identity(self) -> tuple[int, ...]:
        """A key that differs between files, and for the same file after a change."""
        state = self.state
        return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._raw.fileno()

    def read_into(self, offset: int, target: Array) -> None:
        """Fill a byte array, starting at `offset`. Raises Changed if the file has become shorter."""
        view = target.data
        self._raw.seek(offset)
        while view:
            checkpoint()
            count = self._raw.readinto(view[:_PIECE])
            if not count:
                raise Changed(errno.EIO, "it became shorter while it was read", self.path)
            view = view[count:]

    def array(self, offset: int, nbytes: int) -> Array:
        """Return bytes as a new array. Raises Changed and OutOfMemory."""
        try:
            made = allocate_in_huge_pages((nbytes,), np.dtype(np.uint8))
        except (MemoryError, ValueError) as error:
            raise OutOfMemory(f"{self.path}: {nbytes:,} bytes of it do not fit into memory") from error
        self.read_into(offset, made)
        return made

    def read(self, offset: int, nbytes: int) -> bytes:
        """Read bytes as `array` does."""
        try:
            if nbytes > _AT_ONCE:
                return self.array(offset, nbytes).tobytes()
            self._raw.seek(offset)
            data = self._raw.read(nbytes) or b""
            while len(data) < nbytes and (more := self._raw.read(nbytes - len(data))):
                data += more
        except MemoryError as error:
            raise OutOfMemory(f"{self.path}: {nbytes:,} bytes of it do not fit into memory") from error
        if len(data) != nbytes:
            raise Changed(errno.EIO, "it became shorter while it was read", self.path)
        return data

    def whole(self) -> bytes:
        """Return all bytes. Raises OutOfMemory, and Changed if the file changed meanwhile or has bytes although its size is 0."""
        data = self.read(0, self.size)
        if self._raw.read(1):
            grew = "it became longer while it was read" if self.size else "it has bytes but no size, as files of /proc: copy it"
            raise Changed(errno.EIO, grew, self.path)
        self.check()
        return data

    def sha1(self) -> str:
        """Return the SHA-1 digest of all bytes. O(size)."""
        from hashlib import sha1

        made = sha1(usedforsecurity=False)
        for begin in range(0, self.size, _HASHED):
            checkpoint()
            made.update(self.read(begin, min(_HASHED, self.size - begin)))
        return made.hexdigest()

    def check(self) -> None:
        """Raise Changed if the size or modification time has changed since the file was opened."""
        state = os.fstat(self._raw.fileno())
        if (state.st_size, state.st_mtime_ns) != (self.size, self.state.st_mtime_ns):
            raise Changed(errno.EIO, "it changed while it was read", self.path)

    def stream(self) -> io.BufferedReader:
        """Return a file object that reads from the start. Closing it closes this file."""
        self._raw.seek(0)
        return io.BufferedReader(self._raw)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_file(path: Path) -> OpenFile:
    """Open a regular file that the caller names, following links. Raises OSError, NotRegular for other kinds of files."""
    name = os.fspath(path)
    _check_kind(os.stat(name), name)  # before opening: that may affect a device
    return OpenFile(os.open(name, _FLAGS), name)


def is_below(folder: str, path: str) -> bool:
    """Return True if a real path is the folder or leads into it."""
    folder, path = os.path.normcase(folder), os.path.normcase(path)
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def open_below(folder: str, path: str) -> OpenFile:
    """Open a regular file in a folder or its subfolders. Both paths are real, with links resolved.

    No link is followed, so replacing a folder by a link meanwhile cannot redirect the path. Raises OSError.
    """
    if not _BELOW:
        return _open_and_compare(path)
    *folders, name = os.path.relpath(path, folder).split(os.sep)
    here = os.open(folder, _FOLDER)
    try:
        for inner in folders:
            there = os.open(inner, _FOLDER, dir_fd=here)
            os.close(here)
            here = there
        _check_kind(os.stat(name, dir_fd=here, follow_symlinks=False), path)
        return OpenFile(os.open(name, _FLAGS | _NO_LINK, dir_fd=here), path)
    finally:
        os.close(here)


def _open_and_compare(path: str) -> OpenFile:
    """Open a file and compare it with the target of the path, where the system cannot open without following links."""
    file = open_file(path)
    if os.path.realpath(path) == path and os.path.samestat(os.stat(path, follow_symlinks=False), file.state):
        return file
    file.close()
    raise OSError(errno.ELOOP, "a link took the place of a folder on the way to it", path)


def _check_kind(state: os.stat_result, path: str) -> None:
    """Raise IsADirectoryError or NotRegular, naming the kind of file."""
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
    if not stat.S_ISREG(state.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(state.st_mode)), "no file that can be read")
        raise NotRegular(errno.EINVAL, f"it is {kind}; expected a regular file", path)


def read_file(path: Path, most: int | None = None) -> bytes:
    """Return all bytes of a regular file that the caller names.

    Raises OSError. A file larger than `most` is rejected before anything is read.
    """
    with open_file(path) as file:
        if most is not None and file.size > most:
            raise OSError(errno.EFBIG, f"it has {file.size:,} bytes, expected {most:,} at most", file.path)
        return file.whole()


def read_file_for(path: Path, who: str, most: int | None = None) -> bytes:
    """Read a file. Raises NoSuchFile, or Fail if it cannot be read; messages start with `who`."""
    try:
        return read_file(path, most)
    except FileNotFoundError as error:
        raise NoSuchFile(f"{who} cannot be read: {words(error)}") from error
    except OrtLiteError:
        raise  # DeadlineExceeded is an OSError too
    except OSError as error:
        raise Fail(f"{who} cannot be read: {words(error)}") from error


def read_json(path: Path) -> Any:
    """Read a JSON file in UTF-8.

    Raises NoSuchFile, Fail if it cannot be read, and ValueError if it is not JSON or nests deeper than Python's stack allows.
    """
    import json

    data = read_file_for(path, os.fspath(path), _MOST_JSON)
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("its lists nest too deep") from error
    except MemoryError as error:
        raise OutOfMemory(
            f"{os.fspath(path)}: what its {len(data):,} bytes of JSON stand for does not fit into memory"
        ) from error


def words(error: OSError) -> str:
    """Return the text of an OSError without the path that it may name."""
    return error.strerror or str(error) or type(error).__name__


def check_replaceable(path: Path) -> None:
    """Raise OSError if moving a file to the path would replace a folder, a pipe or a device."""
    try:
        _check_kind(os.stat(path), os.fspath(path))
    except FileNotFoundError:
        return


def write_file(path: Path, data: Any) -> None:
    """Write all bytes to a path that the caller names. A pipe without a reader raises OSError instead of blocking."""
    with open(path, "wb", opener=_open_to_write) as file:
        file.write(data)


def _open_to_write(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return descriptor
