"""Models in files and folders."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite_serve.model import ServedModel

Open = Callable[[str], Any]
"""A function that creates the session of a file."""


def load(paths: Sequence[str], open_session: Open) -> list[ServedModel]:
    """Load a model from each file, named after the file, and the models of each folder.

    A folder has NAME.onnx, or NAME/VERSION/model.onnx, of which the highest version is loaded. Raises InvalidArgument if a
    folder has no model, or two models have one name.
    """
    found: dict[str, ServedModel] = {}
    for path in paths:
        for name, version, file in _files(Path(path)):
            if name in found:
                raise InvalidArgument(f"{file}: another model is called {name!r} already; rename one of the two")
            found[name] = ServedModel(name, open_session(str(file)), version)
    return [*found.values()]


def _files(path: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield (name, version, file) of each model, sorted by name."""
    if not path.is_dir():
        yield path.stem, "1", path
        return
    files = [(file.stem, "1", file) for file in sorted(path.glob("*.onnx"))]
    for folder in sorted(folder for folder in path.iterdir() if folder.is_dir()):
        versions = [file for file in folder.glob("*/model.onnx") if file.parent.name.isdecimal()]
        if versions:
            newest = max(versions, key=lambda file: int(file.parent.name))
            files.append((folder.name, newest.parent.name, newest))
    if not files:
        raise InvalidArgument(f"{path}: neither NAME.onnx nor NAME/VERSION/model.onnx is in it")
    yield from files
