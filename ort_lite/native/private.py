"""Checks that a file belongs to this user alone: that nobody else could write to it or replace it.

Owners may be this user and root. Nobody else may write: to the file, to its folder, or to a folder on the way to it, links
resolved, but for folders like /tmp, where only owners rename and remove (the sticky bit). As OpenSSH looks at keys.
"""

import errno
import os
import stat
from collections.abc import Iterator

_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY"))


def trouble(folder: str) -> str:
    """Describe a problem of a folder, such as "/data can be written by others", or "". Raises OSError if it does not exist."""
    if not hasattr(os, "geteuid"):
        return ""
    steps = list(_steps(os.path.abspath(folder)))
    for path, state in steps:
        wrong = trouble_of(state, final=path == steps[-1][0])
        if wrong:
            return f"{path} {wrong}"
    return ""


def trouble_of(state: os.stat_result, final: bool) -> str:
    """Describe a problem of one file or folder: `final`, or on the way to another."""
    if not hasattr(os, "geteuid"):
        return ""
    if state.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if state.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(state.st_mode) and (final or not state.st_mode & stat.S_ISVTX):
        return "can be written by others"
    return ""


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every folder and link that a path leads through, from the root; the last is what it names."""
    here, rest, links = os.sep, path.split(os.sep)[::-1], 0
    yield here, os.lstat(here)
    while rest:
        name = rest.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        found = os.path.join(here, name)
        state = os.lstat(found)
        yield found, state
        if not stat.S_ISLNK(state.st_mode):
            here = found
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"{path}: more than {_MOST_LINKS} links")
        target = os.readlink(found)
        here = os.sep if os.path.isabs(target) else here
        rest += target.split(os.sep)[::-1]


def make(folder: str) -> None:
    """Makes a folder, and those above it that are not there, for this user alone. Raises OSError."""
    missing = []
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise


def opener(path: str, flags: int) -> int:
    """Open as `link_opener` does, but follow no link in the last place. For `open`."""
    return link_opener(path, flags | getattr(os, "O_NOFOLLOW", 0))


def link_opener(path: str, flags: int) -> int:
    """Open regular files only, and read bytes as they are on Windows too. For `open`.

    A pipe is opened without waiting for its other end, and closed. Raises OSError, for what is no regular file too.
    """
    file = os.open(path, flags | _FLAGS | getattr(os, "O_BINARY", 0), 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return file
