"""Kernel packs: files of precompiled objects, from which a process reads those that it needs.

A pack is package data of `ort_lite_kernels` and as trusted as the code of that package. It is searched by key before the user's
cache, so nothing is compiled and no compiler is needed. Objects are stored in the form that memory needs: pieces, relocations and
names. An object file has as many bytes again of tables that linking ignores.

    magic, base (20 bytes), size of the file, number of objects; keys in order, 20 bytes each; offset, size and digest of each
    object; objects, each once

`base` is the digest of everything that all keys depend on, and of ort-lite's version. With another base, hardly any key would be
found, which is logged once. All numbers are little-endian.
"""

import os
import struct
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ort_lite._version import __version__
from ort_lite.errors import KernelLoadError
from ort_lite.log import warn
from ort_lite.native import elf, object_linking, private
from ort_lite.native.cpu import host
from ort_lite.native.digest import SIZE, digest
from ort_lite.native.elf import BrokenObject, Object, Place, Relocation
from ort_lite.native.spec import base

PACKAGE = "ort_lite_kernels"
MAGIC = b"ort-lite kernels"
_HEAD = struct.Struct(f"<16s{SIZE}sQI")
_ENTRY = struct.Struct(f"<QI{SIZE}s")

_COUNTS = struct.Struct("<5I")  # pieces, relocations, bytes of names; piece and offset of the entry
_PIECE = struct.Struct("<IHB")  # bytes, alignment, whether it is code
_RELOCATION = struct.Struct("<5I")  # piece, offset, kind; the target's piece and offset, or _OUTSIDE and the index of its name
_OUTSIDE = 0xFFFFFFFF


class StalePack(Exception):
    """The pack is not usable here."""


class Pack:
    """A file of objects, mapped into memory. Raises OSError and StalePack."""

    def __init__(self, file: str, base: bytes) -> None:
        from mmap import ACCESS_READ, mmap

        self.file = file
        with open(file, "rb", opener=private.link_opener) as opened:
            size = os.fstat(opened.fileno()).st_size
            if not size:
                raise StalePack("is empty")
            self._bytes = mmap(opened.fileno(), size, access=ACCESS_READ)
        if len(self._bytes) < _HEAD.size or self._bytes[: len(MAGIC)] != MAGIC:
            raise StalePack("is no kernel pack of this version")
        _, found, size, self.count = _HEAD.unpack_from(self._bytes)
        self._entries = _HEAD.size + self.count * SIZE
        if size != len(self._bytes) or self._entries + self.count * _ENTRY.size > size:
            raise StalePack(f"has {len(self._bytes)} bytes, expected {size}")
        if found != base:
            raise StalePack("was made by another version of ort-lite, or for another Python or compiler")

    def _key(self, number: int) -> bytes:
        start = _HEAD.size + number * SIZE
        return self._bytes[start : start + SIZE]

    def find(self, key: str) -> bytes | None:
        """Return the encoded object of a key; None if it is missing or damaged, which is logged. O(log(objects))."""
        from bisect import bisect_left

        wanted = bytes.fromhex(key)
        number = bisect_left(range(self.count), wanted, key=self._key)
        if number == self.count or self._key(number) != wanted:
            return None
        offset, size, expected = _ENTRY.unpack_from(self._bytes, self._entries + number * _ENTRY.size)
        body = self._bytes[offset : offset + size]
        if digest(body) != expected:
            warn(0, f"{self.file}: kernel {key} is damaged. Install the pack again: docs/kernel-packs.md")
            return None
        return body


@cache
def load_pack() -> Pack | None:
    """Return the installed pack for this machine and Python. Logs a warning, once per process, if it does not fit."""
    file = _file(sys.path)
    if file is None:
        return None
    try:
        return Pack(file, own_base())
    except (OSError, StalePack) as error:
        advice = f"Install a pack of ort-lite {__version__}: docs/kernel-packs.md"
        warn(0, f"{file} {error}: kernels are compiled, or taken from the cache. {advice}")
        return None


def own_base() -> bytes:
    """Return the base of packs that this process can use."""
    return digest(base(), __version__.encode())


