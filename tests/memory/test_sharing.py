"""Equal arrays are one array, as long as somebody reads it."""

import gc
import mmap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ort_lite.memory.sharing import SMALLEST, Array, Shared

ELEMENTS = 3 * (1 << 20) // 4 + 5  # more than two pieces of a comparison


def ramp(elements: int = ELEMENTS) -> Array:
    return np.arange(elements, dtype=np.float32)


def test_an_equal_array_becomes_the_one_that_is_known() -> None:
    shared, first = Shared(), ramp()
    assert shared(first) is first
    assert shared(ramp()) is first
    assert shared(first) is first


@pytest.mark.parametrize("at", [0, 100, ELEMENTS // 2, 1 << 18, ELEMENTS - 1])
def test_one_other_element_makes_another_array(at: int) -> None:
    shared, first, other = Shared(), ramp(), ramp()
    other[at] = -1
    shared(first)
    assert shared(other) is other


@pytest.mark.parametrize("view", [lambda a: a.view(np.int32), lambda a: a.reshape(5, -1)], ids=["type", "shape"])
def test_type_and_shape_count(view: Callable[[Array], Array]) -> None:
    shared, first = Shared(), ramp(5000)
    other = view(ramp(5000))
    shared(first)
    assert shared(other) is other


def test_bits_count_and_not_values() -> None:
    shared, zero = Shared(), np.zeros(SMALLEST, np.float32)
    nan = np.full(SMALLEST, np.nan, np.float32)
    shared(zero)
    shared(nan)
    assert shared(-zero) is not zero
    assert shared(nan.copy()) is nan


@pytest.mark.parametrize(
    "array",
    [np.zeros(SMALLEST // 4 - 1, np.float32), np.zeros((200, 200), np.float32).T[:, ::2], np.full(SMALLEST, "word", object)],
    ids=["small", "strided", "strings"],
)
def test_some_arrays_are_left_alone(array: Array) -> None:
    shared = Shared()
    assert shared(array) is array
    assert len(shared) == 0


def test_nobody_keeps_an_array_alive() -> None:
    shared, first = Shared(), ramp()
    shared(first)
    assert len(shared) == 1
    del first
    gc.collect()
    assert len(shared) == 0
    another = ramp()
    assert shared(another) is another


def test_a_large_array_is_mapped_from_a_file_that_other_processes_find(tmp_path: Path) -> None:
    first, second = Shared(), Shared()  # as of two processes
    for shared in (first, second):
        shared.keep_in(str(tmp_path))
    mine, theirs = first(ramp()), second(ramp())
    assert isinstance(_root(mine), mmap.mmap)
    assert isinstance(_root(theirs), mmap.mmap)
    assert len(list(tmp_path.iterdir())) == 1
    assert not mine.flags.writeable
    np.testing.assert_array_equal(mine, ramp())
    assert first(ramp()) is mine
    assert first(ramp(5000)).flags.owndata, "what is small stays in memory"


@pytest.mark.parametrize("damage", [b"", b"\xff" * 4 * ELEMENTS], ids=["cut short", "other bytes"])
def test_a_file_that_is_damaged_gives_nobody_wrong_elements(tmp_path: Path, damage: bytes) -> None:
    first, second = Shared(), Shared()
    first.keep_in(str(tmp_path))
    second.keep_in(str(tmp_path))
    kept = first(ramp())
    (path,) = tmp_path.iterdir()
    del kept
    path.write_bytes(damage)
    np.testing.assert_array_equal(second(ramp()), ramp())


def test_without_a_folder_again_arrays_are_their_own(tmp_path: Path) -> None:
    shared, array = Shared(), ramp()
    shared.keep_in(str(tmp_path))
    shared.keep_in(None)
    assert shared(array) is array


def _root(array: Array) -> object:
    """What the bytes belong to."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base
