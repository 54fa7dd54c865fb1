import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.memory.arenas import (
    HUGE_PAGE,
    PAGE,
    Arena,
    Bytes,
    ConstantArena,
    Growth,
    PersistentArena,
    allocate_array,
    allocate_in_huge_pages,
    owns_bytes,
)

THREADS = 16


# --- Arrays
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 5, 1000)])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
def test_an_aligned_array_begins_a_cache_line(shape: tuple[int, ...], dtype: str) -> None:
    array = allocate_array(shape, np.dtype(dtype))
    assert (array.shape, array.dtype.name, type(array)) == (shape, dtype, np.ndarray)
    assert array.__array_interface__["data"][0] % 64 == 0
    assert array.flags.c_contiguous and array.flags.writeable and owns_bytes(array)


@pytest.mark.parametrize("nbytes", [0, 1000, HUGE_PAGE, 3 * HUGE_PAGE // 2, 5 * HUGE_PAGE])
def test_an_array_in_huge_pages_is_as_any_other(nbytes: int) -> None:
    array = allocate_in_huge_pages((nbytes // 4, 4), np.dtype("uint8"))
    assert array.shape == (nbytes // 4, 4) and array.flags.c_contiguous and array.flags.writeable and owns_bytes(array)
    assert array.__array_interface__["data"][0] % (HUGE_PAGE if nbytes >= HUGE_PAGE and sys.platform == "linux" else 64) == 0
    array[:] = 7
    assert (array == 7).all()


def test_a_view_owns_no_bytes() -> None:
    for array in (allocate_array((4, 4), np.dtype("float32")), np.empty((4, 4))):
        assert owns_bytes(array) and not owns_bytes(array[1:]) and not owns_bytes(array.reshape(16))


# --- Arena
@pytest.mark.parametrize("alignment", [1, 64, PAGE])
@pytest.mark.parametrize("nbytes", [1, 100, 10**7])
def test_an_arena_is_aligned_and_as_large_as_asked(nbytes: int, alignment: int) -> None:
    arena = Arena(nbytes, alignment)
    assert arena.address % alignment == 0
    assert (arena.nbytes, arena.buffer.shape, arena.buffer.dtype.name) == (nbytes, (nbytes,), "uint8")
    assert arena.reserve(nbytes) == arena.buffer.ctypes.data == arena.address


def test_an_empty_arena_has_an_address_all_the_same() -> None:
    assert Arena().reserve(0) != 0


def test_an_arena_grows_by_half_at_least_and_never_shrinks() -> None:
    arena, sizes = Arena(1000), set()
    for nbytes in range(1000, 100_000, 100):
        arena.reserve(nbytes)
        assert nbytes <= arena.nbytes <= nbytes * 3 // 2
        sizes.add(arena.nbytes)
    assert len(sizes) <= 13
    before = arena.nbytes
    arena.reserve(1)
    assert arena.nbytes == before


def test_reserving_what_there_is_keeps_address_and_contents() -> None:
    arena = Arena(256)
    arena.buffer[:] = 7
    assert arena.reserve(256) == arena.address
    assert (arena.view(128, 128) == 7).all()


def test_trim_gives_the_memory_back() -> None:
    arena = Arena(1000)
    arena.trim()
    assert arena.nbytes == len(arena.buffer) == 0
    assert arena.reserve(10) % 64 == 0


def test_an_arena_that_may_not_grow_keeps_what_it_has() -> None:
    arena = Arena(100)
    address = arena.reserve(140, limit=140)
    assert arena.nbytes == 140
    with pytest.raises(OutOfMemory, match="arena of 140 bytes: 141 asked for, at most 140"):
        arena.reserve(141, limit=140)
    assert (arena.address, arena.nbytes) == (address, 140)


@pytest.mark.parametrize("nbytes", [1 << 46, 1 << 62, 1 << 63, 1 << 80])
def test_an_absurd_size_is_a_typed_error(nbytes: int) -> None:
    arena = Arena(64)
    with pytest.raises(OutOfMemory, match=f"{nbytes:,} bytes asked of the system"):
        arena.reserve(nbytes)
    assert arena.nbytes == 64


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 1), (0, 65), (64, 1), (2, -1)])
def test_a_view_outside_is_refused(offset: int, nbytes: int) -> None:
    with pytest.raises(InvalidArgument, match=r"of an arena that has \[0, 64\)"):
        Arena(64).view(offset, nbytes)


@pytest.mark.parametrize(
    ("growth", "sizes"),
    [(Growth.half, [100, 150, 225]), (Growth.next_power_of_two, [128, 128, 256]), (Growth.same_as_requested, [100, 101, 200])],
)
def test_growing_follows_the_strategy(growth: Growth, sizes: list[int]) -> None:
    arena = Arena(growth=growth)
    found = []
    for nbytes in (100, 101, 200):
        arena.reserve(nbytes)
        found.append(arena.nbytes)
    assert found == sizes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kNextPowerOfTwo", Growth.next_power_of_two),
        ("kSameAsRequested", Growth.same_as_requested),
        (0, Growth.next_power_of_two),
        ("1", Growth.same_as_requested),
        ("half", Growth.half),
    ],
)
def test_strategies_have_names_and_the_numbers_of_onnxruntime(name: object, expected: Growth) -> None:
    assert Growth.parse(name) is expected


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'kTwice': expected one of half, kNextPowerOfTwo, kSameAsRequested"):
        Growth.parse("kTwice")


