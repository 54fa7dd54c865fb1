"""The files of a model's external initializers, for writing another model over the same files."""

import os
from contextlib import closing

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.load.external import ExternalData
from ort_lite.load.proto import pb, text
from ort_lite.load.source import read_source
from ort_lite.load.tensor_proto import nbytes_of
from ort_lite.memory.arenas import equal


class Origins:
    """The external initialisers of one model file's main graph."""

    def __init__(self, path: str) -> None:
        """O(structure of the model). Raises what reading a model raises."""
        self._path = path
        with closing(read_source(path)) as source:
            self._entries = {
                tensor.name: [(text(entry.key), text(entry.value)) for entry in tensor.external_data]
                for tensor in source.proto.graph.initializer
                if tensor.data_location == pb.TensorProto.EXTERNAL
            }

    def place(self, name: str, array: Array) -> tuple[str, int] | None:
        """(file, offset) of the bytes of an initialiser; None where they are in no file, or are not those of `array` any more.

        O(bytes). Raises what reading external data raises.
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
