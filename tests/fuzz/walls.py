"""Memory between inaccessible pages: an array ends right before one, or begins right behind one, so that one element more faults."""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right
from typing import Literal, NamedTuple

from ort_lite.errors import OutOfMemory

PAGE = mmap.PAGESIZE
GAP = 16 * PAGE
"""Inaccessible bytes on both sides."""
CLASSES = {1: 512, 4: 128, 16: 64, 64: 16}
"""Pages of a room -> how many such rooms are kept ready. What needs more gets one of its own."""
LIMIT = 1 << 33
"""Bytes that are refused without asking the system."""
NONE, READ_WRITE, ANONYMOUS = 0, 3, 0x4022  # PROT_NONE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE

Side = Literal["end", "start"]
SIDES: tuple[Side, Side] = ("end", "start")
"""At the end of its room an array is safe from overruns, at the start from underruns."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Room(NamedTuple):
    """Pages that may be touched; GAP bytes before and behind them may not."""

    address: int
    pages: int


class Place(NamedTuple):
    """`nbytes` bytes at `address`, at one side of a room, for what `name` says."""

    address: int
    nbytes: int
    room: Room
    name: str


class Walls:
    """Hands out places, and takes them all back at once. Not thread-safe."""

    def __init__(self) -> None:
        self._free = {pages: _rooms(pages, count) for pages, count in CLASSES.items()}
        self._taken: list[Place] = []

    def take(self, nbytes: int, side: Side, fill: int, name: str) -> Place:
        """A place filled with the byte `fill`. Raises OutOfMemory where the system has no such memory."""
        pages = next((pages for pages in CLASSES if nbytes <= pages * PAGE), 0)
        room = self._free[pages].pop() if pages and self._free[pages] else _room(-(-nbytes // PAGE))
        address = room.address + (room.pages * PAGE - nbytes if side == "end" else 0)
        ctypes.memset(address, fill, nbytes)
        place = Place(address, nbytes, room, name)
        self._taken.append(place)
        return place

    def mark(self) -> int:
        """For `release`: what is taken from now on."""
        return len(self._taken)

    def release(self, mark: int = 0) -> None:
        """Takes back all places taken since `mark`; large rooms go back to the system."""
        for place in self._taken[mark:]:
            if place.room.pages in self._free:
                self._free[place.room.pages].append(place.room)
            else:
                _libc.munmap(place.room.address - GAP, place.room.pages * PAGE + 2 * GAP)
        del self._taken[mark:]

    def describe(self, address: int) -> str:
        """Which place an address is in or next to."""
        taken = sorted(self._taken, key=lambda place: place.room.address)
        k = bisect_right([place.room.address - GAP for place in taken], address) - 1
        if k < 0 or address >= taken[k].room.address + taken[k].room.pages * PAGE + GAP:
            return f"address {address:#x}, which is near no array"
        place = taken[k]
        offset = address - place.address
        where = f"byte {offset}" if offset < 0 else f"{offset - place.nbytes + 1} bytes beyond the last"
        return f"{where} of {place.name}, {place.nbytes} bytes"


def _rooms(pages: int, count: int) -> list[Room]:
    """Rooms of one mapping, each with a gap of its own on both sides."""
    stride = pages * PAGE + 2 * GAP
    base = _map(count * stride)
    rooms = [Room(base + k * stride + GAP, pages) for k in range(count)]
    for room in rooms:
        _open(room)
    return rooms


def _room(pages: int) -> Room:
    if pages * PAGE > LIMIT:
        raise OutOfMemory(f"{pages * PAGE:,} bytes between walls; at most {LIMIT:,} are given")
    room = Room(_map(pages * PAGE + 2 * GAP) + GAP, pages)
    _open(room)
    return room


def _map(nbytes: int) -> int:
    address: int = _libc.mmap(None, nbytes, NONE, ANONYMOUS, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OutOfMemory(f"{nbytes:,} bytes between walls: the system refused them")
    return address


def _open(room: Room) -> None:
    if _libc.mprotect(room.address, room.pages * PAGE, READ_WRITE):
        raise OutOfMemory(f"{room.pages * PAGE:,} bytes between walls: the system refused to open them")
