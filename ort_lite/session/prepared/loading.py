"""Loading of a model's tensors for a prepared program, each when somebody first asks for it, and their comparison with the entry."""

import os
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.load.external import ExternalData
from ort_lite.load.file_place import reader_of
from ort_lite.load.source import OutlinedSource
from ort_lite.load.tensor_proto import bytes_in_file, from_span
from ort_lite.memory.arenas import CACHE_LINE, address_of, owns_bytes
from ort_lite.memory.recipes import Replay
from ort_lite.memory.sharing import shared
from ort_lite.native.checkpoint import checkpoint
from ort_lite.session.prepared.weights import KEY_BYTES, Digests

DIGEST = 20
"""The bytes of a digest."""

Place = tuple[str, Any, int, str, tuple[int, ...]]
"""Kind ("span" or "external"), where, bytes, element type and shape of a large tensor."""


StoredRow = tuple[int, np.dtype[Any], tuple[int, ...], int, bool]
"""Number, type, shape, first byte and writeability of an array whose elements are stored."""


class WeightsChanged(pickle.UnpicklingError):
    """A tensor is not the one that the program was created with."""


class Loader:
    """Loads the tensors of a model by number. `close` ends its access to files."""

    def __init__(
        self, source: OutlinedSource, places: Sequence[Place], digests: bytes, digest: Digests, replay: Replay
    ) -> None:
        self._source, self._places, self._digests, self._digest, self._replay = source, places, digests, digest, replay
        folder = None if source.path is None else os.path.dirname(source.path) or "."
        self._external = ExternalData(folder, source.path)
        self.count = len(places)
        self.nanoseconds = 0
        """The time that loading and comparing took so far."""

    def load(self, number: int, lasting: bool) -> Array:
        """Return a tensor, one that a living session has if it is `lasting`. Raises WeightsChanged, and the errors of reading it."""
        checkpoint()
        begin = perf_counter_ns()
        kind, where, nbytes, dtype, shape = self._places[number]
        if kind == "span":
            if where not in self._source.spans:
                raise WeightsChanged("weights have changed their places")
            span = self._source.read(*where)
        else:
            span = self._external.read(where, nbytes, f"initialiser {number}")
        array = from_span(span, dtype, shape)
        array.setflags(write=False)
        if self._digest(array) != self._digests[number * DIGEST : (number + 1) * DIGEST]:
            raise WeightsChanged("weights have changed")
        found = self._replay.get(number, partial(shared, array)) if lasting else array
        self.nanoseconds += perf_counter_ns() - begin
        return found

    def check(self) -> None:
        """Raise Fail if a file has changed since it was opened, since tensors may then be of two versions."""
        self._external.check()
        self._source.check()

    def close(self) -> None:
        """Close the open file of external data."""
        self._external.close()


class Arrays:
    """The arrays of a program by number: first the tensors of the model, which are loaded when somebody asks for one."""

    def __init__(self, loader: Loader, lasting: Collection[int], read_again: Collection[int]) -> None:
        """`lasting` are the numbers of arrays that the session keeps.

        `read_again` are those of others of which it needs no more than a function that reads them again.
        """
        self._loader: Loader | None = loader
        self._waiting, self._lasting = set(range(loader.count)), set(lasting)
        self._found: dict[int, Array] = {}
        self._readers: dict[int, Any] = dict.fromkeys(read_again)
        self.nanoseconds = 0
        """The time that creating arrays took so far."""

    def __getitem__(self, number: int) -> Array:
        found = self._found.get(number)
        if found is not None:
            return found
        if number not in self._waiting or self._loader is None:
            raise pickle.UnpicklingError(f"array {number} is gone")
        found = self._loader.load(number, number in self._lasting)
        self._found[number] = found
        self._waiting.remove(number)
        if number in self._readers:
            self._readers[number] = reader_of(found) or found
        return found

    def unpack(self, rows: Sequence[StoredRow], elements: bytes) -> None:
        """Add the arrays that `pack_arrays` wrote, each at a cache line. None is a view of an array that holds all of them."""
        memory = bytearray(len(elements) + CACHE_LINE)
        skip = -address_of(np.frombuffer(memory, np.uint8)) % CACHE_LINE
        memory[skip : skip + len(elements)] = elements
        for number, dtype, shape, start, writeable in rows:
            array: Array = np.ndarray(shape, dtype, memory, skip + start)
            array.setflags(write=writeable)
            self._found[number] = array

    def make(self, number: int, function: Callable[..., Array], arguments: Sequence[Any]) -> None:
        """Add the array that a function returns. One that lasts is shared with other sessions."""
        begin = perf_counter_ns()
        made = function(*arguments)
        if number in self._lasting and not made.flags.writeable and owns_bytes(made):
            made = shared(made)
        self._found[number] = made
        self.nanoseconds += perf_counter_ns() - begin

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget arrays that nothing will refer to any more."""
        for number in numbers:
            self._found.pop(number, None)

    def finish(self, kept: Sequence[int]) -> dict[int, Any]:
        """Load the tensors that nobody has asked for, which were read when the program was created, and forget all but `kept`.

        Return what reads tensors again by number: a function, or the tensor itself if it came from no file.
        """
        needed = set(kept)
        for number in sorted(self._waiting):
            self[number]
            if number not in needed:
                del self._found[number]
        self._loader, self._found = None, {number: array for number, array in self._found.items() if number in needed}
        return self._readers


def pack_arrays(stored: Mapping[int, Array]) -> tuple[list[StoredRow], bytes]:
    """Return the rows of arrays by number, and their elements, one array after the other from multiples of a cache line."""
    rows, pieces, start = list[StoredRow](), list[bytes](), 0
    for number, array in stored.items():
        rows.append((number, array.dtype, array.shape, start, array.flags.writeable))
        padded = -(-array.nbytes // CACHE_LINE) * CACHE_LINE
        pieces.append(array.tobytes().ljust(padded, b"\0"))
        start += padded
    return rows, b"".join(pieces)


def check_places(places: Any, digests: int, key: int) -> list[Place]:
    """Return the places of weights. Raises UnpicklingError unless they are some, with a digest each."""
    fine = isinstance(places, list) and digests == len(places) * DIGEST and key == KEY_BYTES
    for place in places if fine else ():
        kinds = tuple(map(type, place)) if type(place) is tuple else ()
        fine = fine and kinds == (str, tuple, int, str, tuple) and place[0] in ("span", "external")
        fine = fine and all(type(dim) is int and dim >= 0 for dim in place[4])
        fine = fine and place[2] == bytes_in_file(place[3], place[4])
        if place[0:1] == ("span",):
            fine = fine and len(place[1]) == 2 and place[1][1] - place[1][0] == place[2]
        else:
            fine = fine and all(type(each) is tuple and len(each) == 2 and {*map(type, each)} == {str} for each in place[1])
    if not fine:
        raise pickle.UnpicklingError("its weights are not described")
    found: list[Place] = places
    return found
