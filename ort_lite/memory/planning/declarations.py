"""The memories of a device as text: `fast=512K@20G, slow=64M, flash=1G:constant`, the fastest first."""

from ort_lite.errors import InvalidArgument
from ort_lite.memory.planning.requests import ArenaRole, Memory

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_REMOTE = "remote"
EXPECTED = f"expected NAME=SIZE[@BYTES_PER_SECOND][:KIND+KIND], such as fast=512K, with kinds {', '.join(ArenaRole)}, {_REMOTE}"


def parse_memories(text: str) -> tuple[Memory, ...]:
    """Return the memories that a text declares. Sizes may end with K, M or G, powers of 1,024; `*` is no limit.

    Raises InvalidArgument for malformed text, and for a name that is there twice.
    """
    found = tuple(_memory(part.strip()) for part in text.split(",") if part.strip())
    if len({memory.name for memory in found}) != len(found):
        raise InvalidArgument(f"{text!r} names a memory twice, expected different names")
    return found


def _memory(part: str) -> Memory:
    head, _, kinds = part.partition(":")
    name, is_sized, amount = head.partition("=")
    size, is_fast, speed = amount.partition("@")
    given = {kind.strip() for kind in kinds.split("+")} if kinds else set()
    roles = frozenset(role for role in ArenaRole if role.value in given)
    if not name.strip() or not is_sized or given - {*map(str, roles), _REMOTE}:
        raise InvalidArgument(f"memory {part!r}: {EXPECTED}")
    limit = None if size.strip() == "*" else _number(size, part)
    bandwidth = float(_number(speed, part)) if is_fast else 0.0
    return Memory(name.strip(), limit, bandwidth, roles or frozenset(ArenaRole), _REMOTE in given)


def _number(text: str, part: str) -> int:
    digits, unit = (text.strip()[:-1], text.strip()[-1:].upper()) if text.strip()[-1:].isalpha() else (text.strip(), "")
    if unit not in _UNITS or not (digits.isascii() and digits.isdigit()):
        raise InvalidArgument(f"memory {part!r}: {text!r} is no number of bytes; {EXPECTED}")
    return int(digits) * _UNITS[unit]
