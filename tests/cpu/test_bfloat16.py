"""Products of bfloat16, called as native code where this machine has instructions for them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host, parse_target
from ort_lite_cpu.kernels.gemm.bfloat16 import LEFT, STRIP_TILES, bfloat16_gemm
from ort_lite_cpu.kernels.gemm.bfloat16_tile import (
    Bfloat16Tile,
    bfloat16_tile,
    is_bfloat16,
    pack_bfloat16,
    pack_constant,
    unpack_constant,
)
from ort_lite_cpu.kernels.gemm.integer import scratch_size
from tests.native.assembly import inner_loops
from tests.native.calls import call
from tests.native.compiled import compiled_assembly, object_code
from tests.native.elf import undefined_symbols

TARGETS = [parse_target("znver4"), parse_target("sapphirerapids")]
HERE = [target for target in TARGETS if target.runs_on(host())]
NAMES = [target.name for target in HERE]
SHAPES = [(m, k, n) for m in (1, 3, 5, 14, 33, 70) for k in (1, 2, 31, 64) for n in (1, 16, 33)]


def tile_of(target: Target) -> Bfloat16Tile:
    tile = bfloat16_tile(target)
    assert tile is not None
    return tile


def gemm(target: Target, biased: bool = False, result: str = "f32") -> Spec:
    return Spec(bfloat16_gemm, ("u16", "u16", "f32", result, "u16", "f32"), {"biased": biased, "tile": tile_of(target)})


def bits_of(x: Array) -> Array:
    """Return the bits of float32 numbers that are bfloat16."""
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def drawn(*shape: int, seed: int = 0) -> Array:
    """Return normal numbers that are bfloat16, as float32."""
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def product(a: Array, b: Array, target: Target, bias: Array | None = None, parts: int = 1, result: str = "f32") -> Array:
    """Return what the kernel makes of a (m, k), b (k, n) and bias (n,)."""
    tile, (m, k), n = tile_of(target), a.shape, b.shape[1]
    size = scratch_size(m, tile.pitch(k), tile.rows, LEFT)
    assert isinstance(size, int)
    c = np.full((m, n), 7, np.float32 if result == "f32" else np.uint16)
    sums = np.full((parts, STRIP_TILES * tile.rows, tile.columns), np.nan, np.float32)
    operands = [bits_of(a), pack_constant(b, tile), bias, c, np.full((parts, size), 0x7FC0, np.uint16), sums]
    for part in range(parts):
        scalars = [m, n, k, k, size, 1, 1, 1, 0, 0, 0, 0, 0, 0]
        assert call(gemm(target, bias is not None, result), operands, scalars, part, parts, target) == 0
    return c


def assert_near(got: Array, a: Array, b: Array, bias: Array | float = 0.0) -> None:
    """Compare with float64, to within what float32 sums in any order may differ by."""
    wide, most = a.astype(np.float64) @ b + bias, np.abs(a).astype(np.float64) @ np.abs(b) + np.abs(bias)
    np.testing.assert_array_less(np.abs(got - wide), (a.shape[1] + 1) * 2.0**-24 * most + 1e-30)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))
def test_every_target_compiles_and_needs_no_symbol(target: Target) -> None:
    specs = [gemm(target, True, "u16"), gemm(target), Spec(pack_bfloat16, ("u16", "u16"), {"tile": tile_of(target)})]
    for spec in specs:
        assert undefined_symbols(object_code(spec, target)) in ([], ["memset"])


def test_tiles_have_four_products_in_their_inner_loop() -> None:
    text = compiled_assembly(gemm(TARGETS[1]), TARGETS[1])
    counts = [[line.split()[0] for line in loop.lines].count("tdpbf16ps") for loop in inner_loops(text)]
    assert {count for count in counts if count} == {2, 4}  # the halves of 32 rows, or one


def test_vectors_multiply_once_for_each_accumulator() -> None:
    tile, text = tile_of(TARGETS[0]), compiled_assembly(gemm(TARGETS[0]), TARGETS[0])
    loops = [(loop, [line.split()[0] for line in loop.lines].count("vdpbf16ps")) for loop in inner_loops(text)]
    assert {count for _, count in loops if count} == {tile.rows * tile.vectors, tile.few * tile.vectors}
    assert [line for loop, count in loops if count for line in loop.spilled()] == []


def test_pairs_stand_beside_each_other() -> None:
    b, tile = np.arange(1, 7, dtype=np.float32).reshape(3, 2), tile_of(TARGETS[0])._replace(vectors=1, lanes=2)
    np.testing.assert_array_equal(pack_constant(b, tile), bits_of(np.array([[[[1, 3], [2, 4]], [[5, 0], [6, 0]]]], np.float32)))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))
@pytest.mark.parametrize(("k", "n"), [(1, 1), (31, 33), (64, 70)])
def test_packed_constants_are_restored_bit_for_bit(k: int, n: int, target: Target) -> None:
    b = drawn(k, n)
    b[0, 0] = np.float32(-0.0)
    assert is_bfloat16(b) and not is_bfloat16(b + np.float32(1 + 2**-20))
    np.testing.assert_array_equal(unpack_constant(pack_constant(b, tile_of(target)), k, n).view(np.uint32), b.view(np.uint32))


if HERE:  # a machine without has other kernels, and nothing of these to run

    @pytest.mark.parametrize("target", HERE, ids=NAMES)
    @pytest.mark.parametrize(("m", "k", "n"), SHAPES)
    def test_products_of_all_edges(m: int, k: int, n: int, target: Target) -> None:
        a, b = drawn(m, k), drawn(k, n, seed=1)
        assert_near(product(a, b, target), a, b)

    @settings(max_examples=60)
    @given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 70), st.integers(1, 5), st.sampled_from(HERE))
    def test_any_number_of_parts_gives_the_same_bits(m: int, k: int, n: int, parts: int, target: Target) -> None:
        a, b, bias = drawn(m, k), drawn(k, n, seed=1), drawn(n, seed=2)
        whole = product(a, b, target, bias)
        assert_near(whole, a, b, bias)
        np.testing.assert_array_equal(product(a, b, target, bias, parts), whole)

    @pytest.mark.parametrize("target", HERE, ids=NAMES)
    @pytest.mark.parametrize("m", [1, 40])
    def test_a_long_sum_is_a_sum_of_pieces(m: int, target: Target) -> None:
        """The error of numbers of one sign grows with the length of a chain of additions: here to 0.5 units of 2 ** -24 of 4,096."""
        a, b = np.abs(drawn(m, 5000)), np.abs(drawn(5000, 33, seed=1))
        exact = a.astype(np.float64) @ b
        assert np.max(np.abs(product(a, b, target) - exact) / exact) < 2.0**-24 * 30

    @pytest.mark.parametrize("target", HERE, ids=NAMES)
    @pytest.mark.parametrize("k", [40, 700])
    def test_results_are_rounded_to_nearest_even(k: int, target: Target) -> None:
        a, b, bias = drawn(35, k), drawn(k, 50, seed=1), drawn(50, seed=2)
        wide = product(a, b, target, bias)
        want = wide.astype(bfloat16)
        np.testing.assert_array_equal(product(a, b, target, bias, result="u16").view(bfloat16), want)

    @pytest.mark.parametrize("target", HERE, ids=NAMES)
    def test_special_numbers(target: Target) -> None:
        a = np.array([[np.inf, 1], [np.nan, 1], [-np.inf, 1], [2.0**127, 2.0**127], [2.0**-130, 0]], np.float32)
        b = np.array([[0, 1, 2], [1, 1, 0]], np.float32)
        want = [[np.nan, np.inf, np.inf], [np.nan] * 3, [np.nan, -np.inf, -np.inf], [2.0**127, np.inf, np.inf], [0, 0, 0]]
        np.testing.assert_array_equal(product(a, b, target), np.array(want, np.float32))

    @pytest.mark.parametrize("target", HERE, ids=NAMES)
    @pytest.mark.parametrize("order", ["rows", "columns", "neither"])
    @pytest.mark.parametrize(("k", "n"), [(1, 1), (2, 32), (6, 33), (45, 70), (64, 64)])
    def test_packed_in_the_run_is_as_packed_before(k: int, n: int, order: str, target: Target) -> None:
        tile, w = tile_of(target), np.stack([drawn(k, n), drawn(k, n, seed=1)])
        want = np.stack([pack_constant(b, tile) for b in w])
        steps = {"rows": (n, 1), "columns": (1, k), "neither": (2 * n, 2)}[order]
        memory = np.full((2, 2 * k * n), 0x7FC0, np.uint16)
        for i in range(2):
            np.lib.stride_tricks.as_strided(memory[i], (k, n), [2 * step for step in steps])[...] = bits_of(w[i])
        out = np.full_like(want, 7)
        for part in range(3):
            spec = Spec(pack_bfloat16, ("u16", "u16"), {"tile": tile})
            assert call(spec, [memory, out], [1, 1, 2, 0, 0, 2 * k * n, k, n, *steps], part, 3, target) == 0
        np.testing.assert_array_equal(out, want)
