"""Linking of objects into executable memory without LLVM, whose library takes 50 MB and 40 ms in every process that loads it.

Supports Linux on x86-64 and AArch64; elsewhere `llvm.Engine` is used. Objects that are linked together share a mapping: one system
call for code, one for constants. It stays for the life of the process.
"""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cache

from ort_lite.native import elf, mapping
from ort_lite.native.elf import Layout, Object, Relocation

MACHINES = {"x86_64-unknown-linux-gnu": elf.X86_64, "aarch64-unknown-linux-gnu": elf.AARCH64}
"""ELF's number of each machine whose objects can be linked here, by triple."""

_ADDRESS = struct.Struct("<Q")
_WORD = struct.Struct("<I")
_VENEER = struct.Struct("<IIQ")
_LOAD_X16, _BRANCH_X16 = 0x58000050, 0xD61F0200  # ldr x16, .+8; br x16: a linker may use x16 between a call and its function
_REACH = 1 << 27  # the range of a branch in bytes, in both directions


class NotLinked(Exception):
    """Objects cannot be placed, or need a function that does not exist."""


def link(objects: Mapping[str, Object]) -> list[int]:
    """Return the addresses of the objects' entries, ready to be called. The names are for messages.

    Raises NotLinked, and OSError if there is no memory for code.
    """
    outside: dict[str, int] = {}
    for file, each in objects.items():
        for relocation in each.relocations:
            if isinstance(relocation.target, str) and relocation.target not in outside:
                address = outside[relocation.target] = function(relocation.target)
                if not address:
                    raise NotLinked(f"{file}: needs {relocation.target!r}, which the C library has not")
    ordered = list(objects.values())
    plan = elf.layout(ordered, mapping.PAGE)
    base = mapping.reserve(plan.size)
    mapping.fill(base, image(ordered, plan, base, outside), plan.split)
    return [base + starts[each.entry.piece] + each.entry.offset for each, starts in zip(ordered, plan.starts, strict=True)]


def image(objects: Sequence[Object], plan: Layout, base: int, outside: Mapping[str, int]) -> bytearray:
    """Return the bytes for memory at `base`; `outside` has the addresses of library functions. Raises NotLinked."""
    made = bytearray(plan.size)
    for each, starts in zip(objects, plan.starts, strict=True):
        for piece, start in zip(each.pieces, starts, strict=True):
            made[start : start + len(piece.data)] = piece.data
        for relocation in each.relocations:
            _relocate(made, relocation, starts, plan, base, outside)
    for name, start in plan.veneers.items():
        _VENEER.pack_into(made, start, _LOAD_X16, _BRANCH_X16, outside[name])
    return made


def _relocate(
    made: bytearray, relocation: Relocation, starts: Sequence[int], plan: Layout, base: int, outside: Mapping[str, int]
) -> None:
    """Apply a relocation. Spec: R_X86_64_64 in the AMD64 supplement of the System V ABI; "Relocation" in the AArch64 one."""
    piece, offset, kind, target = relocation
    place = starts[piece] + offset
    if kind in elf.BRANCHES:
        end = plan.veneers[target] if isinstance(target, str) else starts[target.piece] + target.offset
        distance = end - place
        if distance % 4 or not -_REACH <= distance < _REACH:
            raise NotLinked(f"a branch over {distance} bytes")
        _set_bits(made, place, distance >> 2 & 0x3FFFFFF, 0x3FFFFFF, 0)
        return
    address = outside[target] if isinstance(target, str) else base + starts[target.piece] + target.offset
    if kind in elf.ABSOLUTE:
        _ADDRESS.pack_into(made, place, address)
    else:
        _set_bits(made, place, address >> elf.HALVES[kind] & 0xFFFF, 0xFFFF, 5)


def _set_bits(made: bytearray, place: int, value: int, mask: int, shift: int) -> None:
    """Replace bits of an instruction."""
    (word,) = _WORD.unpack_from(made, place)
    _WORD.pack_into(made, place, word & ~(mask << shift) | value << shift)


@cache
def _library() -> ctypes.CDLL:
    """Return the C library's mathematics and, by its dependencies, the rest; elsewhere the symbols of the process."""
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:
        return ctypes.CDLL(None)


@cache
def function(name: str) -> int:
    """Return the address of a function in the C library; 0 if it has none of that name."""
    found = getattr(_library(), name, None)
    return (ctypes.cast(found, ctypes.c_void_p).value or 0) if found is not None else 0
