"""The books of an allocator: handles that are objects, integers, or free themselves."""

from typing import Any

import numpy as np
import pytest

from ort_lite.memory.allocators import ArenaAllocator
from ort_lite.provider import CPU, Device
from ort_lite.testing.allocation_log import AllocationLog, address_of


class Addresses:
    """Gives integers, the same ones again, as a driver does; keeps no figures of its own."""

    device: Device = CPU

    def __init__(self, step: int = 1 << 20) -> None:
        self.step, self.used = step, set[int]()

    def allocate(self, nbytes: int) -> int:
        address = next(k for k in range(self.step, 100 * self.step, self.step) if k not in self.used)
        self.used.add(address)
        return address

    def free(self, handle: int) -> None:
        self.used.remove(handle)


class Block:
    """Gives its memory back when it dies."""


class SelfFreeing(Addresses):
    def allocate(self, nbytes: int) -> Any:
        return Block()

    def free(self, handle: Any) -> None:
        """Nothing to do."""


def test_a_good_allocator_has_no_problems() -> None:
    for memory in (Addresses(), SelfFreeing(), ArenaAllocator(CPU)):
        assert AllocationLog.of(memory).trials() == []


def test_an_address_that_is_given_again_was_not_freed_twice() -> None:
    memory = Addresses()
    log = AllocationLog.of(memory)
    for _ in range(3):
        memory.free(int(str(memory.allocate(10))))  # equal, and another object
    assert log.problems == []
    assert log.in_use() == 0


def test_what_is_freed_twice_is_noted() -> None:
    memory = Addresses()
    log = AllocationLog.of(memory)
    address = memory.allocate(10)
    memory.free(address)
    with pytest.raises(KeyError):
        memory.free(address)
    assert log.problems == ["something was freed twice"]


def test_a_handle_that_died_is_given_back() -> None:
    memory = SelfFreeing()
    log = AllocationLog.of(memory)
    handle = memory.allocate(10)
    assert log.in_use() == 10
    del handle
    assert log.in_use() == 0


def test_addresses_that_overlap_or_lie_askew_are_found() -> None:
    problems = AllocationLog.of(Addresses(step=1000)).trials()
    assert "1 bytes lie at 0x3e8, no multiple of 64" in problems
    assert AllocationLog.of(Addresses(step=512)).trials() == ["65536 bytes at 0xa00 overlap what was given before"]


def test_an_allocator_has_one_ledger() -> None:
    memory = Addresses()
    assert AllocationLog.of(memory) is AllocationLog.of(memory)


def test_handles_say_where_they_lie() -> None:
    array = np.zeros(4)
    assert address_of(4096) == 4096
    assert address_of(array) == array.ctypes.data
    assert address_of(type("H", (), {"ptr": 64})()) == 64
    assert address_of(Block()) is None


class Evasive(Block):
    @property
    def address(self) -> int:
        raise TypeError("the device is asleep")


def test_an_address_that_fails_is_a_problem_once() -> None:
    class Asleep(SelfFreeing):
        def allocate(self, nbytes: int) -> Any:
            return Evasive()

    assert AllocationLog.of(Asleep()).trials() == ["the address of an allocation failed: TypeError: the device is asleep"]
