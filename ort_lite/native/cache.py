"""The on-disk cache of object code: one file per key, verified when read. Several processes may use a folder at once.

The folder is `$ORT_LITE_CACHE_DIR`, else `$XDG_CACHE_HOME/ort-lite/kernels`, else `~/.cache/ort-lite/kernels`. Its contents can be
deleted at any time. Whoever can write to it can run code as its user, so files that others own or could have written are ignored
(`private.py`). An unusable folder costs each process the time to compile, and causes one warning.
"""

import os
from contextlib import suppress
from functools import cache
from time import time

from ort_lite import log
from ort_lite.native import private
from ort_lite.native.digest import SIZE, digest

_MAGIC = b"ort-lite object 1\n"
_HEAD = len(_MAGIC) + SIZE
"""The bytes of a file before its object."""
PROGRAMS = "programs"
"""The folder beside the objects with prepared programs: see `ort_lite.session.prepared`."""
MOST_BYTES = 1 << 28
"""The largest size of an object. Kernels have a few kilobytes."""
DAY = 86400.0
"""A day in seconds."""
_ADVICE = "name a folder of your own in ORT_LITE_CACHE_DIR"


def directory() -> str:
    """Return the folder of cached objects; "" if there is no home folder."""
    override = os.environ.get("ORT_LITE_CACHE_DIR")
    if override:
        return override
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # invalid according to its specification
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ort-lite", "kernels") if os.path.isabs(base) else ""


def read(folder: str, key: str) -> bytes | None:
    """Return the object of a key; None if it is missing, damaged, or could have been written by another user.

    Updates the file's modification time to the last use, to within a day, because not every system keeps access times.
    """
    if not _is_trusted(folder):
        return None
    path = os.path.join(folder, key)
    try:
        file = private.opener(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if trouble := private.trouble_of(found, final=True):
            _say(f"{path} {trouble}: it is not used, and compiled again; `ort-lite cache verify` finds others")
            return None
        if found.st_size > MOST_BYTES:
            return None
        head = os.read(file, _HEAD)
        body = os.read(file, found.st_size)
        if found.st_mtime < time() - DAY:
            with suppress(OSError):  # it may be read-only
                os.utime(path)  # Windows does not accept a descriptor
    except OSError:
        return None
    finally:
        os.close(file)
    return body if head == _head_of(key, body) else None


def state(folder: str) -> int:
    """Return a number that changes when something is written to the folder, which tells if it is worth searching."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def body_of(key: str, data: bytes) -> bytes | None:
    """Return the object in the file of a key; None if it is not what was written."""
    body = data[_HEAD:]
    return body if data[:_HEAD] == _head_of(key, body) else None


def write(folder: str, key: str, body: bytes) -> bool:
    """Store an object. If the folder is not writable, log a warning and return False; the next process then compiles again."""
    import tempfile  # takes 8 ms, which a process that only reads saves

    if not make_folder(folder):
        return False
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=key + ".", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_head_of(key, body))
            file.write(body)
        os.replace(temporary, os.path.join(folder, key))
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        _say(_folder_problem(folder, error))
        return False
    return True


def make_folder(folder: str) -> bool:
    """Create the folder if needed. Return True if it exists and is private."""
    if not folder:
        _say(f"there is no home folder to keep compiled kernels in, so that every process compiles them again: {_ADVICE}")
        return False
    try:
        private.make(folder)
    except OSError as error:
        _say(_folder_problem(folder, error))
        return False
    return _is_trusted(folder)


def _folder_problem(folder: str, error: OSError) -> str:
    why = error.strerror or type(error).__name__
    return f"{folder}: {why}; compiled kernels are not kept there, so that every process compiles them again: {_ADVICE}"


def _is_trusted(folder: str) -> bool:
    """Return True unless another user could have written to the folder, which logs a warning. True if it does not exist."""
    try:
        state = os.stat(folder)
    except OSError:
        return bool(folder)
    trouble = _trouble(folder, state.st_dev, state.st_ino, state.st_mode, state.st_uid)
    if trouble:
        _say(f"{trouble}: compiled kernels are neither kept nor found in {folder}; let nobody else write there, or {_ADVICE}")
    return not trouble


@cache
def _trouble(folder: str, *_state: int) -> str:
    """Describe a problem of the folder or of one of its parents, once per process; "" if there is none."""
    return private.trouble(folder)


_said: dict[str, object] = {}


def _say(text: str) -> None:
    """Log a warning once per process, from whichever thread finds the problem first."""
    here = object()
    if _said.setdefault(text, here) is here:
        log.logger().warning("%s", text)


def _head_of(key: str, body: bytes) -> bytes:
    """Return what precedes an object in its file."""
    return _MAGIC + digest(key.encode(), body)
