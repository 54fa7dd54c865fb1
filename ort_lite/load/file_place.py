"""Places in files from which tensors can be read again, as long as the file is the one that was loaded."""

import errno
from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import Fail
from ort_lite.load.files import Changed, OpenFile, open_file, words
from ort_lite.load.spans import ByteSpan, span_of
from ort_lite.memory.recipes import Recipes
from ort_lite.options.config_keys import KEEP_CONSTANTS
from ort_lite.record import Record

_LEAST = 1 << 16
"""Bytes of a tensor from which on its place is noted."""


class FilePlace(Record):
    """A range of bytes in a file that is known by its identity: device, inode, size and times."""

    path: str
    identity: tuple[int, ...]
    offset: int
    nbytes: int

    def read(self) -> ByteSpan:
        """Read the bytes into memory of their own. Raises Fail if the file is gone, or is no longer the same."""
        try:
            with open_file(self.path) as file:
                if file.identity != self.identity:
                    raise Changed(errno.EIO, "it changed since the model was loaded", self.path)
                return read_span(file, self.offset, self.nbytes)
        except OSError as error:
            raise Fail(
                f"a weight of {self.nbytes:,} bytes was given up when the session was made, and cannot be read from {self.path} again: "
                f"{words(error)}; the config entry {KEEP_CONSTANTS} = '1' keeps weights in memory"
            ) from error


def read_span(file: OpenFile, offset: int, nbytes: int) -> ByteSpan:
    """Read bytes into an owned span, which knows its place if it is large. Raises OSError, Changed and OutOfMemory."""
    span = ByteSpan.of_array(file.array(offset, nbytes))
    if nbytes >= _LEAST:
        span.read_again = FilePlace(file.path, file.identity, offset, nbytes).read
    return span


class FileReader(Record):
    """A function that reads an array from its file again."""

    read: Callable[[], ByteSpan]
    dtype: DType
    shape: tuple[int, ...]

    def __call__(self) -> Array:
        return self.read().array(self.dtype, self.shape)


class DerivedReader(Record):
    """A function that computes an array again, from small arrays and from what its other arguments read."""

    function: Callable[..., Array]
    arguments: tuple[Any, ...]

    def __call__(self) -> Array:
        return self.function(*[each() if isinstance(each, FileReader | DerivedReader) else each for each in self.arguments])


def reader_of(array: Array, recipes: Recipes | None = None) -> FileReader | DerivedReader | None:
    """Return the reader of an array that a file has, or that was derived from such arrays by `recipes`. None for any other."""
    span = span_of(array)
    read = None if span is None or span.nbytes != array.nbytes or not array.flags.c_contiguous else span.read_again
    if read is not None:
        return FileReader(read, from_numpy(array.dtype), array.shape)
    derivation = None if recipes is None else recipes.derivation(array)
    if derivation is None:
        return None
    function, given = derivation
    arguments = tuple(_to_read_again(each, recipes) for each in given)
    return None if any(each is None for each in arguments) else DerivedReader(function, arguments)


def _to_read_again(argument: Any, recipes: Recipes | None) -> Any:
    """Return an argument of a function, its reader if it is a large array, or None if it may hold one."""
    if isinstance(argument, np.ndarray):
        return reader_of(argument, recipes) if argument.nbytes >= _LEAST else argument.copy()
    return argument if isinstance(argument, bool | int | float | str) else None
