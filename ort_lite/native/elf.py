"""Relocatable ELF objects -> addresses, without LLVM, whose library takes 50 MB and 40 ms of every process that loads it.

Only what the compiler makes for x86-64: its code reaches everything by absolute addresses of 64 bits (System V ABI, AMD64
supplement, "large code model"), so that code and constants may lie anywhere. Objects come from the compiler or, checked by digest,
from the cache: what is strange in them is a mistake and no attack.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

_PAGE = 4096
_LINE = 64  # sections begin where a cache line does: loops lie alike in every process
_PROGBITS, _SYMTAB, _RELA = 1, 2, 4
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_RELOCATABLE, _X86_64, _UNWIND = 1, 62, 0x70000001  # types of file, machine and section
_UNDEFINED, _ABSOLUTE_64 = 0, 1  # section of a symbol, type of relocation
_READ_WRITE, _READ_EXECUTE, _READ = 3, 5, 1
_PRIVATE_ANONYMOUS = 0x22


class NotLinked(Exception):
    """An object has what this linker does not know; LLVM's may."""


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


class _Symbol(NamedTuple):
    name: str
    section: int
    offset: int


class Object:
    """An object file: the sections that memory holds, the symbols, the places that take addresses. Raises NotLinked."""

    def __init__(self, data: bytes) -> None:
        kind, machine = struct.unpack_from("<HH", data, 16)
        if data[:6] != b"\x7fELF\x02\x01" or kind != _RELOCATABLE or machine != _X86_64:
            raise NotLinked("no relocatable object of x86-64")
        self.data = data
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        self.sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, start + k * size)) for k in range(count)]
        self.held = [k for k, section in enumerate(self.sections) if self._is_held(section)]
        self.symbols = [symbol for section in self.sections if section.kind == _SYMTAB for symbol in self._symbols(section)]

    @staticmethod
    def _is_held(section: _Section) -> bool:
        """Tables for unwinding are left out: nothing is thrown through kernels."""
        if not section.flags & _ALLOC or section.kind == _UNWIND or not section.size:
            return False
        if section.kind != _PROGBITS or section.flags & _WRITE or section.alignment > _PAGE:
            raise NotLinked(f"a section of type {section.kind}, flags {section.flags}, alignment {section.alignment}")
        return True

    def _symbols(self, table: _Section) -> Iterator["_Symbol"]:
        names = self.sections[table.link].offset
        for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", self.body(table)):
            start = names + name
            yield _Symbol(self.data[start : self.data.index(b"\0", start)].decode(), section, value)

    def body(self, section: _Section) -> bytes:
        return self.data[section.offset : section.offset + section.size]

    def is_code(self, section: int) -> bool:
        return bool(self.sections[section].flags & _EXECUTE)

    def relocations(self) -> Iterator[tuple[int, int, int, int]]:
        """(section, offset in it, symbol, addend) of each place that takes an address."""
        held = frozenset(self.held)
        for table in self.sections:
            if table.kind == _RELA and table.info in held:
                for offset, info, addend in struct.iter_unpack("<QQq", self.body(table)):
                    if info & 0xFFFFFFFF != _ABSOLUTE_64:
                        raise NotLinked(f"a relocation of type {info & 0xFFFFFFFF}")
                    yield table.info, offset, info >> 32, addend


class Engine:
    """Owner of executable memory, which lives as long as the process. Not thread-safe."""

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}

    def add(self, objects: Iterable[bytes]) -> None:
        """Links object files, after which their symbols have addresses. Raises NotLinked, RuntimeError for a function that no library
        of the process has, and OSError where there is no memory, or none that may hold code; then none has.
        """
        parsed = list(map(Object, objects))
        wanted = [list(item.relocations()) for item in parsed]
        places, split, size = _layout(parsed)
        image, base = bytearray(size), _mapped(size)
        found: dict[str, int] = {}
        for item, placed, relocations in zip(parsed, places, wanted, strict=True):
            starts = {section: base + place for section, place in placed.items()}
            for section, place in placed.items():
                image[place : place + item.sections[section].size] = item.body(item.sections[section])
            for section, offset, symbol, addend in relocations:
                address = _address(item.symbols[symbol], starts) + addend
                struct.pack_into("<Q", image, placed[section] + offset, address)
            found.update((s.name, starts[s.section] + s.offset) for s in item.symbols if s.section in starts)
        _fill(base, image, split)
        self._addresses.update(found)

    def address(self, symbol: str) -> int:
        """Of a function in an object that was added. Raises KeyError for others."""
        return self._addresses[symbol]


def executable(code: bytes) -> int:
    """The address of a copy of machine code that reaches nothing outside of itself. Raises OSError."""
    base = _mapped(len(code))
    _fill(base, bytearray(code), len(code))
    return base


def _fill(base: int, image: bytearray, split: int) -> None:
    """Gives new memory its contents, of which the first `split` bytes are code; nobody writes to it any more."""
    size = len(image)
    ctypes.memmove(base, (ctypes.c_char * size).from_buffer(image), size)
    _protect(base, split, _READ_EXECUTE)
    _protect(base + split, size - split, _READ)


def _address(symbol: _Symbol, starts: dict[int, int]) -> int:
    """Of a symbol that code names, where the object's sections begin at `starts`."""
    if symbol.section in starts:
        return starts[symbol.section] + symbol.offset
    if symbol.section != _UNDEFINED:
        raise NotLinked(f"a symbol of section {symbol.section}")
    return _outside(symbol.name)


def _layout(objects: Sequence[Object]) -> tuple[list[dict[int, int]], int, int]:
    """Where each object's sections go, where constants begin, and the size of all: code is first, constants are on pages of
    their own.
    """
    places: list[dict[int, int]] = [{} for _ in objects]
    end = split = 0
    for code in (True, False):
        for item, placed in zip(objects, places, strict=True):
            for section in item.held:
                if item.is_code(section) is code:
                    placed[section] = end = _up(end, max(_LINE, item.sections[section].alignment))
                    end += item.sections[section].size
        end = _up(end, _PAGE)
        split = split or end
    return places, split, end


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Where functions of the C library are: the process, and its mathematics where the process has not loaded it."""
    return ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libm.so.6")


@cache
def _outside(name: str) -> int:
    """Address of a function of the C library."""
    for library in _libraries():
        found = getattr(library, name, None)
        if found is not None:
            address = ctypes.cast(found, ctypes.c_void_p).value
            assert address is not None
            return address
    raise RuntimeError(f"object code needs {name!r}, which no library of this process has")


def _mapped(size: int) -> int:
    """New memory, never freed: threads may run code in it until the process ends."""
    library = _libraries()[0]
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    found: int = library.mmap(None, size, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if found == (1 << 64) - 1:
        raise _error(f"{size} bytes for code")
    return found


def _protect(address: int, size: int, access: int) -> None:
    library = _libraries()[0]
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if size and library.mprotect(address, size, access):
        raise _error("memory that may be executed")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
