"""The allocation log of an allocator: what it allocated, what was freed, and at which addresses."""

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ort_lite.errors import format_error
from ort_lite.provider.provider import Allocator

ALIGNMENT = 64
SIZES = (1, 63, 64, 1000, 1 << 16)


class AllocationLog:
    """A log of the `allocate` and `free` calls of an allocator whose methods can be replaced.

    A handle that nobody holds any more counts as freed, because some allocators' handles free themselves.
    """

    def __init__(self, memory: Allocator) -> None:
        self.memory = memory
        self.given: dict[int, int] = {}  # handle -> bytes
        self.returned: set[int] = set()
        self.problems: list[str] = []
        self._watched: dict[int, Any] = {}
        self._allocate: Callable[[int], Any] = memory.allocate
        self._free: Callable[[Any], None] = memory.free
        with suppress(AttributeError):  # slots: its own figures tell
            memory.allocate, memory.free = self.allocate, self.free  # type: ignore[method-assign]

    @classmethod
    def of(cls, memory: Allocator) -> "AllocationLog":
        """Return the log of an allocator that already has one, or start one."""
        known = getattr(memory.allocate, "__self__", None)
        return known if isinstance(known, cls) else cls(memory)

    def allocate(self, nbytes: int) -> Any:
        """Allocate `nbytes` bytes and log them. An address that is not aligned is a problem."""
        handle = self._allocate(nbytes)
        key = _key(handle)
        self.given[key] = nbytes
        self.returned.discard(key)  # an address comes again
        self._watch(key, handle)
        address = self._address(handle)
        if address is not None and address % ALIGNMENT:
            self.problems.append(f"{nbytes} bytes lie at {address:#x}, no multiple of {ALIGNMENT}")
        return handle

    def free(self, handle: Any) -> None:
        """Free an allocation. Freeing it twice is a problem."""
        key = _key(handle)
        if key in self.returned:
            self.problems.append("something was freed twice")
        if self.given.pop(key, None) is not None:
            self.returned.add(key)
        self._free(handle)

    def _address(self, handle: Any) -> int | None:
        """Return the address of a handle. A property that fails with another error than AttributeError is a problem."""
        try:
            return address_of(handle)
        except Exception as error:  # noqa: BLE001  # a property of the provider's may raise anything
            problem = f"the address of an allocation failed: {format_error(error)}"
            if problem not in self.problems:
                self.problems.append(problem)
            return None

    def _watch(self, key: int, handle: Any) -> None:
        """Remove the handle when it dies. A handle without weak references is kept, so that its id is not reused."""
        try:
            self._watched[key] = weakref.ref(handle, lambda _: self._forget(key))
        except TypeError:
            self._watched[key] = handle

    def _forget(self, key: int) -> None:
        self.given.pop(key, None)
        self.returned.discard(key)
        self._watched.pop(key, None)

    def in_use(self) -> int:
        """Return the bytes that are allocated and not freed, by the allocator's own count if it has one."""
        own = getattr(self.memory, "bytes_in_use", None)
        return own if isinstance(own, int) else sum(self.given.values())

    def trials(self) -> list[str]:
        """Allocate and free several sizes and return the problems."""
        found: list[str] = []
        before = self.in_use()
        handles = [self.allocate(nbytes) for nbytes in SIZES]
        addresses = [(a, n) for h, n in zip(handles, SIZES, strict=True) if (a := self._address(h)) is not None]
        for k, (low, size) in enumerate(addresses):
            if any(low < b + m and b < low + size for b, m in addresses[:k]):
                found.append(f"{size} bytes at {low:#x} overlap what was given before")
        for handle in handles:
            self.free(handle)
        after = self.in_use()
        if after != before:
            found.append(f"{after - before} bytes stay in use after all was freed")
        found += self.problems
        self.problems = []
        return found + self._check_double_free()

    def _check_double_free(self) -> list[str]:
        """Return the problems of freeing twice. Integer addresses are not tried, because that may end the process."""
        again = self._allocate(64)
        self._free(again)
        used = self.in_use()
        if isinstance(again, int):
            return []
        try:
            self._free(again)
        except Exception:  # noqa: BLE001  # an error is right, whichever
            return []
        return ["freeing twice changed the log: expected an error, or no effect"] if self.in_use() != used else []


def _key(handle: Any) -> int:
    return handle if isinstance(handle, int) else id(handle)


def address_of(handle: Any) -> int | None:
    """Return the address of a handle that has one: an integer, an array, or an object with `address` or `ptr`."""
    if isinstance(handle, int):
        return handle
    interface = getattr(handle, "__array_interface__", None) or getattr(handle, "__cuda_array_interface__", None)
    if interface is not None:
        return int(interface["data"][0])
    for name in ("address", "ptr"):
        value = getattr(handle, name, None)
        if isinstance(value, int):
            return value
    return None
