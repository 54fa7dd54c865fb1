"""Products of bytes by instructions that multiply four of them or tiles of them, called as native code for targets that run here."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, parse_target
from ort_lite_cpu.kernels.gemm.byte_dots import few_fill
from ort_lite_cpu.kernels.gemm.byte_tile import BLOCK, column_terms, pack_quads, quads
from ort_lite_cpu.kernels.gemm.integer_epilogue import BIASED_FLOATS, FLOATS, SIGNED_BYTES, UNSIGNED_BYTES
from tests.cpu.byte_products import (
    DOTS,
    HERE,
    RESULTS,
    SIGNS,
    Step,
    Sweep,
    bytes_of,
    dtype_of,
    exact,
    pack,
    product,
    quads_spec,
    tile_of,
    wrap,
)
from tests.native.calls import call, evaluate
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

BYTE_EDGES = (0, 1, 127, 128, 129, 255)
on_every_target = pytest.mark.parametrize("target", HERE.values(), ids=HERE)
of_both_signs = pytest.mark.parametrize("left", SIGNS)


def packing(target: Target) -> Spec:
    return Spec(pack_quads, ("u8", "u8", "i8", "i32"), {"tile": tile_of(target)})


def depths() -> list[int]:
    """Values of k on both sides of each 64 up to 5,000, where steps, pieces and blocks end."""
    draw = np.random.default_rng(3)
    steps = [*range(1, 13), 16, 17, 24, 32, 33, 48, 64, 65, *draw.integers(1, 79, 6)]
    return sorted(
        {max(64 * int(step) + away, 0) for step in steps for away in (-1, 0, 1)} | {int(k) for k in draw.integers(1, 5000, 6)}
    )


def test_quads_stand_beside_each_other() -> None:
    tile = tile_of(DOTS["x86-64-v3+avxvnni"])._replace(vectors=1, lanes=2)
    packed = quads(np.arange(15, dtype=np.int8).reshape(5, 3), tile)
    assert packed.shape == (2, 2, 2, 4)
    np.testing.assert_array_equal(packed[0], [[[0, 3, 6, 9], [1, 4, 7, 10]], [[12, 0, 0, 0], [13, 0, 0, 0]]])
    np.testing.assert_array_equal(packed[1, 0], [[2, 5, 8, 11], [0, 0, 0, 0]])


def test_quads_of_tiles_fill_whole_steps() -> None:
    tile = tile_of(DOTS["x86-64-v4+avx512vnni+amx"])
    for k, depth in ((1, 16), (61, 16), (64, 16), (65, 32)):
        b = bytes_of(k, 33, dtype="int8")
        packed = quads(b, tile)
        assert packed.shape == (2, depth, 32, 4) and tile.depth(k) == depth
        np.testing.assert_array_equal(packed.transpose(1, 3, 0, 2).reshape(4 * depth, 64)[:k, :33], b)
        assert np.abs(packed.astype(int)).sum() == np.abs(b.astype(int)).sum()


@pytest.mark.parametrize("target", DOTS.values(), ids=DOTS)
def test_every_target_compiles_and_needs_no_symbol(target: Target) -> None:
    for spec in (*(quads_spec(form, tile_of(target, left)) for form in RESULTS for left in SIGNS), packing(target)):
        assert undefined_symbols(object_code(spec, target)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("znver4", {16}), ("x86-64-v3+avxvnni", {8}), ("neoverse-n1", {12}), ("x86-64-v4+avx512vnni+amx", set())],
)
def test_tiles_of_few_rows_fill_what_a_whole_tile_would_not(name: str, expected: set[int]) -> None:
    """16 rows are four tiles of 4 instead of one of 14 and one of which half is of no use."""
    assert {m for m in range(100) if few_fill(m, tile_of(parse_target(name)))} == expected


@of_both_signs
@on_every_target
def test_every_size_of_each_dimension(target: Target, left: str) -> None:
    Sweep(left).check(target)


@of_both_signs
@on_every_target
def test_long_sums(target: Target, left: str) -> None:
    a, b = bytes_of(35, 5000, seed=4, dtype=left), bytes_of(5000, 70, seed=5, dtype="int8")
    for k in depths():
        m, n = 1 + k % 35, 1 + k % 70
        np.testing.assert_array_equal(product(a[:m, :k], pack(b[:k, :n], target), target, 7), exact(a[:m, :k], b[:k, :n], 7))


@of_both_signs
@on_every_target
def test_sums_at_the_edges_of_bytes_do_not_saturate(target: Target, left: str) -> None:
    for byte, other in itertools.product(BYTE_EDGES, repeat=2):
        a, b = np.full((33, 4096), byte, np.uint8).view(left), np.full((4096, 34), other, np.uint8).view(np.int8)
        for zero in BYTE_EDGES:
            point = np.full(1, zero, np.uint8).view(left)
            total = (int(a[0, 0]) - int(point[0])) * int(b[0, 0]) * 4096
            np.testing.assert_array_equal(product(a[:: 32 - zero % 2], pack(b, target), target, point), wrap(total))


@of_both_signs
@on_every_target
def test_sums_beyond_32_bits_wrap(target: Target, left: str) -> None:
    a = np.full((17, 70001), 255 if left == "uint8" else -128, left)
    b = np.full((70001, 3), -128, np.int8)
    zero = 0 if left == "uint8" else 127
    assert 255 * 128 * len(b) > 2**31
    np.testing.assert_array_equal(product(a, pack(b, target), target, zero), exact(a, b, zero))
    addends = np.array([2**31 - 1, -(2**31), 5], np.int32)
    got = product(a[:, :64], pack(b[:64], target, addends=addends), target)
    np.testing.assert_array_equal(got, wrap(a[:, :64].astype(np.float64) @ b[:64] + addends))


@of_both_signs
@on_every_target
def test_zero_points_of_rows_and_columns_are_taken_off_the_sums(target: Target, left: str) -> None:
    for m, k, n in ((1, 1, 1), (16, 33, 20), (33, 64, 65), (70, 130, 33), (40, 700, 3)):
        a, b, away = (
            bytes_of(m, k, dtype=left),
            bytes_of(k, n, seed=1, dtype="int8"),
            np.arange(n, dtype=np.int32) * 7 % 255 - 127,
        )
        for zero in (bytes_of(m, seed=2, dtype=left), 5):
            np.testing.assert_array_equal(product(a, pack(b, target), target, zero), exact(a, b, zero))
            np.testing.assert_array_equal(product(a, pack(b, target, away), target, zero), exact(a, b, zero, away))


@of_both_signs
@on_every_target
def test_matrices_in_batches_share_an_operand_or_not(target: Target, left: str) -> None:
    for m, k, n in ((5, 7, 9), (33, 64, 40), (32, 128, 32)):
        a, b = bytes_of(3, m, k, dtype=left), bytes_of(3, k, n, seed=1, dtype="int8")
        for x, y in ((a, b), (a, b[:1]), (a[:1], b)):
            want = [exact(x[i % len(x)], y[i % len(y)], 9) for i in range(3)]
            np.testing.assert_array_equal(product(x, pack(y, target), target, 9, parts=2), want)


@of_both_signs
@on_every_target
def test_rows_may_begin_anywhere(target: Target, left: str) -> None:
    a, b = bytes_of(66, 128, dtype=left), bytes_of(128, 33, seed=1, dtype="int8")
    right, want = pack(b, target), exact(a, b, 3)
    for gap, m in itertools.product(range(65), (1, 5, 32, 66)):
        np.testing.assert_array_equal(product(a[:m], right, target, 3, gap=gap), want[:m])


@of_both_signs
@on_every_target
def test_more_rows_than_a_block_has(target: Target, left: str) -> None:
    for k in (1000, 1024):
        a, b = bytes_of(BLOCK // k + 50, k, dtype=left), bytes_of(k, 20, seed=1, dtype="int8")
        np.testing.assert_array_equal(product(a, pack(b, target), target), exact(a, b))


@on_every_target
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 140), st.integers(0, 260), st.integers(1, 140), st.integers(1, 9), st.sampled_from(SIGNS))
def test_any_number_of_parts_gives_the_same(target: Target, m: int, k: int, n: int, parts: int, left: str) -> None:
    a, b = bytes_of(m, k, dtype=left), bytes_of(k, n, seed=1, dtype="int8")
    np.testing.assert_array_equal(product(a, pack(b, target), target, 3, parts=parts), exact(a, b, 3))


# --- Results
FORMULAS = {
    FLOATS: 'cast(x, "f32") * y',
    UNSIGNED_BYTES: 'quantize(cast(x, "f32") * y, cast(z, "f32"), "u8")',
    SIGNED_BYTES: 'quantize(cast(x, "f32") * y, cast(z, "f32"), "i8")',
}
"""By form, the expression that a product's last step is where no kernel has it: of sums, factors, and zero point."""
FACTORS = (1e-3, 0.037, -2e-3, 1.0, 0.5, 1e30, -1e30, 1e-38, 1e-45, 0.0, -0.0, np.inf, -np.inf, np.nan)
"""Factors of usual sizes, ones that leave half steps and saturate, and all that floats have."""