class Books:
    """An allocator of bytearrays that counts."""

    def __init__(self, short: int = 0) -> None:
        self.given: list[bytearray] = []
        self.freed: list[bytearray] = []
        self._short = short

    def allocate(self, nbytes: int) -> bytearray:
        self.given.append(bytearray(nbytes - self._short))
        return self.given[-1]

    def free(self, handle: bytearray) -> None:
        self.freed.append(handle)


def test_an_arena_takes_its_memory_from_where_it_is_told_and_gives_it_back() -> None:
    books = Books()
    arena = Arena(100, source=books)
    assert arena.address % 64 == 0
    arena.buffer[:] = 7
    assert books.given[0].count(7) == 100
    arena.reserve(1000)
    assert books.freed == books.given[:1]
    del arena
    assert [id(handle) for handle in books.freed] == [id(handle) for handle in books.given]


def test_a_source_that_gives_too_little_is_an_error() -> None:
    with pytest.raises(OutOfMemory, match="gave 62 bytes for 163"):
        Arena(100, source=Books(short=101))


# --- Persistent and constant arenas
def test_persistent_bytes_are_zero_at_first_and_stay_until_cleared() -> None:
    arena = PersistentArena(1000)
    assert arena.address % 64 == 0 == arena.buffer.sum()
    arena.buffer[:] = 3
    assert arena.buffer.sum() == 3000
    arena.clear()
    assert arena.buffer.sum() == 0


def test_cold_constants_are_read_in_place() -> None:
    stored = np.arange(100, dtype=np.uint8)
    arena = ConstantArena.cold(stored)
    assert np.shares_memory(arena.buffer, stored)
    assert (arena.address, arena.nbytes) == (stored.ctypes.data, 100)
    with pytest.raises(ValueError, match="read-only"):
        arena.buffer[0] = 1
    assert stored.flags.writeable


def test_spec_4_9_staged_constants_are_copied_once_however_many_threads_come() -> None:
    copies, start = [], Barrier(THREADS)

    def hydrate(target: Bytes) -> None:
        copies.append(len(target))
        sleep(0.05)  # all threads come while this one copies
        target[:] = np.arange(200)

    arena = ConstantArena(200, hydrate)
    assert copies == []

    def read(_: int) -> tuple[int, int]:
        start.wait(60)
        return int(arena.buffer.sum()), arena.address

    with ThreadPoolExecutor(THREADS) as threads:
        results = set(threads.map(read, range(THREADS)))
    assert copies == [200]
    assert results == {(sum(range(200)), arena.address)}
    assert arena.address % 64 == 0
    assert not arena.buffer.flags.writeable


def test_a_copy_that_fails_is_tried_again() -> None:
    outcomes = iter([OSError("gone"), None])

    def hydrate(target: Bytes) -> None:
        target[:] = 5
        if (error := next(outcomes)) is not None:
            raise error

    arena = ConstantArena(4, hydrate)
    with pytest.raises(OSError, match="gone"):
        _ = arena.buffer
    assert arena.buffer.tolist() == [5, 5, 5, 5]