def _file(folders: Iterable[str]) -> str | None:
    """Return the path of the pack, using the import system's finder: entry points would double the start-up time."""
    from importlib.machinery import PathFinder

    if host().triple not in object_linking.MACHINES:
        return None
    found = PathFinder.find_spec(PACKAGE, list(folders))
    for folder in (found.submodule_search_locations or ()) if found else ():
        file = os.path.join(folder, file_name(host().architecture))
        if os.path.exists(file):
            return file
    return None


def file_name(architecture: str) -> str:
    """Return the file name of the pack for an architecture and this Python: keys depend on its bytecode."""
    return f"{architecture}-{sys.implementation.cache_tag}.pack"


def find(keys: Iterable[str]) -> dict[str, Object]:
    """Return the objects that the installed pack has, by key. Raises KernelLoadError for a corrupt one."""
    pack = load_pack()
    if pack is None:
        return {}
    bodies = {key: body for key in keys if (body := pack.find(key)) is not None}
    machine = object_linking.MACHINES[host().triple]
    try:
        return {key: decode(body, machine) for key, body in bodies.items()}
    except BrokenObject as error:
        raise KernelLoadError(f"{pack.file}: {error}") from None


def write(file: str, base: bytes, objects: Mapping[str, bytes]) -> None:
    """Write a pack of encoded objects by key. The bytes do not depend on the order of `objects`."""
    keys = sorted(objects)
    start = _HEAD.size + len(keys) * (SIZE + _ENTRY.size)
    offsets: dict[bytes, int] = {}
    for key in keys:
        if objects[key] not in offsets:
            offsets[objects[key]] = start
            start += len(objects[key])
    with open(file, "wb") as opened:
        opened.write(_HEAD.pack(MAGIC, base, start, len(keys)))
        opened.write(b"".join(map(bytes.fromhex, keys)))
        for key in keys:
            body = objects[key]
            opened.write(_ENTRY.pack(offsets[body], len(body), digest(body)))
        opened.write(b"".join(offsets))


def encode(made: Object) -> bytes:
    """Encode an object without what linking ignores."""
    outside = list(dict.fromkeys(r.target for r in made.relocations if isinstance(r.target, str)))
    names = "\0".join(outside).encode()
    parts = [_COUNTS.pack(len(made.pieces), len(made.relocations), len(names), *made.entry)]
    parts += [_PIECE.pack(len(piece.data), piece.alignment, piece.is_code) for piece in made.pieces]
    for piece, offset, kind, target in made.relocations:
        where = (_OUTSIDE, outside.index(target)) if isinstance(target, str) else target
        parts.append(_RELOCATION.pack(piece, offset, kind, *where))
    return b"".join([*parts, names, *(piece.data for piece in made.pieces)])


def decode(body: bytes, machine: int) -> Object:
    """Decode an object, checking all numbers against their bounds as for object files. Raises BrokenObject."""
    try:
        pieces, relocations, names, entry_piece, entry_offset = _COUNTS.unpack_from(body)
        tables = _COUNTS.size + pieces * _PIECE.size
        end = tables + relocations * _RELOCATION.size
        found = list(_pieces(body, pieces, end + names))
        outside = body[end : end + names].decode("ascii").split("\0")
        links = [_relocation(fields, found, outside, machine) for fields in _RELOCATION.iter_unpack(body[tables:end])]
        return Object(found, links, elf.check_entry(found, elf.make_place(found, entry_piece, entry_offset)))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise BrokenObject(f"an object of {len(body)} bytes: {error}") from None


def _pieces(body: bytes, count: int, start: int) -> Iterable[elf.Piece]:
    view = memoryview(body)
    for size, alignment, is_code in _PIECE.iter_unpack(body[_COUNTS.size : _COUNTS.size + count * _PIECE.size]):
        if start + size > len(body):
            raise BrokenObject(f"a section that ends at {start + size} of {len(body)} bytes")
        yield elf.make_piece(view[start : start + size], alignment, bool(is_code))
        start += size


def _relocation(fields: Any, pieces: list[elf.Piece], outside: list[str], machine: int) -> Relocation:
    piece, offset, kind, target, at = fields
    elf.check_relocation(pieces[piece], offset, kind, elf.KINDS[machine])
    where: Place | str = outside[at] if target == _OUTSIDE else elf.make_place(pieces, target, at)
    return Relocation(piece, offset, kind, where)
