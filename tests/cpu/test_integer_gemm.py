"""Products of 8-bit integers by pairs, which targets without an instruction for bytes use, called as native code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.native.cpu import Target
from ort_lite_cpu.kernels.gemm.integer import CAPACITY, integer_tile, pairs
from tests.cpu.byte_products import PAIRS, SIGNS, Sweep, bytes_of, exact, pack, pairs_spec, product
from tests.native.calls import COMPILED
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

on_every_target = pytest.mark.parametrize("target", PAIRS.values(), ids=PAIRS)


def test_pairs_stand_beside_each_other() -> None:
    b = np.arange(15, dtype=np.int16).reshape(3, 5)
    packed = pairs(b, 4)
    assert packed.shape == (2, 2, 4, 2) and packed.dtype == np.int8
    np.testing.assert_array_equal(packed[0, 0], [[0, 5], [1, 6], [2, 7], [3, 8]])
    np.testing.assert_array_equal(packed[1, 1], [[14, 0], [0, 0], [0, 0], [0, 0]])
    assert pairs(b * 10, 4).dtype == np.int16


@pytest.mark.parametrize("left", SIGNS)
@on_every_target
def test_every_size_of_each_dimension(target: Target, left: str) -> None:
    Sweep(left).check(target)


@pytest.mark.parametrize("left", SIGNS)
@on_every_target
def test_long_sums_of_wide_numbers(target: Target, left: str) -> None:
    for k in (0, 1, 2, 255, 4095, 5000):
        a, b = bytes_of(13, k, dtype=left), 255 - bytes_of(k, 37, seed=1).astype(np.int16) * 2
        np.testing.assert_array_equal(product(a, pack(b, target), target, 100), exact(a, b, 100))


@on_every_target
def test_sums_beyond_32_bits_wrap(target: Target) -> None:
    a, b = np.full((3, 70001), 255, np.uint8), np.full((70001, 3), -128, np.int8)
    np.testing.assert_array_equal(product(a, pack(b, target), target), exact(a, b))


@pytest.mark.parametrize("target", COMPILED, ids=lambda target: str(target.name))
def test_every_target_compiles_and_needs_no_symbol(target: Target) -> None:
    tile = integer_tile(target)
    assert undefined_symbols(object_code(pairs_spec("int8", target), target)) == []
    assert tile.rows * tile.vectors + tile.vectors + 1 <= target.vector_registers


@pytest.mark.parametrize("left", SIGNS)
@on_every_target
def test_zero_points_of_rows_and_columns_are_taken_off_the_sums(target: Target, left: str) -> None:
    a, b, zeros = bytes_of(9, 33, dtype=left), bytes_of(33, 20, seed=1, dtype="int8"), np.arange(20, dtype=np.int32) - 9
    for zero in (bytes_of(9, seed=2, dtype=left), 5):
        np.testing.assert_array_equal(product(a, pack(b, target, zeros), target, zero), exact(a, b, zero, zeros))


@on_every_target
def test_more_rows_than_a_block_has(target: Target) -> None:
    k = 1000
    a, b = bytes_of(CAPACITY // k + 50, k), bytes_of(k, 20, seed=1, dtype="int8")
    np.testing.assert_array_equal(product(a, pack(b, target), target), exact(a, b))


@on_every_target
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(0, 50), st.integers(1, 60), st.integers(1, 9))
def test_any_number_of_parts_gives_the_same(target: Target, m: int, k: int, n: int, parts: int) -> None:
    a, b = bytes_of(m, k), bytes_of(k, n, seed=1, dtype="int8")
    np.testing.assert_array_equal(product(a, pack(b, target), target, 3, parts=parts), exact(a, b, 3))
