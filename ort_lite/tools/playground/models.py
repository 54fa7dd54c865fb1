"""The models that a playground offers: those it was started with, and no other file."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ort_lite.errors import InvalidArgument, NoSuchFile

MOST = 2000
"""Models of a folder; who has more names the folder of some of them."""


def models_of(given: Sequence[str]) -> dict[str, Path]:
    """Return model files by display name. A folder stands for all models below it. Raises NoSuchFile and InvalidArgument."""
    found: dict[str, Path] = {}
    for text in given:
        path = Path(text)
        if path.is_dir():
            found |= dict(_inside(path))
        elif path.is_file():
            found[path.name if path.name not in found else str(path)] = path.resolve()
        else:
            raise NoSuchFile(f"{text}: there is no such file or folder")
    if not found:
        raise InvalidArgument(f"{', '.join(given)}: no model in it: a file that ends in .onnx, and is no link to elsewhere")
    if len(found) > MOST:
        raise InvalidArgument(f"{', '.join(given)}: more than {MOST} models; name a folder with fewer")
    return found


def _inside(folder: Path) -> Iterator[tuple[str, Path]]:
    """Return the models in a folder by name, without links that lead outside."""
    root = folder.resolve()
    paths = []
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(parent, name) for name in files if name.endswith(".onnx")]
        if len(paths) > MOST:
            break
    for path in sorted(paths):
        real = path.resolve()
        if real.is_file() and real.is_relative_to(root):
            yield path.relative_to(root).as_posix(), real


def titles(models: Mapping[str, Path]) -> list[dict[str, str | int]]:
    """Return the name and size in bytes of each model."""
    return [{"name": name, "bytes": path.stat().st_size} for name, path in models.items()]
