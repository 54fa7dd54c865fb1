"""Paths of a model package, which lead to files inside the package unless the caller allows others."""

import os
import re

from ort_lite.errors import InvalidArgument, InvalidType, NoSuchFile, OrtLiteError, Unreadable
from ort_lite.load.files import is_below, open_below, open_file, words
from ort_lite.record import Record

MOST_BYTES = 2**22
"""The size limit of a package's JSON file."""
ASSETS = "shared_assets"
_ASSET = re.compile(r"(sha256:[0-9a-f]{64})(?:/(.*))?", re.DOTALL)
_URI, _FOLDER = re.compile(r"sha256:[0-9a-f]{64}"), re.compile(r"sha256-[0-9a-f]{64}")


class Rules(Record):
    """The paths that a package may use.

    `root` is the real path of its folder, "" before the first commit. A `portable` package has neither absolute paths nor "..".
    `external` is the caller's permission for paths that leave the package. Without `links`, symbolic links are refused.
    """

    root: str = ""
    portable: bool = True
    external: bool = False
    links: bool = True

    def resolve(self, base: str, path: str, must_exist: bool = False) -> str:
        """Return the real path of `path`, which is relative to the real path `base`.

        Raises InvalidArgument for a path that is refused, and NoSuchFile.
        """
        if not path or "\0" in path:
            raise InvalidArgument(f"model package: the path {path!r} is empty or has a null character")
        if not self.external and self.portable:
            _check_portable(path)
        joined = os.path.join(base, path)
        there = os.path.exists(joined)
        real = os.path.realpath(joined) if there or self.root else os.path.normpath(joined)
        self.check(real)
        if not self.links and self.root and real != os.path.normpath(joined):
            raise InvalidArgument(f"model package: {joined!r} has a symbolic link on its way, and follow_symlinks is False")
        if must_exist and not there:
            raise NoSuchFile(f"model package: {joined!r} does not exist")
        return real

    def check(self, real: str) -> None:
        """Raise InvalidArgument for a real path outside of the package, unless the caller allows it."""
        if not self.external and self.root and not is_below(self.root, real):
            raise InvalidArgument(
                f"model package: {real!r} is outside of the package {self.root!r}; allow_external_paths=True allows that"
            )

    def read(self, path: str) -> str:
        """Return the text of a file that `resolve` returned. Raises NoSuchFile, Unreadable, and InvalidArgument if it is too large."""
        try:
            with open_below(self.root, path) if is_below(self.root, path) else open_file(path) as file:
                if file.size > MOST_BYTES:
                    raise InvalidArgument(f"model package: {path!r} has {file.size:,} bytes, expected {MOST_BYTES:,} at most")
                data = file.whole()
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"model package: {path!r} is not UTF-8: {error}") from error
        except OrtLiteError:
            raise
        except FileNotFoundError as error:
            raise NoSuchFile(f"model package: {path!r} cannot be read: {words(error)}") from error
        except OSError as error:
            raise Unreadable(f"model package: {path!r} cannot be read: {words(error)}") from error


def _check_portable(path: str) -> None:
    """Raise InvalidArgument for a path that a portable package may not have."""
    if os.path.isabs(path) or path.startswith("/") or os.path.splitdrive(path)[0]:
        raise InvalidArgument(f"model package: the absolute path {path!r} is not allowed in portable layout")
    if ".." in path.replace(os.sep, "/").split("/"):
        raise InvalidArgument(f"model package: '..' segments are not allowed in portable layout: {path!r}")


def is_uri(text: str) -> bool:
    """Return True for the URI of a shared asset."""
    return _URI.fullmatch(text) is not None


def folder_of(uri: str) -> str:
    """Return the name of a shared asset's folder."""
    return uri.replace(":", "-", 1)


def uri_of(folder: str) -> str | None:
    """Return the URI of the shared asset in a folder; None for other folders."""
    return folder.replace("-", ":", 1) if _FOLDER.fullmatch(folder) else None


def split_uri(text: str) -> tuple[str, str] | None:
    """Split a reference into the URI of a shared asset and the path in it; None for other references."""
    found = _ASSET.fullmatch(text)
    return None if found is None else (found[1], found[2] or "")


def as_text(value: object, what: str) -> str:
    """Return a text or path as text. Raises InvalidType for others, and InvalidArgument for text that JSON cannot store."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise InvalidType(f"model package: {what} came as {type(value).__name__}, expected str")
    if "\0" in text or (not text.isascii() and text.encode("utf-8", "replace").decode() != text):
        raise InvalidArgument(f"model package: {what} {text!r} has a null character or is not Unicode text")
    return text
