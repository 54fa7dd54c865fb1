"""The products of 8-bit integers, called as native code, for all targets that run here."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host
from ort_lite_cpu.kernels.gemm.integer import CAPACITY, IntegerTile, integer_gemm, integer_tile, pairs, scratch_size
from tests.native.calls import COMPILED, TARGETS, call
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

HOST = host()


def spec(kind: str, target: Target = HOST) -> tuple[Spec, IntegerTile]:
    tile = integer_tile(target)
    return Spec(integer_gemm, ("u8", "u8", kind, "i32", "i32", "i16"), tile.statics), tile


def bytes_of(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def product(a: Array, b: Array, zero: int = 0, zeros: Array | None = None, parts: int = 1, target: Target = HOST) -> Array:
    """What the kernel makes of a (m, k), bytes, and b (k, n), int16."""
    (m, k), n = a.shape, b.shape[1]
    packed = pairs(b, integer_tile(target).columns)
    kernel, tile = spec("i8" if packed.dtype == np.int8 else "i16", target)
    size = scratch_size(m, k, tile.rows)
    assert isinstance(size, int)
    c = np.full((m, n), -1, np.int32)
    operands = [a, np.array([zero], np.uint8), packed, zeros, c, np.empty((parts, size), np.int16)]
    for part in range(parts):
        assert call(kernel, operands, [1, m, n, k, 0, 0, 0, 0, size], part, parts, target) == 0
    return c


def exact(a: Array, b: Array, zero: int = 0) -> Array:
    return (a.astype(np.int32) - zero) @ b.astype(np.int32)


def test_pairs_stand_beside_each_other() -> None:
    b = np.arange(15, dtype=np.int16).reshape(3, 5)
    packed = pairs(b, 4)
    assert packed.shape == (2, 2, 4, 2) and packed.dtype == np.int8
    np.testing.assert_array_equal(packed[0, 0], [[0, 5], [1, 6], [2, 7], [3, 8]])
    np.testing.assert_array_equal(packed[1, 1], [[14, 0], [0, 0], [0, 0], [0, 0]])
    assert pairs(b * 10, 4).dtype == np.int16


@pytest.mark.parametrize("n", [1, 7, 16, 17, 40])
@pytest.mark.parametrize("m", range(1, 16))
def test_every_edge_of_rows_and_columns(m: int, n: int) -> None:
    a, b = bytes_of(m, 21), bytes_of(21, n, seed=1).astype(np.int16) - 128
    np.testing.assert_array_equal(product(a, b, 7), exact(a, b, 7))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("k", [0, 1, 2, 255])
def test_every_target_that_runs_here(target: Target, k: int) -> None:
    a, b = bytes_of(13, k), 255 - bytes_of(k, 37, seed=1).astype(np.int16) * 2
    np.testing.assert_array_equal(product(a, b, 200, target=target), exact(a, b, 200))


@pytest.mark.parametrize("target", COMPILED, ids=lambda target: str(target.name))
def test_every_target_compiles_and_needs_no_symbol(target: Target) -> None:
    kernel, tile = spec("i8", target)
    assert undefined_symbols(object_code(kernel, target)) == []
    assert tile.rows * tile.vectors + tile.vectors + 1 <= target.vector_registers


def test_zero_points_of_columns_are_taken_off_the_sums() -> None:
    a, b, zeros = bytes_of(9, 33), bytes_of(33, 20, seed=1).astype(np.int16) - 128, np.arange(20, dtype=np.int32) - 9
    np.testing.assert_array_equal(product(a, b, 5, zeros), exact(a, b - zeros, 5))


def test_more_rows_than_a_block_has() -> None:
    k = 1000
    a, b = bytes_of(CAPACITY // k + 50, k), bytes_of(k, 20, seed=1).astype(np.int16) - 128
    np.testing.assert_array_equal(product(a, b), exact(a, b))


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(0, 50), st.integers(1, 60), st.integers(1, 9))
def test_any_number_of_parts_gives_the_same(m: int, k: int, n: int, parts: int) -> None:
    a, b = bytes_of(m, k), bytes_of(k, n, seed=1).astype(np.int16) - 128
    np.testing.assert_array_equal(product(a, b, 3, parts=parts), exact(a, b, 3))
