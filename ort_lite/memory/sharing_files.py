"""Arrays in files of one folder, named by their bytes: what processes of one host map, they hold once."""

import mmap
import os
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import equal


def mapped(array: Array, folder: str) -> Array:
    """An array with these elements that is mapped from a file of `folder`, which is written if no process has done so; read-only.

    O(bytes). What is found is compared, so that a damaged file gives nobody wrong weights: then it is the array itself. Raises OSError
    where the folder takes no file.
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
    """All of it or nothing: whoever sees the file sees it whole; the first of several that are written stays, so that all map one."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        file.write(data.data)
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, path)
