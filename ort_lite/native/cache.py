"""Object code on disk: one file a key, checked when read. Several processes may use one folder at once.

`$ORT_LITE_CACHE_DIR`, else `$XDG_CACHE_HOME/ort-lite/kernels`, else `~/.cache/ort-lite/kernels`. Everything in it can be
deleted at any time. The folder is private to its user: whoever can write there can run code as that user. One that
others own or can write to is not used, with a warning.
"""

import os
import stat
import warnings

from ort_lite.native.digest import SIZE, digest

_MAGIC = b"ort-lite object 1\n"


def directory() -> str:
    """Where objects are kept."""
    override = os.environ.get("ORT_LITE_CACHE_DIR")
    if override:
        return override
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ort-lite", "kernels")


def read(folder: str, key: str) -> bytes | None:
    """The object of a key; None if there is none, or none that is intact."""
    if not _is_private(folder):
        return None
    try:
        with open(os.path.join(folder, key), "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    start = len(_MAGIC) + SIZE
    body = data[start:]
    if data[:start] != _MAGIC + _digest(key, body):
        return None
    return body


def write(folder: str, key: str, body: bytes) -> bool:
    """Keeps an object. False if the folder cannot be written: then the next process compiles again."""
    import tempfile  # 8 ms that a process does without if it only reads

    temporary = None
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_private(folder):
            return False
        handle, temporary = tempfile.mkstemp(prefix=key + ".", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(key, body) + body)
        os.replace(temporary, os.path.join(folder, key))
    except OSError:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        return False
    return True


def _is_private(folder: str) -> bool:
    try:
        state = os.stat(folder)
    except OSError:
        return True  # made when the first object is written
    private = state.st_uid in (0, os.getuid()) and not state.st_mode & stat.S_IWOTH
    if not private:
        warnings.warn(
            f"{folder} belongs to another user, or can be written by others: compiled kernels are not kept there. "
            "Name a folder of your own in ORT_LITE_CACHE_DIR.",
            stacklevel=2,
        )
    return private


def _digest(key: str, body: bytes) -> bytes:
    return digest(key.encode(), body)
