"""Tensors between processes of one host: files in its memory, written once, mapped by who reads them.

Nothing is written a second time: a reader may keep what it has mapped for as long as it wants, also of a run that has failed.
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
"""Bytes up to which a tensor travels in the message itself."""


Header = list[Any]
"""A tensor in a file: path, element type, shape."""


def read(value: Array | Header) -> Array:
    """Mapped, where it is in a file: nobody may write to it."""
    if not isinstance(value, list):
        return value
    path, dtype, shape = value
    with open(path, "rb") as file:
        size = math.prod(shape) * to_numpy(dtype).itemsize
        mapped = mmap.mmap(file.fileno(), size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
    return np.frombuffer(mapped, np.uint8).view(to_numpy(dtype)).reshape(shape)


def taken(value: Array | Header) -> Array:
    """Copied, where it is in a file."""
    return read(value).copy() if isinstance(value, list) else value


def write(array: Array, path: str | None) -> Array | Header:
    """The array itself where it is small, or of Python objects, or where there is no path, no room, no folder for it any more."""
    if path is None or array.nbytes <= _SMALL or array.dtype.hasobject:
        return array
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)  # over what is there: its pages are used again
        try:
            _write_all(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        finally:
            os.close(file)
    except OSError:
        return array
    return [path, from_numpy(array.dtype), [*array.shape]]


def _write_all(file: int, given: memoryview) -> None:
    """The system takes at most 2 GiB at once."""
    while given:
        given = given[os.write(file, given) :]


class Memory:
    """`path`, a folder in this host's memory for as long as this object lives; None where the host has none. Each run has one in it."""

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
        """A folder that no other run has until this one ends. None: there is none.

        After a run that has its results nobody reads there any more, and another one writes over it. After one that has failed
        some stage may still read there: the files go, what is mapped stays, and who writes to what is gone finds no folder.
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
