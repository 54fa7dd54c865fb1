"""Tensors passed between processes of one host: files in its memory, written once and mapped by their readers.

No file is overwritten while it may be read: a reader may keep what it has mapped, even of a run that failed.
"""

import math
import mmap
import os
import shutil
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ort_lite.dtypes import from_numpy, to_numpy
from ort_lite_ray.host import claim
from ort_lite_ray.rows import Array

_MEMORY = Path("/dev/shm")
_SMALL = 16 << 10
"""The most bytes of a tensor that is sent in the message itself."""


Header = list[Any]
"""A tensor in a file: path, element type, shape."""


def read(value: Array | Header) -> Array:
    """Return a tensor. One that is in a file is mapped read-only."""
    if not isinstance(value, list):
        return value
    path, dtype, shape = value
    with open(path, "rb") as file:
        size = math.prod(shape) * to_numpy(dtype).itemsize
        mapped = mmap.mmap(file.fileno(), size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
    return np.frombuffer(mapped, np.uint8).view(to_numpy(dtype)).reshape(shape)


def copy_out(value: Array | Header) -> Array:
    """Return a tensor. One that is in a file is copied."""
    return read(value).copy() if isinstance(value, list) else value


def write(array: Array, path: str | None) -> Array | Header:
    """Write an array to a file and return its header.

    Returns the array itself if it is small or of Python objects, or if there is no path, no room or no folder.
    """
    if path is None or array.nbytes <= _SMALL or array.dtype.hasobject:
        return array
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)  # without O_TRUNC, so that its pages are reused
        try:
            _write_all(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        finally:
            os.close(file)
    except OSError:
        return array
    return [path, from_numpy(array.dtype), [*array.shape]]


def _write_all(file: int, given: memoryview) -> None:
    """Write all bytes. The system writes at most 2 GiB at once."""
    while given:
        given = given[os.write(file, given) :]


class MemoryFolder:
    """A folder in this host's memory, which exists as long as this object; `path` is None if the host has none."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._numbers = count()
        self._free: list[str] = []
        with suppress(OSError):
            if _MEMORY.is_dir():
                self.path, held = claim(_MEMORY / f"ort-lite-ray-tensors-{os.getuid()}", uuid.uuid4().hex)
                weakref.finalize(self, _release, self.path, held)

    @contextmanager
    def run(self) -> Iterator[str | None]:
        """Yield a folder for one run, or None if there is none.

        After a successful run nothing reads its files any more, and a later run overwrites them. After a failed run some
        stage may still read them, so the folder is deleted: mapped files stay readable, and late writers find no folder.
        """
        folder = self._folder()
        try:
            yield folder
        except BaseException:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        if folder is not None:
            self._free.append(folder)

    def _folder(self) -> str | None:
        with suppress(IndexError):
            return self._free.pop()
        with suppress(OSError):
            if self.path is not None:
                folder = f"{self.path}/{next(self._numbers)}"
                os.mkdir(folder)
                return folder
        return None


def _release(path: Path, held: Any) -> None:
    shutil.rmtree(path, ignore_errors=True)
    held.close()
