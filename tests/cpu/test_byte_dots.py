"""Products of bytes by instructions that multiply four of them, called as native code where this machine has one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host, parse_target
from ort_lite_cpu.kernels.gemm.byte_dots import DotTile, dot_gemm, dot_tile, pack_quads, per_column, quads
from ort_lite_cpu.kernels.gemm.integer import CAPACITY, FLIPS, scratch_size
from tests.native.calls import call
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

HASWELL = parse_target("haswell")
NARROW = HASWELL.replace(name="haswell with AVX-VNNI", features=f"{HASWELL.features},+avxvnni")
HAVE = {
    target.name: target
    for target in (NARROW, parse_target("sapphirerapids"), parse_target("armv8.2-a+dotprod"), host())
    if dot_tile(target) is not None
}
"""One for each width and kind of instruction, and this machine if it has one."""
HERE = [target for target in HAVE.values() if target.runs_on(host())]


def tile_of(target: Target) -> DotTile:
    tile = dot_tile(target)
    assert tile is not None
    return tile


def gemm(target: Target) -> Spec:
    return Spec(dot_gemm, ("u8", "u8", "i8", "i32", "i32", "i32", "u8"), {"tile": tile_of(target)})


def packing(target: Target) -> Spec:
    return Spec(pack_quads, ("u8", "u8", "i8", "i32", "i32"), {"tile": tile_of(target)})


def ramp(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def product(
    a: Array, b: Array, zero: Array | int = 0, away: Array | None = None, parts: int = 1, target: Target | None = None
) -> Array:
    """What the kernel makes of a (m, k), bytes, and b (k, n), int8; one zero point, or one a row."""
    target = target or HERE[-1]
    tile, (m, k), n = tile_of(target), a.shape, b.shape[1]
    zero = np.atleast_1d(np.asarray(zero, a.dtype))
    columns = [b.sum(0, dtype=np.int32), away]
    sums, points = (None if found is None else per_column(found, tile.columns) for found in columns)
    size = scratch_size(m, 4 * -(-k // 4), tile.rows)
    assert isinstance(size, int)
    c = np.full((m, n), -1, np.int32)
    scratch = np.empty((parts, size), np.uint8)
    operands = [a.view(np.uint8), zero.view(np.uint8), quads(b, tile.columns), sums, points, c, scratch]
    for part in range(parts):
        scalars = [1, m, n, k, 0, 0, int(zero.size > 1), FLIPS[a.dtype.name], size]
        assert call(gemm(target), operands, scalars, part, parts, target) == 0
    return c


def exact(a: Array, b: Array, zero: Array | int = 0) -> Array:
    total: Array = (a.astype(np.int32) - np.reshape(zero, (-1, 1))) @ b.astype(np.int32)
    return total


def test_quads_stand_beside_each_other() -> None:
    packed = quads(np.arange(15, dtype=np.int8).reshape(5, 3), 2)
    assert packed.shape == (2, 2, 2, 4)
    np.testing.assert_array_equal(packed[0], [[[0, 3, 6, 9], [1, 4, 7, 10]], [[12, 0, 0, 0], [13, 0, 0, 0]]])
    np.testing.assert_array_equal(packed[1, 0], [[2, 5, 8, 11], [0, 0, 0, 0]])


@pytest.mark.parametrize("target", HAVE.values(), ids=HAVE)
def test_every_target_compiles_and_needs_no_symbol(target: Target) -> None:
    for spec in (gemm(target), packing(target)):
        assert undefined_symbols(object_code(spec, target)) == []


if HERE:  # a machine without has other kernels, and nothing of these to run

    @pytest.mark.parametrize("kind", ["uint8", "int8"])
    @pytest.mark.parametrize("n", [1, 17, 40])
    @pytest.mark.parametrize("m", range(19))
    def test_every_edge_of_rows_and_columns(m: int, n: int, kind: str) -> None:
        a, b = ramp(m, 24).view(np.dtype(kind)), ramp(24, n, seed=1).view(np.int8)
        np.testing.assert_array_equal(product(a, b, 7), exact(a, b, 7))

    @pytest.mark.parametrize("target", HERE, ids=lambda target: str(target.name))
    @pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 255])
    def test_every_depth_on_every_target_that_runs_here(k: int, target: Target) -> None:
        a, b = ramp(13, k), ramp(k, 37, seed=1).view(np.int8)
        np.testing.assert_array_equal(product(a, b, 200, target=target), exact(a, b, 200))

    def test_the_largest_sums_do_not_saturate() -> None:
        for byte in (-128, 127):
            a, b = np.zeros((15, 4096), np.uint8) + np.uint8(255), np.zeros((4096, 20), np.int8) + np.int8(byte)
            np.testing.assert_array_equal(product(a, b), exact(a, b))

    def test_zero_points_of_rows_and_columns_are_taken_off_the_sums() -> None:
        a, b, away = ramp(16, 33), ramp(33, 20, seed=1).view(np.int8), np.arange(20, dtype=np.int32) - 9
        for zero in (np.arange(16), 5):
            np.testing.assert_array_equal(product(a, b, zero, away), exact(a, b.astype(np.int32) - away, zero))

    def test_more_rows_than_a_block_has() -> None:
        a, b = ramp(CAPACITY // 1000 + 50, 1000), ramp(1000, 20, seed=1).view(np.int8)
        np.testing.assert_array_equal(product(a, b), exact(a, b))

    @settings(max_examples=40)
    @given(st.integers(1, 60), st.integers(0, 50), st.integers(1, 60), st.integers(1, 9))
    def test_any_number_of_parts_gives_the_same(m: int, k: int, n: int, parts: int) -> None:
        a, b = ramp(m, k), ramp(k, n, seed=1).view(np.int8)
        np.testing.assert_array_equal(product(a, b, 3, parts=parts), exact(a, b, 3))

    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize(("k", "n"), [(1, 1), (6, 33), (9, 40)])
    def test_packed_in_the_run_is_as_packed_before(k: int, n: int, turned: bool) -> None:
        target, w, zeros = HERE[-1], ramp(k, n), ramp(n, seed=2)
        tile = tile_of(target)
        want, wide = quads((w ^ 128).view(np.int8), tile.columns), -(-n // tile.columns) * tile.columns
        out, sums, away = np.empty_like(want), np.empty(wide, np.int32), np.empty(wide, np.int32)
        given_, steps = (np.ascontiguousarray(w.T), [1, 0, k]) if turned else (w, [n, 0, 1])
        assert call(packing(target), [given_, zeros, out, sums, away], [1, k, n, k, 0, *steps, 0, 1, 0], target=target) == 0
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(sums, per_column((w ^ 128).view(np.int8).sum(0, dtype=np.int32), tile.columns))
        np.testing.assert_array_equal(away[:n], zeros.astype(np.int32) - 128)
