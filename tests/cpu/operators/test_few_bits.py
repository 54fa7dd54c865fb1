"""MatMulNBits with weights of 2, 4 and 8 bits, against the formula in float64, and the error of accuracy level 4."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.native.cpu import runnable
from tests.cpu.check import op_program, ramp, run_op
from tests.cpu.operators.test_matmul_n_bits import HOW, operands
from tests.cpu.ort import ort_op

QUANTIZES = runnable("host").has_byte_products
SHAPES = [(1, 40, 16), (17, 96, 32), (65, 200, 64), (65, 320, 128), (17, 300, 256), (300, 96, 32)]


def split(packed: Array, bits: int) -> Array:
    parts = packed.reshape(len(packed), -1, 1) >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)
    codes: Array = parts.reshape(len(packed), -1).astype(np.float64)
    return codes


def product(a: Array, given: list[Array | None], k: int, size: int, bits: int) -> Array:
    """a (m, k) @ ((codes - zeros) * scales).T in float64."""
    packed, scales, zeros = given
    assert packed is not None and scales is not None
    block, points = np.arange(k) // size, np.full(scales.shape, 1 << (bits - 1), np.float64)
    if zeros is not None:
        points = split(zeros, bits)[:, : scales.shape[1]] if zeros.dtype == np.uint8 else zeros.astype(np.float64)
    weights: Array = (split(packed, bits)[:, :k] - points[:, block]) * scales[:, block]
    result: Array = a.astype(np.float64) @ weights.T
    return result


def quantized(a: Array, size: int) -> Array:
    """a (m, k), each block rounded to a 127th of its largest magnitude."""
    out = np.zeros(a.shape)
    for start in range(0, a.shape[1], size):
        own = a[:, start : start + size]
        largest = np.abs(own).max(axis=1, keepdims=True)
        inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
        scale = (largest / np.float32(127)).astype(np.float64)
        out[:, start : start + size] = np.rint(own * inverse) * scale
    return out


def activations(rows: int, k: int) -> Array:
    a: Array = np.random.default_rng(rows).standard_normal((rows, k), np.float32)
    a[rows // 2, :17] = 0  # a whole block of 16
    return a


@pytest.mark.parametrize("level", [0, 1, 4])
@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("n", "k", "size"), SHAPES)
def test_products_are_those_of_the_formula(n: int, k: int, size: int, bits: int, zeros: str, level: int) -> None:
    """Levels 0 and 1 multiply the activations as they are, and so does level 4 by floats; else it multiplies 8 bits of them."""
    given = operands(n, k, size, bits, zeros)
    constants = [i for i, array in enumerate(given, 1) if array is not None]
    how: dict[str, Any] = {"N": n, "K": k, "block_size": size, "bits": bits, "accuracy_level": level}
    bias = ramp((n,)) if n in (17, 300) else None
    program = op_program("MatMulNBits", [activations(2, k), *given, None, bias], how, constants=[*constants, 5], **HOW)
    for rows in (1, 2, 3, 5, 46):
        a = activations(rows, k)
        used = quantized(a, size) if QUANTIZES and level == 4 and zeros != "float32" else a
        [got] = program([a])
        expected = product(used, given, k, size, bits) + (0 if bias is None else bias)
        bound = product(np.abs(a), [given[0], given[1], np.zeros((n, -(-k // size)), np.float32)], k, size, bits)
        assert np.all(np.abs(got - expected) <= 2e-6 * bound + 1e-6)


@pytest.mark.parametrize("zeros", ["", "uint8"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_threads_and_known_sizes_give_the_same_bits(bits: int, zeros: str) -> None:
    given, a = operands(333, 200, 32, bits, zeros), activations(7, 200)
    how: dict[str, Any] = {"N": 333, "K": 200, "block_size": 32, "bits": bits, "accuracy_level": 4}
    constants = [i for i, array in enumerate(given, 1) if array is not None]
    for rows in (1, 7):
        first, *others = (
            run_op("MatMulNBits", [a[:rows], *given], how, constants=constants, fixed=fixed, threads=threads, **HOW)[0]
            for fixed, threads in ((False, 1), (True, 1), (False, 2), (False, 3))
        )
        assert all(first.tobytes() == other.tobytes() for other in others)


@pytest.mark.parametrize("size", [16, 32, 128, 256])
@pytest.mark.parametrize(("bits", "zeros"), [(4, ""), (4, "uint8"), (4, "float32"), (8, ""), (8, "uint8")])
def test_level_4_is_as_exact_as_onnxruntime(bits: int, zeros: str, size: int) -> None:
    given, a = operands(33, 507, size, bits, zeros), activations(3, 507)
    how: dict[str, Any] = {"N": 33, "K": 507, "block_size": size, "bits": bits, "accuracy_level": 4}
    constants = [i for i, array in enumerate(given, 1) if array is not None]
    exact = product(a, given, 507, size, bits)
    [got] = op_program("MatMulNBits", [a, *given], how, constants=constants, **HOW)([a])
    [theirs] = ort_op("MatMulNBits", [a, *given], how, constants=constants, **HOW)
    rounding = 1e-6 * np.abs(exact).max()
    assert np.abs(got - exact).max() <= np.abs(theirs - exact).max() + rounding


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_block_that_is_not_finite_gives_nan_in_its_row(value: float) -> None:
    given, a = operands(17, 96, 32, 4, ""), activations(3, 96)
    how: dict[str, Any] = {"N": 17, "K": 96, "block_size": 32, "bits": 4, "accuracy_level": 4}
    program = op_program("MatMulNBits", [a, *given], how, constants=[1, 2], **HOW)
    [finite] = program([a])
    a[1, 40] = value
    [got] = program([a])
    assert not np.isfinite(got[1]).any() and (not QUANTIZES or np.isnan(got[1]).all())
    assert np.array_equal(got[[0, 2]], finite[[0, 2]])


@pytest.mark.parametrize("scale", [1e-42, 1e-37, 1e30])
def test_small_and_large_activations_stay_in_range(scale: float) -> None:
    given, a = operands(17, 96, 32, 4, ""), (activations(3, 96) * scale).astype(np.float32)
    how: dict[str, Any] = {"N": 17, "K": 96, "block_size": 32, "bits": 4, "accuracy_level": 4}
    [got] = op_program("MatMulNBits", [a, *given], how, constants=[1, 2], **HOW)([a])
    assert np.abs(got - product(a, given, 96, 32, 4)).max() <= max(0.5 * scale, 1e-34)
