"""Reads and stores the prepared program of a session that is created.

A session that qualifies takes the outline of its model first: everything but the large tensors. The entry of its key, if there is
one, says where these tensors are. Each is loaded, compared with its digest, and used at once: once it is packed, it can be freed.
"""

import pickle
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ort_lite.errors import format_error
from ort_lite.load.source import OutlinedSource
from ort_lite.log.events import Span
from ort_lite.memory.recipes import Recipes, Replay, recording
from ort_lite.native.digest import digest as digest_of
from ort_lite.options.options import SessionOptions
from ort_lite.record import asdict
from ort_lite.session.prepared import pickling, sections, store
from ort_lite.session.prepared.key import key_of
from ort_lite.session.prepared.later import MALFORMED
from ort_lite.session.prepared.loading import Loader, WeightsChanged, check_places
from ort_lite.session.prepared.weights import Digests

_UNSTORABLE = (pickle.PickleError, TypeError, ValueError, AttributeError, RecursionError, KeyError)
SECTIONS = 3 + sections.COUNT
"""The sections of an entry: places of weights, their digests, the key of the digests, and those of the program."""


class PreparedProgram:
    """The entry of one session. `source` is the model's source without its large tensors."""

    def __init__(self, source: OutlinedSource, options: SessionOptions, provider: str, objects: Mapping[str, Any]) -> None:
        self.key, self.source, self._objects = key_of(source.data, options, provider), source, objects
        self._options, self.recipes = options, Recipes()
        self.trouble = "there is none"
        """The reason why `read` returned None."""
        self.tensors = 0
        """The number of large tensors that `read` loaded."""

    def read(self, span: Span) -> Any:
        """Return what was stored, over the weights of this model, and its `Later`; None if there is nothing, or it does not fit."""
        found = store.read(self.key, SECTIONS)
        if found is None:
            return None
        places, *rest = found
        digests, key = map(bytes, rest[:2])
        whole = self.key.encode(), key, digests
        replay = Replay(digest_of(b"packed", *whole))
        try:
            described = check_places(pickling.Reader(places.open(), {}, ()).load(), len(digests), len(key))
            weights = Replay(digest_of(b"weights", *whole))
            with closing(Loader(self.source, described, digests, Digests(key), weights)) as loader:
                with span("restore_program") as facts:
                    made, packing = sections.read(sections.Sections(*rest[2:]), self._objects, loader, replay)
                    self.tensors = loader.count
                    facts.update(tensors=loader.count, weights_us=loader.nanoseconds // 1000, packing_us=packing // 1000)
                loader.check()
            return made
        except MALFORMED as error:
            self.trouble = str(error) if isinstance(error, WeightsChanged) else format_error(error)
            return None

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
