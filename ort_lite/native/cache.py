"""Object code on disk: one file a key, checked when read. Several processes may use one folder at once.

`$ORT_LITE_CACHE_DIR`, else `$XDG_CACHE_HOME/ort-lite/kernels`, else `~/.cache/ort-lite/kernels`. Everything in it can be
deleted at any time. Whoever can write there can run code as its user: what others own or could have written to is not used
(`private.py`). A folder that cannot be used costs each process the time to compile, and a warning, once.
"""

import os
from contextlib import suppress
from functools import cache
from time import time

from ort_lite import log
from ort_lite.native import private
from ort_lite.native.digest import SIZE, digest

_MAGIC = b"ort-lite object 1\n"
MOST_BYTES = 1 << 28
"""Size limit of an object. Kernels have a few kilobytes."""
DAY = 86400.0
"""In seconds."""
_ADVICE = "name a folder of your own in ORT_LITE_CACHE_DIR"


def directory() -> str:
    """Return the folder of cached objects; "" if there is no home to keep them in."""
    override = os.environ.get("ORT_LITE_CACHE_DIR")
    if override:
        return override
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # which its specification calls invalid
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ort-lite", "kernels") if os.path.isabs(base) else ""


def read(folder: str, key: str) -> bytes | None:
    """The object of a key; None if there is none, or none that is intact and nobody else's.

    Its time of change becomes that of its last use, to within a day: times of access are not kept everywhere.
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
        data = os.read(file, found.st_size) if found.st_size <= MOST_BYTES else b""
        if found.st_mtime < time() - DAY:
            with suppress(OSError):  # one that can only be read
                os.utime(path)  # Windows takes no descriptor
    except OSError:
        return None
    finally:
        os.close(file)
    return body_of(key, data)


def state(folder: str) -> int:
    """Another number when something has been written meanwhile: a look into the folder is worth it."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def body_of(key: str, data: bytes) -> bytes | None:
    """The object in the file of a key; None if it is not what was written."""
    start = len(_MAGIC) + SIZE
    body = data[start:]
    return body if data[:start] == _MAGIC + _digest(key, body) else None


def write(folder: str, key: str, body: bytes) -> bool:
    """Keeps an object. False if the folder cannot be written: then the next process compiles again, and a warning says so."""
    import tempfile  # 8 ms that a process does without if it only reads

    if not make_folder(folder):
        return False
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=key + ".", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(key, body) + body)
        os.replace(temporary, os.path.join(folder, key))
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        _say(_folder_problem(folder, error))
        return False
    return True


def make_folder(folder: str) -> bool:
    """True once the folder is there and private."""
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
    """False, with a warning, for a folder that somebody else could have written to. True for one that is not there."""
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
    """Describe a problem of the folder, or of one on the way to it; looked at once a process."""
    return private.trouble(folder)


_said: dict[str, object] = {}


def _say(text: str) -> None:
    """Once a process, whatever number of threads find it out."""
    here = object()
    if _said.setdefault(text, here) is here:
        log.logger().warning("%s", text)


def _digest(key: str, body: bytes) -> bytes:
    return digest(key.encode(), body)
