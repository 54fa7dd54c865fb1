"""Checks that a file is private to this user: that nobody else could have written or replaced it.

Its owner must be this user or root. Others must not have write access to the file, its folder, or a folder on the path with links
resolved, except folders like /tmp in which only owners rename and remove (sticky bit). OpenSSH checks its keys this way too.
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
    """Describe a problem of one file or folder, which is the `final` one or on the path to it; "" if there is none."""
    if not hasattr(os, "geteuid"):
        return ""
    if state.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if state.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(state.st_mode) and (final or not state.st_mode & stat.S_ISVTX):
        return "can be written by others"
    return ""


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every folder and link on a path, from the root; the last one is the target."""
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
    """Create a folder and its missing parents, for this user only. Raises OSError."""
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
    """Open as `link_opener` does, but do not follow a link in the last component. For `open`."""
    return link_opener(path, flags | getattr(os, "O_NOFOLLOW", 0))


def link_opener(path: str, flags: int) -> int:
    """Open regular files only, in binary mode on Windows too. For `open`.

    A pipe is opened without waiting for its other end, and closed. Raises OSError, also for anything but a regular file.
    """
    file = os.open(path, flags | _FLAGS | getattr(os, "O_BINARY", 0), 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return file
