"""Products with panels of float16, called as native code: the bits are those of the same numbers as float32."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host
from ort_lite_cpu.kernels.gemm.float16 import FLOAT16_LOADS, is_float16, looks_float16, narrow, widen
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, WIDE, float16_gemm, gemm
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.pack import panels
from ort_lite_cpu.run.kernels import Kernels
from tests.cpu.test_gemm import at_the_end_of_a_page
from tests.native.calls import COMPILED, HASWELL, SKYLAKE_AVX512, call
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

HERE = [target for target in (host(), HASWELL, SKYLAKE_AVX512) if target.runs_on(host()) and target.has(FLOAT16_LOADS)]
KERNELS = Kernels(host())
NO_LIMITS = (-math.inf, math.inf, 0.0, 0.0)


def kernel(target: Target, half: bool, kind: str = "") -> Spec:
    statics = {"kind": kind, "tile": tile_for("f32", target)}
    return Spec(float16_gemm, ("f32", "u16", *["f32"] * 4), statics) if half else Spec(gemm, ("f32",) * 5, statics)


def halves(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers that are float16, subnormal ones among them."""
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float16)
    numbers.reshape(-1)[::7] *= np.float16(2.0**-16)
    return numbers.astype(np.float32)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(
    a: Array,
    b: Array,
    target: Target,
    half: bool,
    ends: Sequence[Array | None] = (None, None),
    limits: Sequence[float] = NO_LIMITS,
    kind: str = "",
    parts: int = 1,
) -> Array:
    columns = tile_for("f32", target).columns
    c, scratch = np.full((len(a), b.shape[1]), np.nan, np.float32), np.full(parts * WIDE * columns, np.nan, np.float32)
    packed = panels(narrow(b, KERNELS) if half else b, columns, KERNELS)
    operands = [a, packed, *ends, c, scratch][: 6 if half else 5]
    for part in range(parts):
        spec = kernel(target, half, kind)
        assert call(spec, operands, [*a.shape[:1], b.shape[1], a.shape[1], *limits], part, parts, target) == 0
    return c


@pytest.mark.parametrize("target", HERE, ids=lambda target: str(target.name))
@pytest.mark.parametrize("k", [0, 1, 5, DEPTH + 1, WIDE + 7])
def test_the_bits_are_those_of_float32_panels(k: int, target: Target) -> None:
    rows = tile_for("f32", target).rows
    for m in (1, 2, 3, rows, rows + 2, 2 * rows, 5 * rows + 1, 300):
        for n in (1, 16, 33, 200):
            a, b = random(m, k), halves(k, n, seed=1)
            want = product(a, b, target, False)
            np.testing.assert_array_equal(product(a, b, target, True), want)
            np.testing.assert_array_equal(product(a, b, target, True, parts=3), product(a, b, target, False, parts=3))
            np.testing.assert_allclose(want, a.astype(np.float64) @ b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("target", HERE, ids=lambda target: str(target.name))
@pytest.mark.parametrize("kind", ["", "Sigmoid"])
@pytest.mark.parametrize("m", [1, 4, 300])
def test_bias_residual_limits_and_activation(m: int, kind: str, target: Target) -> None:
    a, b, ends = random(m, 70), halves(70, 90, seed=1), (random(90, seed=2), random(m, 90, seed=3))
    want, got = (product(a, b, target, half, ends, (-1.0, 2.0, 0.0, 0.0), kind) for half in (False, True))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", HERE, ids=lambda target: str(target.name))
@pytest.mark.parametrize("m", [1, 40])
def test_nan_infinity_and_the_largest_numbers(m: int, target: Target) -> None:
    a, b = random(m, 20), halves(20, 70, seed=1)
    a[0, 3], b[1, 17], b[2, 18], b[3, 19] = np.nan, np.inf, -np.inf, 65504
    want, got = (product(a, b, target, half) for half in (False, True))
    np.testing.assert_array_equal(got, want)
    assert np.isnan(got[0]).all()
    assert m == 1 or (np.isinf(got[1:, 17:19]).all() and np.isfinite(got[1:, 19]).all())


@pytest.mark.skipif(not HERE, reason="this machine has no instruction that widens float16")
@pytest.mark.parametrize("m", [1, 40])
@pytest.mark.parametrize("n", [3, 70])
def test_nothing_behind_an_operand_is_touched(n: int, m: int) -> None:
    target, k = HERE[0], 11
    columns = tile_for("f32", target).columns
    a, b, c = random(m, k), halves(k, n, seed=1), np.zeros((m, n), np.float32)
    scratch = np.zeros(WIDE * columns, np.float32)
    guarded = [at_the_end_of_a_page(array) for array in (a, panels(narrow(b, KERNELS), columns, KERNELS), c, scratch)]
    operands = [*guarded[:2], None, None, *guarded[2:]]
    assert call(kernel(target, True), operands, [m, n, k, *NO_LIMITS], target=target) == 0
    np.testing.assert_array_equal(guarded[2], product(a, b, target, False))


@pytest.mark.parametrize(
    "target", [target for target in COMPILED if target.has(FLOAT16_LOADS)], ids=lambda target: str(target.name)
)
def test_every_target_with_such_loads_compiles_and_needs_no_symbol(target: Target) -> None:
    assert undefined_symbols(object_code(kernel(target, True), target)) == []


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (1, 1), (5, 70), (1100, 1000)], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_narrowed_and_widened_numbers_are_the_same(shape: tuple[int, int], turned: bool) -> None:
    b = halves(*shape)
    b = b.T if turned else b
    assert looks_float16(b) and is_float16(b, KERNELS)
    bits = narrow(b, KERNELS)
    assert (bits.shape, bits.dtype, bits.flags.f_contiguous) == (b.shape, np.dtype(np.uint16), b.flags.f_contiguous)
    assert widen(bits).tobytes() == b.tobytes()


@pytest.mark.parametrize("number", [np.nan, 1.0001, 65520.0, 1e-9, 2.0**-25, 1e38])
@pytest.mark.parametrize("size", [100, 1100])
def test_a_matrix_with_one_other_number_is_not_float16(size: int, number: float) -> None:
    b = halves(size, 1000)
    b[-1, -1] = number
    assert looks_float16(b) and not is_float16(b, KERNELS)
    b[0, 0] = number
    assert not looks_float16(b)
    assert not looks_float16(b.astype(np.float64))