def formula(form: int, total: Array, step: Step, target: Target) -> Array:
    assert step.factors is not None
    if form == BIASED_FLOATS:
        assert step.bias is not None
        with np.errstate(all="ignore"):
            biased: Array = total.astype(np.float32) * step.factors + step.bias
        return biased
    given = [np.broadcast_to(x, total.shape) for x in (total, step.factors, np.full(1, step.zero, np.float32))]
    return evaluate(FORMULAS[form], dtype_of(form), *given, module="ort_lite_cpu.kernels.elementwise", target=target)


@pytest.mark.parametrize("form", [*FORMULAS, BIASED_FLOATS])
@of_both_signs
@on_every_target
def test_results_are_bit_for_bit_those_of_the_formulas(target: Target, left: str, form: int) -> None:
    zeros = {UNSIGNED_BYTES: (0.0, 3.0, 128.0, 255.0), SIGNED_BYTES: (-128.0, 0.0, 7.0, 127.0)}.get(form, (0.0,))
    for m, k, n in ((1, 1, 1), (4, 70, 31), (33, 64, 40), (70, 130, 65)):
        a, b = bytes_of(m, k, dtype=left), bytes_of(k, n, seed=1, dtype="int8")
        bias = (
            np.resize(np.array([0.5, -1e5, 3e38, np.nan, np.inf, -0.0, 1e-40], np.float32), n)
            if form == BIASED_FLOATS
            else None
        )
        addends = np.arange(n, dtype=np.int32) * 1000003
        right, total = pack(b, target, addends=addends), wrap((a.astype(np.float64) - 11) @ b.astype(np.float64) + addends)
        each = [np.array([factor], np.float32) for factor in FACTORS]
        for factors in (*each, np.resize(np.array(FACTORS, np.float32), n)):
            for zero in zeros:
                step = Step(form, factors, bias, zero)
                got, want = product(a, right, target, 11, step), formula(form, total, step, target)
                np.testing.assert_array_equal(
                    got.view(f"u{got.itemsize}"), want.view(f"u{got.itemsize}"), f"{(m, k, n)} {step}"
                )


