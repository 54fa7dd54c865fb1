"""Arrays in files of one folder, named by a hash of their bytes, so that processes on one host map the same memory."""

import mmap
import os
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import equal


def map_array(array: Array, folder: str) -> Array:
    """Return an equal read-only array that is mapped from a file of `folder`, which is written if it does not exist.

    The contents of an existing file are compared: if it is damaged, the result is `array` itself. O(bytes). Raises OSError if the
    file cannot be written.
    """
    data = array.reshape(-1).view(np.uint8)
    path = Path(folder) / f"{blake2b(data.data, digest_size=20).hexdigest()}.weights"
    if not path.exists():
        _write(data, path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != array.nbytes:
            return array
        pages = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    return pages.view(array.dtype).reshape(array.shape) if equal(pages, data) else array


def _write(data: Array, path: Path) -> None:
    """Write the file atomically. If several processes write it, the first wins, so that all of them map the same one."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        file.write(data.data)
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, path)
