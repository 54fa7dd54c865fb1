"""Arrays in files of one folder, named by their bytes: what processes of one host map, they hold once."""

import mmap
import os
import tempfile
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ort_lite.memory.sharing import Array, equal


def mapped(array: Array, folder: Path) -> Array:
    """An array with these elements that is mapped from a file of `folder`, which is written if no process has done so; read-only.

    O(bytes). Of processes that write the same one at once, either file is right. What is found is compared, so that a damaged file,
    or one cut short by a disk that is full, gives nobody wrong weights: then it is the array itself.
    """
    data = array.reshape(-1).view(np.uint8)
    path = folder / f"{blake2b(data.data, digest_size=20).hexdigest()}.weights"
    if not path.exists():
        _write(data, path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != array.nbytes:
            return array
        pages = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    return pages.view(array.dtype).reshape(array.shape) if equal(pages, data) else array


def _write(data: Array, path: Path) -> None:
    """All of it or nothing: whoever sees the file sees it whole."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data.data)
    Path(file.name).replace(path)