@on_every_target
def test_bytes_are_rounded_half_to_even_and_saturated(target: Target) -> None:
    a, b = np.arange(256, dtype=np.uint8)[:, None], np.array([[1, -1, 3]], np.int8)
    total = a.astype(np.float64) @ b
    for form, zero in ((UNSIGNED_BYTES, 100.0), (SIGNED_BYTES, -3.0)):
        got = product(a, pack(b, target), target, 0, Step(form, np.array([0.5], np.float32), zero=zero), parts=3)
        limits = np.iinfo(dtype_of(form))
        np.testing.assert_array_equal(got, np.clip(np.rint(total * 0.5) + zero, limits.min, limits.max))
        assert {int(got.min()), int(got.max())} & {limits.min, limits.max}


# --- Packing at run time
@pytest.mark.parametrize("turned", [False, True])
@of_both_signs
@on_every_target
def test_packed_in_the_run_is_as_packed_before(target: Target, left: str, turned: bool) -> None:
    tile, flip = tile_of(target), 128 if left == "int8" else 0
    for k, n in ((1, 1), (6, 33), (9, 40), (64, 32), (65, 64), (130, 31)):
        w, zeros = bytes_of(k, n, dtype=left), bytes_of(n, seed=2, dtype=left)
        signed = (w.view(np.uint8) ^ (128 - flip)).view(np.int8)
        out = np.empty_like(quads(signed, tile))
        away = (zeros.view(np.uint8) ^ (128 - flip)).view(np.int8).astype(np.int32)
        want = column_terms(signed.sum(0, dtype=np.int32), tile, None, away)
        terms = np.empty_like(want)
        given_, steps = (np.ascontiguousarray(w.T), [1, 0, k]) if turned else (w, [n, 0, 1])
        operands, scalars = [given_.view(np.uint8), zeros.view(np.uint8), out, terms], [1, k, n, k, 0, *steps, 0, 1, flip]
        assert call(packing(target), operands, scalars, target=target) == 0
        np.testing.assert_array_equal(out, quads(signed, tile))
        np.testing.assert_array_equal(terms[:, :n], want[:, :n])
