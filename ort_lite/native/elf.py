"""Parsing of relocatable ELF objects, with checks, and their layout in memory. Accesses only the bytes of the file.

Objects come from the compiler, for x86-64 and AArch64. Code and constants refer to each other by absolute 64-bit addresses ("large
code model"), so they can be placed anywhere. A digest shows that an object is the compiler's; even so, every number in it is
checked against its bounds, so that a broken object causes an error instead of a crash. Spec: System V ABI, chapter 4, and its
supplements for AMD64 and AArch64.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

X86_64, AARCH64 = 62, 183  # machines
ABSOLUTE = {1, 257}  # R_X86_64_64, R_AARCH64_ABS64: an address of 8 bytes
# R_AARCH64_MOVW_UABS_G0_NC, G1_NC, G2_NC, G3: the first of the 16 bits that an instruction encodes.
HALVES = {264: 0, 266: 16, 268: 32, 269: 48}
BRANCHES = {282, 283}  # R_AARCH64_JUMP26, CALL26: a branch over at most 128 MB
VENEER = 16  # bytes of code that jumps to any address, as a target for branches

KINDS = {X86_64: ABSOLUTE & {1}, AARCH64: ABSOLUTE & {257} | HALVES.keys() | BRANCHES}
_MOST_ALIGNED = 4096  # the smallest page size
_LINE = 64  # aligns sections to cache lines, so that loops have the same alignment in all processes

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS, _REL = 1, 2, 3, 4, 8, 9  # section types
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED, _GLOBAL = 0, 1


class BrokenObject(Exception):
    """The object file cannot be the compiler's output."""


class Piece(NamedTuple):
    """A section that is loaded into memory."""

    data: memoryview
    alignment: int
    is_code: bool


class Place(NamedTuple):
    """An offset in a piece."""

    piece: int
    offset: int


class Relocation(NamedTuple):
    """A relocation: where an address goes, its encoding, and its target, either in the object or an external function."""

    piece: int
    offset: int
    kind: int
    target: Place | str


class Object(NamedTuple):
    """The loadable parts of an object file; `entry` is its only visible function."""

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
    """Parse an object file for `machine` that defines the function `entry`. O(size). Raises BrokenObject."""
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
    """Return all sections, and the table of their names."""
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
    """Return True if the section is loaded into memory.

    Unwind tables are not: kernels throw no exceptions, and they only call C.
    """
    return bool(section.flags & _ALLOC and section.size and not names.startswith(b".eh_frame\0", section.name))


def _piece(data: bytes, section: _Section) -> Piece:
    _check(section.kind == _PROGBITS, f"a section of type {section.kind} in memory, expected {_PROGBITS}")
    _check(not section.flags & _WRITE, "a section that is written to: kernels keep no state")
    body = memoryview(data)[section.offset : section.offset + section.size]
    found = make_piece(body, max(section.alignment, 1), bool(section.flags & _EXECUTE))
    return found._replace(alignment=max(found.alignment, _LINE))


def make_place(pieces: Sequence[Piece], piece: int, offset: int) -> Place:
    """Return a place in a piece. Raises BrokenObject if it is out of bounds."""
    if piece >= len(pieces):
        raise BrokenObject(f"section {piece} of {len(pieces)}")
    size = len(pieces[piece].data)
    if not 0 <= offset <= size:
        raise BrokenObject(f"an address at {offset} in a section of {size} bytes")
    return Place(piece, offset)


def check_entry(pieces: Sequence[Piece], found: Place) -> Place:
    """Return the place of a function. Raises BrokenObject if it is not in code."""
    piece = pieces[found.piece]
    _check(piece.is_code and found.offset < len(piece.data), "an entry that is no code")
    return found


def check_relocation(piece: Piece, offset: int, kind: int, kinds: Collection[int]) -> None:
    """Raise BrokenObject for a relocation that is not one of `kinds` or is outside of its piece."""
    size = len(piece.data)
    if kind not in kinds:
        raise BrokenObject(f"a relocation of type {kind}")
    if offset + 8 > size and (kind in ABSOLUTE or offset + 4 > size):
        raise BrokenObject(f"an address at {offset} in a section of {size} bytes")
    if kind not in ABSOLUTE and (offset % 4 or not piece.is_code):
        raise BrokenObject(f"an instruction at {offset}, which is none")


def make_piece(body: memoryview, alignment: int, is_code: bool) -> Piece:
    """Return a piece. Raises BrokenObject for an alignment that is not possible within a page."""
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
        """Resolve the target of a relocation: a place in the object, or the name of an external function."""
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
        """Return the place of the visible function of that name."""
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
    """The layout of a memory region: the pieces of each object, and a veneer per external function that code branches to.

    The first `split` bytes are code; constants follow on separate pages.
    """

    starts: list[list[int]]
    veneers: dict[str, int]
    split: int
    size: int


def layout(objects: Sequence[Object], page: int) -> Layout:
    """Lay objects out in memory with pages of `page` bytes. O(pieces + relocations)."""
    starts = [[0] * len(each.pieces) for each in objects]
    end = _place(objects, starts, 0, code=True)
    called = (r.target for each in objects for r in each.relocations if r.kind in BRANCHES and isinstance(r.target, str))
    end = _up(end, VENEER)
    veneers = {name: end + k * VENEER for k, name in enumerate(dict.fromkeys(called))}
    split = _up(end + len(veneers) * VENEER, page)
    return Layout(starts, veneers, split, _up(_place(objects, starts, split, code=False), page))


def _place(objects: Sequence[Object], starts: list[list[int]], end: int, code: bool) -> int:
    """Set the starts of the pieces of code, or of constants, beginning at `end`, and return their end."""
    for each, own in zip(objects, starts, strict=True):
        for k, piece in enumerate(each.pieces):
            if piece.is_code is code:
                own[k] = _up(end, piece.alignment)
                end = own[k] + len(piece.data)
    return end


def _up(number: int, step: int) -> int:
    return -(-number // step) * step
