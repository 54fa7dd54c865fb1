"""The locations of a model's external initializers, for writing another model over the same files."""

import os
from contextlib import closing

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.load.external import ExternalData
from ort_lite.load.proto import pb, text
from ort_lite.load.source import read_source
from ort_lite.load.tensor_proto import nbytes_of
from ort_lite.memory.arenas import equal


class InitializerFiles:
    """The external initializers of a model file's main graph."""

    def __init__(self, path: str) -> None:
        """Read the locations. O(structure of the model). Raises the errors of reading a model."""
        self._path = path
        with closing(read_source(path)) as source:
            self._entries = {
                tensor.name: [(text(entry.key), text(entry.value)) for entry in tensor.external_data]
                for tensor in source.proto.graph.initializer
                if tensor.data_location == pb.TensorProto.EXTERNAL
            }

    def place(self, name: str, array: Array) -> tuple[str, int] | None:
        """Return (file, offset) of an initializer's bytes; None if it is not external or differs from `array`.

        O(bytes). Raises the errors of reading external data.
        """
        entries = self._entries.get(name)
        if entries is None or nbytes_of(array) != array.nbytes:
            return None
        who = f"initialiser {name!r}"
        with closing(ExternalData(os.path.dirname(self._path) or ".", self._path)) as files:
            path, offset, length = files.place(entries, array.nbytes, who)
            if length != array.nbytes:
                return None
            there = files.read(entries, array.nbytes, who).array()
        return (path, offset) if equal(there, np.ascontiguousarray(array).reshape(-1).view(np.uint8)) else None
