"""Shared assets of a model package: folders with the hash of their files as their name."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from ort_lite.compat.packages.json_text import as_object
from ort_lite.compat.packages.paths import ASSETS, Rules, folder_of, is_uri, split_uri, uri_of
from ort_lite.errors import Fail, InvalidArgument, NoSuchFile, OrtLiteError, Unreadable
from ort_lite.load.files import open_below, words
from ort_lite.native.checkpoint import checkpoint

_PIECE = 2**20  # bytes to copy and hash at a time


def compute_directory_hash(source_dir: str) -> str:
    """Return the URI of a folder as a shared asset, "sha256:" and the hash of the names and contents of its files.

    Empty folders do not count. Raises NoSuchFile if there is no folder, and InvalidArgument for symbolic links and special files.
    """
    return _copy(source_dir, None)


def copy_asset(uri: str, source: str, assets: str) -> None:
    """Copy an asset into the folder of assets, unless it is there. Raises Fail if the source has another hash by now."""
    target = os.path.join(assets, folder_of(uri))
    if os.path.isdir(target):
        return
    staged = f"{target}.tmp.{secrets.token_hex(8)}"
    try:
        os.makedirs(staged)
        found = _copy(source, staged)
        if found != uri:
            raise Fail(f"shared asset {source!r} changed: its hash is {found}, expected {uri}")
        os.rename(staged, target)
    except OrtLiteError:
        raise
    except OSError as error:
        raise Unreadable(f"shared asset {source!r} cannot be copied to {target!r}: {words(error)}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _copy(source: str, target: str | None) -> str:
    """Return the URI of a folder, and copy its files to another one unless that is None. O(bytes)."""
    root = os.path.realpath(source)
    if not os.path.isdir(root):
        raise NoSuchFile(f"shared asset {source!r} is not a directory")
    lines = []
    for name in sorted(_files(root, ""), key=os.fsencode):
        made = None if target is None else os.path.join(target, *name.split("/"))
        lines.append(_hash(root, name, made).encode() + b"  " + os.fsencode(name) + b"\n")
    return f"sha256:{sha256(b''.join(lines)).hexdigest()}"


def _hash(root: str, name: str, target: str | None) -> str:
    """Return the SHA-256 digest of a file in a folder, and copy it unless `target` is None."""
    digest, path = sha256(), os.path.join(root, *name.split("/"))
    try:
        with open_below(root, path) as file:
            pieces = (file.read(at, min(_PIECE, file.size - at)) for at in range(0, file.size, _PIECE))
            if target is not None:
                os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(os.devnull if target is None else target, "wb") as copy:
                for piece in pieces:
                    checkpoint()
                    digest.update(piece)
                    copy.write(piece)
            file.check()
    except OrtLiteError:
        raise
    except OSError as error:
        raise Unreadable(f"shared asset: {path!r} cannot be copied or hashed: {words(error)}") from error
    return digest.hexdigest()


def _files(root: str, below: str) -> Iterator[str]:
    """Yield the files of a folder by their POSIX paths in it. Raises InvalidArgument for links and special files."""
    folders = [below]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                name, mode = f"{folder}{entry.name}", entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    folders.append(f"{name}/")
                elif stat.S_ISREG(mode):
                    yield name
                else:
                    kind = "symlink" if stat.S_ISLNK(mode) else "special file"
                    raise InvalidArgument(f"shared asset: {kind} not allowed: {entry.path!r}")


def shared_assets(manifest: Mapping[str, Any], rules: Rules, pending: Mapping[str, str]) -> dict[str, str]:
    """Return the folders of shared assets by URI: those that the manifest places, those in the package, those to be copied.

    Raises InvalidArgument for URIs and paths that are refused, also through symbolic links.
    """
    found = {}
    for uri, path in as_object(manifest.get(ASSETS, {}), f"manifest: {ASSETS}").items():
        if not is_uri(uri) or not isinstance(path, str):
            raise InvalidArgument(f"manifest: {ASSETS}[{uri!r}] is {path!r}, expected a path by a sha256:<hex> URI")
        found[uri] = rules.resolve(rules.root, path)
    folder = os.path.join(rules.root, ASSETS)
    if rules.root and os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            there = uri_of(name)
            if there is not None and there not in found and os.path.isdir(os.path.join(folder, name)):
                found[there] = rules.resolve(rules.root, f"{ASSETS}/{name}")
    return {**found, **{uri: path for uri, path in pending.items() if uri not in found}}


def resolve_reference(text: str, base: str, rules: Rules, assets: Mapping[str, str], must_exist: bool = False) -> str:
    """Return the path of a reference: a URI of a shared asset, one with a path in it, or a path relative to `base`.

    Raises NoSuchFile for an asset that the package does not have, and the errors of `Rules.resolve`.
    """
    parts = split_uri(text)
    if parts is None:
        return rules.resolve(base, text, must_exist)
    uri, inner = parts
    if uri not in assets:
        raise NoSuchFile(f"Asset URI not declared in this package: {uri!r}")
    folder = assets[uri]
    return Rules(os.path.realpath(folder), True, False, rules.links).resolve(folder, inner, must_exist) if inner else folder
