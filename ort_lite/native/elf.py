"""Relocatable ELF objects: what is in one, checked, and where the contents of several go in memory. Touches no memory but the file's.

Objects are those of the compiler, for x86-64 and AArch64: code and constants, which reach each other by absolute addresses of 64
bits ("large code model"), so that they may lie anywhere. A digest says that an object is the compiler's; still every number in it
is compared with what it counts in, so that a broken one is an error and no crash. Spec: System V ABI, chapter 4, and its
supplements for AMD64 and AArch64.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

X86_64, AARCH64 = 62, 183  # machines
ABSOLUTE = {1, 257}  # R_X86_64_64, R_AARCH64_ABS64: an address of 8 bytes
# R_AARCH64_MOVW_UABS_G0_NC, G1_NC, G2_NC, G3: an instruction takes 16 bits from here on.
HALVES = {264: 0, 266: 16, 268: 32, 269: 48}
BRANCHES = {282, 283}  # R_AARCH64_JUMP26, CALL26: a branch over at most 128 MB
VENEER = 16  # bytes of code that reaches any address on behalf of branches

KINDS = {X86_64: ABSOLUTE & {1}, AARCH64: ABSOLUTE & {257} | HALVES.keys() | BRANCHES}
_MOST_ALIGNED = 4096  # no page is smaller
_LINE = 64  # sections begin where a cache line does: loops lie alike in every process

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS, _REL = 1, 2, 3, 4, 8, 9  # types of section
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED, _GLOBAL = 0, 1


class BrokenObject(Exception):
    """An object file that the compiler cannot have made."""


class Piece(NamedTuple):
    """A section that memory holds."""

    data: memoryview
    alignment: int
    is_code: bool


class Place(NamedTuple):
    """An offset in a piece."""

    piece: int
    offset: int


class Relocation(NamedTuple):
    """A relocation: where an address goes, its form, and its target, in the object or a function outside."""

    piece: int
    offset: int
    kind: int
    target: Place | str


class Object(NamedTuple):
    """The linked parts of an object file; `entry` is its one visible function."""

    pieces: list[Piece]
    relocations: list[Relocation]
    entry: Place


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def parse(data: bytes, machine: int, entry: str) -> Object:
    """An object file for that machine which defines the function `entry`. O(size). Raises BrokenObject."""
    sections, names = _sections(data, machine)
    numbers = [k for k, section in enumerate(sections) if _is_held(section, names)]
    pieces = [_piece(data, sections[number]) for number in numbers]
    piece_of = {number: k for k, number in enumerate(numbers)}
    symbols = _Symbols(data, sections, pieces, piece_of)
    relocations: list[Relocation] = []
    for section in sections:
        if section.kind in (_RELA, _REL) and section.info in piece_of:
            _check(section.kind == _RELA and section.link == symbols.section, "relocations of another form")
            relocations += _relocations(data, section, piece_of[section.info], pieces, symbols, KINDS[machine])
    return Object(pieces, relocations, symbols.function(entry.encode()))


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise BrokenObject(problem)


def _sections(data: bytes, machine: int) -> tuple[list[_Section], bytes]:
    """All of them, and their names."""
    _check(len(data) >= _HEADER.size, f"{len(data)} bytes are no object file")
    identity, kind, found, *_, start, _, _, _, _, size, count, names = _HEADER.unpack_from(data)
    _check(identity.startswith(_IDENTITY) and kind == _RELOCATABLE, "no relocatable object file of 64 bits")
    _check(found == machine, f"an object file for machine {found}, expected {machine}")
    end = start + count * _SECTION.size
    _check(size == _SECTION.size and names < count and end <= len(data), f"{count} sections end at {end} of {len(data)} bytes")
    sections = [_Section(*fields) for fields in _SECTION.iter_unpack(data[start:end])]
    for number, section in enumerate(sections):
        if section.offset + section.size > len(data) and section.kind != _NOBITS:
            raise BrokenObject(f"section {number} ends at {section.offset + section.size} of {len(data)} bytes")
    return sections, data[sections[names].offset : sections[names].offset + sections[names].size]


def _is_held(section: _Section, names: bytes) -> bool:
    """True if memory holds the section. It does without tables that say how to leave a function other than by its end: kernels
    throw nothing, and what they call is C.
    """
    return bool(section.flags & _ALLOC and section.size and not names.startswith(b".eh_frame\0", section.name))


def _piece(data: bytes, section: _Section) -> Piece:
    _check(section.kind == _PROGBITS, f"a section of type {section.kind} in memory, expected {_PROGBITS}")
    _check(not section.flags & _WRITE, "a section that is written to: kernels keep no state")
    body = memoryview(data)[section.offset : section.offset + section.size]
    found = make_piece(body, max(section.alignment, 1), bool(section.flags & _EXECUTE))
    return found._replace(alignment=max(found.alignment, _LINE))


def make_place(pieces: Sequence[Piece], piece: int, offset: int) -> Place:
    """Raises BrokenObject for what is in no piece, or outside of it."""
    if piece >= len(pieces):
        raise BrokenObject(f"section {piece} of {len(pieces)}")
    size = len(pieces[piece].data)
    if not 0 <= offset <= size:
        raise BrokenObject(f"an address at {offset} in a section of {size} bytes")
    return Place(piece, offset)


def check_entry(pieces: Sequence[Piece], found: Place) -> Place:
    """Return the offset of a function. Raises BrokenObject if there is no code."""
    piece = pieces[found.piece]
    _check(piece.is_code and found.offset < len(piece.data), "an entry that is no code")
    return found


def check_relocation(piece: Piece, offset: int, kind: int, kinds: Collection[int]) -> None:
    """Raises BrokenObject for one that is none of `kinds`, or is not inside of its piece."""
    size = len(piece.data)
    if kind not in kinds:
        raise BrokenObject(f"a relocation of type {kind}")
    if offset + 8 > size and (kind in ABSOLUTE or offset + 4 > size):
        raise BrokenObject(f"an address at {offset} in a section of {size} bytes")
    if kind not in ABSOLUTE and (offset % 4 or not piece.is_code):
        raise BrokenObject(f"an instruction at {offset}, which is none")


def make_piece(body: memoryview, alignment: int, is_code: bool) -> Piece:
    """Raises BrokenObject for an alignment that no page has."""
    _check(0 < alignment <= _MOST_ALIGNED and not alignment & (alignment - 1), f"an alignment of {alignment} bytes")
    return Piece(body, alignment, is_code)


class _Symbols:
    """The symbols of an object. Raises BrokenObject."""

    def __init__(self, data: bytes, sections: list[_Section], pieces: list[Piece], piece_of: dict[int, int]) -> None:
        tables = [k for k, section in enumerate(sections) if section.kind == _SYMTAB]
        _check(len(tables) == 1, f"{len(tables)} tables of symbols")
        self.section = tables[0]
        table = sections[self.section]
        _check(table.link < len(sections) and sections[table.link].kind == _STRTAB, "symbols without names")
        _check(table.size % _SYMBOL.size == 0, f"a table of symbols of {table.size} bytes")
        names = sections[table.link]
        self._names = data[names.offset : names.offset + names.size]
        self._all = list(_SYMBOL.iter_unpack(data[table.offset : table.offset + table.size]))
        self._pieces, self._piece_of = pieces, piece_of

    def _name(self, start: int) -> bytes:
        end = self._names.find(b"\0", start)
        _check(start < end, "a symbol without a name")
        return self._names[start:end]

    def target(self, number: int, addend: int) -> Place | str:
        """Resolve a relocation: a place in the object, or a function outside."""
        if number >= len(self._all):
            raise BrokenObject(f"symbol {number} of {len(self._all)}")
        name, _, _, section, value, _ = self._all[number]
        if section == _UNDEFINED:
            _check(addend == 0, f"an address {addend} bytes after a function's")
            return self._name(name).decode("ascii", "backslashreplace")
        piece = self._piece_of.get(section)
        if piece is None:
            raise BrokenObject(f"a symbol in section {section}, which memory does not hold")
        return make_place(self._pieces, piece, value + addend)

    def function(self, name: bytes) -> Place:
        """Return the offset of the visible function of that name."""
        for k, (start, info, _, section, _, _) in enumerate(self._all):
            if info >> 4 == _GLOBAL and section != _UNDEFINED and self._name(start) == name:
                found = self.target(k, 0)
                if isinstance(found, Place):
                    return check_entry(self._pieces, found)
        raise BrokenObject(f"no function {name.decode()}")


def _relocations(
    data: bytes, table: _Section, piece: int, pieces: list[Piece], symbols: _Symbols, kinds: Collection[int]
) -> Iterator[Relocation]:
    """Yield the relocations of one piece."""
    _check(table.size % _RELOCATION.size == 0, f"a table of relocations of {table.size} bytes")
    for offset, info, addend in _RELOCATION.iter_unpack(data[table.offset : table.offset + table.size]):
        kind = info & 0xFFFFFFFF
        check_relocation(pieces[piece], offset, kind, kinds)
        yield Relocation(piece, offset, kind, symbols.target(info >> 32, addend))


class Layout(NamedTuple):
    """The layout of one stretch of memory: each object's pieces, and a veneer for each outside function that code branches
    to. The first `split` bytes are code; constants follow on pages of their own.
    """

    starts: list[list[int]]
    veneers: dict[str, int]
    split: int
    size: int


def layout(objects: Sequence[Object], page: int) -> Layout:
    """Lay objects out in memory with pages of that many bytes. O(pieces + relocations)."""
    starts = [[0] * len(each.pieces) for each in objects]
    end = _place(objects, starts, 0, code=True)
    called = (r.target for each in objects for r in each.relocations if r.kind in BRANCHES and isinstance(r.target, str))
    end = _up(end, VENEER)
    veneers = {name: end + k * VENEER for k, name in enumerate(dict.fromkeys(called))}
    split = _up(end + len(veneers) * VENEER, page)
    return Layout(starts, veneers, split, _up(_place(objects, starts, split, code=False), page))


def _place(objects: Sequence[Object], starts: list[list[int]], end: int, code: bool) -> int:
    """Gives the pieces of code, or of constants, their starts from `end` on; where they end."""
    for each, own in zip(objects, starts, strict=True):
        for k, piece in enumerate(each.pieces):
            if piece.is_code is code:
                own[k] = _up(end, piece.alignment)
                end = own[k] + len(piece.data)
    return end


def _up(number: int, step: int) -> int:
    return -(-number // step) * step
