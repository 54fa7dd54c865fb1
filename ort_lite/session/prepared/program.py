"""Reads and stores the prepared program of a session that is created.

A session that qualifies takes the outline of its model first: everything but the large tensors. The entry of its key, if there is
one, says where these tensors are. They are loaded and compared with the digests of the entry, and then the program is read.
"""

import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.errors import format_error
from ort_lite.load.external import ExternalData
from ort_lite.load.source import OutlinedSource
from ort_lite.load.tensor_proto import bytes_in_file, from_span
from ort_lite.log.events import Span
from ort_lite.memory.recipes import Recipes, Replay, recording
from ort_lite.memory.sharing import shared
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.digest import digest as digest_of
from ort_lite.options.options import SessionOptions
from ort_lite.record import asdict
from ort_lite.session.prepared import pickling, sections, store
from ort_lite.session.prepared.key import key_of
from ort_lite.session.prepared.later import MALFORMED
from ort_lite.session.prepared.weights import KEY_BYTES, Digests

SECTIONS = 3 + sections.COUNT
"""The sections of an entry: places of weights, their digests, the key of the digests, and those of the program."""
_DIGEST = 20

Place = tuple[str, Any, int, str, tuple[int, ...]]
"""Kind ("span" or "external"), where, bytes, element type and shape of a large tensor."""


class PreparedProgram:
    """The entry of one session. `source` is the model's source without its large tensors."""

    def __init__(self, source: OutlinedSource, options: SessionOptions, provider: str, objects: Mapping[str, Any]) -> None:
        self.key, self.source, self._objects = key_of(source.data, options, provider), source, objects
        self._options, self.recipes = options, Recipes()
        self.trouble = "there is none"
        """The reason why `read` returned None."""

    def read(self, span: Span) -> Any:
        """Return what was stored, over the weights of this model, and its `Later`; None if there is nothing, or it does not fit.

        Raises the errors of reading weights.
        """
        found = store.read(self.key, SECTIONS)
        if found is None:
            return None
        places, digests, key, *rest = found
        try:
            wanted = _checked(pickling.Reader(places, {}, ()).load(), len(digests), len(key))
        except MALFORMED as error:
            self.trouble = format_error(error)
            return None
        with span("load_weights") as facts:
            weights = self._weights(wanted, bytes(digests), Digests(bytes(key)))
            facts.update(tensors=len(wanted))
        if weights is None:
            return None
        try:
            replay = Replay(digest_of(b"packed", self.key.encode(), key, digests))
            with span("restore_program") as facts:
                made = sections.read(sections.Sections(*rest), self._objects, weights, replay)
                facts.update(packing_us=replay.nanoseconds // 1000)
                return made
        except MALFORMED as error:
            self.trouble = format_error(error)
            return None

    def _weights(self, places: Sequence[Place], digests: bytes, digest: Digests) -> list[Array] | None:
        """Return the large tensors; None if one is not what the program was prepared for."""
        found: list[Array] = []
        replay = Replay(digest_of(b"weights", self.key.encode(), digest.key, digests))
        source = self.source
        folder = None if source.path is None else os.path.dirname(source.path) or "."
        with closing(ExternalData(folder, source.path)) as external:
            for number, (kind, where, nbytes, dtype, shape) in enumerate(places):
                checkpoint()
                if kind == "span":
                    if where not in source.spans:
                        return None
                    span = source.read(*where)
                else:
                    span = external.read(where, nbytes, f"initialiser {number}")
                array = from_span(span, dtype, shape)
                array.setflags(write=False)
                if digest(array) != digests[number * _DIGEST : (number + 1) * _DIGEST]:
                    self.trouble = "weights have changed"
                    return None
                found.append(replay.next(partial(shared, array)))
            external.check()
        source.check()
        return found

    def write(self, made: Any) -> str:
        """Store what was created. Return "" or the reason why it is not stored."""
        recipes = self.recipes
        if recipes.refusals:
            return recipes.refusals[0]
        try:
            with recording(None):
                written = sections.write(made, recipes, self._objects)
        except _UNSTORABLE as error:
            return format_error(error)
        digest = Digests()
        digests = b"".join([digest(array) for _, array in recipes.loaded])
        places = pickle.dumps([place for place, _ in recipes.loaded], protocol=5)
        parts = [places, digests, digest.key, *asdict(written).values()]
        return "" if store.write(self.key, parts) else "its folder cannot be written, or it is too large"


def _checked(places: Any, digests: int, key: int) -> list[Place]:
    """Return the places of weights. Raises UnpicklingError unless they are some, with a digest each."""
    fine = isinstance(places, list) and digests == len(places) * _DIGEST and key == KEY_BYTES
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


_UNSTORABLE = (pickle.PickleError, TypeError, ValueError, AttributeError, RecursionError, KeyError)
