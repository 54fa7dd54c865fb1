"""The key of a prepared program: everything that decides how a session is created, besides the contents of large tensors."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ort_lite._version import __version__
from ort_lite.native import store
from ort_lite.native.cpu import host
from ort_lite.native.digest import digest
from ort_lite.native.spec import base
from ort_lite.options.options import SessionOptions
from ort_lite.session.prepared.functions import PACKAGES

FORMAT = 4
"""Increased when entries of the same key would be read in another way."""
DISTRIBUTIONS = frozenset({"google_re2", "llvmlite", "ml_dtypes", "numba", "numpy", "onnx", "protobuf"})
"""The packages besides ort-lite's own that take part in the creation of a session."""


def key_of(outline: bytes, options: SessionOptions, provider: str, code: bytes | None = None) -> str:
    """Return the key of the model with this outline (see `ort_lite.load.wire`), as the name of a file: 40 hexadecimal digits.

    `provider` describes the provider's options; `code` is the digest of the code, by default of that of this process.
    """
    parts = repr((FORMAT, versions(), plain_options(options), provider, host())).encode()
    code = code_digest() if code is None else code
    return store.key_of(b"prepared program", base(), code, b"%d " % len(parts), parts, outline)


def versions() -> tuple[str, ...]:
    """Return the versions that programs depend on."""
    return __version__, np.__version__, sys.version, *distributions(tuple(sys.path))


@cache
def distributions(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the versions of DISTRIBUTIONS in the folders, as the names of their dist-info folders. Imports none of them."""
    found: list[str] = []
    for folder in folders:
        with suppress(OSError):
            names = [name for name in os.listdir(folder or os.curdir) if name.endswith("-info")]
            found += sorted(name for name in names if name.partition("-")[0] in DISTRIBUTIONS)
    return tuple(found)


def plain_options(options: SessionOptions) -> list[tuple[str, Any]]:
    """Return all options of a session as plain data."""
    values: list[tuple[str, Any]] = [(name, getattr(options, name)) for name in _plain_names(type(options).__mro__)]
    return [*values, ("config", sorted(options.config_entries.items())), ("dimensions", options.free_dimensions)]


@cache
def _plain_names(kinds: tuple[type, ...]) -> tuple[str, ...]:
    """Return the names of plain attributes of a class, given as it and its bases."""
    plain = (bool, int, float, str)
    names = {name for kind in kinds for name in vars(kind) if name[0] != "_"}
    return tuple(sorted(name for name in names if isinstance(getattr(kinds[0], name), plain)))


@cache
def code_digest() -> bytes:
    """Return a digest of paths, sizes and times of the source files of all packages that take part. Once a process: 4 ms."""
    specs = map(find_spec, PACKAGES)  # imports nothing
    return digest_of_folders([folder for spec in specs if spec is not None for folder in spec.submodule_search_locations or ()])


def digest_of_folders(folders: Sequence[str]) -> bytes:
    """Return a digest of the paths, sizes and times of Python files in folders."""
    rows = [row for folder in folders for row in _rows(folder)]
    return digest(repr(sorted(rows)).encode())


def _rows(folder: str) -> Iterator[tuple[str, int, int]]:
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.name.endswith((".py", ".txt")):
                    state = entry.stat()
                    yield entry.path, state.st_size, state.st_mtime_ns
