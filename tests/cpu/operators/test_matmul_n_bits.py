"""MatMulNBits, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp, run_op
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def operands(n: int, k: int, size: int, bits: int, zeros: str) -> list[Array | None]:
    rng, blocks = np.random.default_rng(k), -(-k // size)
    packed = rng.integers(0, 256, (n, blocks, size * bits // 8), np.uint8)
    scales = rng.uniform(0.1, 1, (n, blocks)).astype(np.float32)
    given: Array | None = None
    if zeros == "uint8":
        given = rng.integers(0, 256, (n, -(-blocks * bits // 8)), np.uint8)
    elif zeros:
        given = rng.uniform(0, 1 << bits, (n, blocks)).astype(zeros)
    return [packed, scales, given]


def check(a: Array, *others: Array | None, constants: tuple[int, ...] = (1, 2, 3, 4, 5), **attributes: int) -> None:
    want = ort_op("MatMulNBits", [a, *others], attributes, **HOW)
    given = [k for k in constants if k <= len(others) and others[k - 1] is not None]
    check_op("MatMulNBits", a, *others, expected=want, constants=given, rtol=1e-4, atol=1e-4, **attributes, **HOW)


@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
@pytest.mark.parametrize(("n", "k", "size"), [(8, 64, 32), (5, 40, 16), (16, 48, 32)])
def test_four_bits(n: int, k: int, size: int, zeros: str) -> None:
    check(ramp((2, 3, k)), *operands(n, k, size, 4, zeros), N=n, K=k, block_size=size, bits=4)


@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 9, 31])
def test_any_number_of_rows(rows: int, zeros: str) -> None:
    """More than one piece of the depth, whose last block and word are not full, and columns for more than one panel."""
    a, bias = np.random.default_rng(rows).standard_normal((rows, 1002), np.float32), ramp((70,))
    check(a, *operands(70, 1002, 32, 4, zeros), None, bias, N=70, K=1002, block_size=32, bits=4)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(threads: int) -> None:
    weights, how = operands(333, 96, 32, 4, "uint8"), {"N": 333, "K": 96, "block_size": 32, "bits": 4}
    one, many = (
        op_program("MatMulNBits", [ramp((2, 96)), *weights], how, constants=[1, 2, 3], threads=n, **HOW) for n in (1, threads)
    )
    for rows in (1, 6, 40):
        a = np.random.default_rng(rows).standard_normal((rows, 96), np.float32)
        assert one([a])[0].tobytes() == many([a])[0].tobytes()


@pytest.mark.parametrize("zeros", ["", "uint8"])
def test_eight_bits(zeros: str) -> None:
    check(ramp((3, 64)), *operands(6, 64, 32, 8, zeros), N=6, K=64, block_size=32, bits=8)


@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("zeros", [None, 128])
def test_small_weights_of_eight_bits_lose_nothing_to_their_zero_point(zeros: int | None, rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, codes = rng.standard_normal((rows, 64), np.float32), rng.integers(119, 138, (6, 2, 32), np.uint8)
    scales = rng.uniform(0.1, 1, (6, 2)).astype(np.float32)
    given = None if zeros is None else np.full((6, 2), zeros, np.uint8)
    how = {"N": 6, "K": 64, "block_size": 32, "bits": 8}
    [got] = run_op("MatMulNBits", [a, codes, scales, given], how, **HOW, constants=[1, 2, 3][: 2 + (given is not None)])
    weights = ((codes - 128.0) * scales[..., None].astype(np.float64)).reshape(6, 64).T
    assert np.all(np.abs(got - a @ weights) <= 1e-6 * (np.abs(a) @ np.abs(weights)) / 2)


def test_two_bits() -> None:
    packed, scales, _ = operands(6, 64, 32, 2, "")
    assert packed is not None and scales is not None
    codes = (packed[..., None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3).reshape(6, 2, 32).astype(np.float32)
    weights = ((codes - 2) * scales[..., None]).reshape(6, 64)
    a = ramp((3, 64))
    how = {"N": 6, "K": 64, "block_size": 32, "bits": 2, **HOW}
    check_op("MatMulNBits", a, packed, scales, constants=[1, 2], expected=a @ weights.T, rtol=1e-4, atol=1e-4, **how)


def test_a_bias_and_groups_in_another_order() -> None:
    groups = np.random.default_rng(0).permutation(np.arange(64) // 32).astype(np.int32)
    check(ramp((3, 64)), *operands(8, 64, 32, 4, ""), groups, N=8, K=64, block_size=32, bits=4)
    check(ramp((3, 64)), *operands(8, 64, 32, 4, "uint8"), None, ramp((8,)), N=8, K=64, block_size=32, bits=4)


def test_groups_may_be_those_of_whole_blocks() -> None:
    groups = np.random.default_rng(0).permutation(np.arange(96) // 32).astype(np.int32)
    check(ramp((3, 70)), *operands(8, 70, 32, 4, ""), groups, N=8, K=70, block_size=32, bits=4)


def test_groups_have_zero_points_too() -> None:
    """Which onnxruntime does not look at then."""
    packed, scales = np.full((2, 2, 8), 0x99, np.uint8), np.ones((2, 2), np.float32)
    zeros = np.array([[0x21], [0x54]], np.uint8)
    groups = np.array([0, 1] * 16, np.int32)
    how = {"N": 2, "K": 32, "block_size": 16, "bits": 4, **HOW}
    identity = np.eye(32, dtype=np.float32)
    want = np.where(groups == 0, [[8], [5]], [[7], [4]]).astype(np.float32)
    check_op("MatMulNBits", identity, packed, scales, zeros, groups, constants=[1, 2, 3, 4], expected=want.T, **how)


@pytest.mark.parametrize("block", [2, -1, 2**31 - 1])
def test_a_block_that_there_is_not_is_named(block: int) -> None:
    groups = np.zeros(64, np.int32)
    groups[5] = block
    inputs = [ramp((3, 64)), *operands(8, 64, 32, 4, "uint8"), groups]
    attributes = {"N": 8, "K": 64, "block_size": 32, "bits": 4}
    with pytest.raises(RuntimeException, match=rf"block {block} at position 5 of 'in4' is out of range \[0, 2\)"):
        run_op("MatMulNBits", inputs, attributes, **HOW)
    with pytest.raises(NotSupported, match=r"blocks .* in 'in4'; there are 2"):
        run_op("MatMulNBits", inputs, attributes, constants=[1, 2, 3, 4], **HOW)


SIZES_OF_NONE = r"N -?8, K -?64, block_size"


@pytest.mark.parametrize(
    ("more", "zeros", "message"),
    [
        *((more, "", SIZES_OF_NONE) for more in ({"block_size": 0}, {"block_size": 1})),
        ({"weight_prepacked": 1}, "", "prepacked 1; there are 2, 4 and 8"),
        ({}, "float16", "zero points of float16, takes uint8 or float32"),
    ],
    ids=str,
)
def test_what_no_kernel_takes_is_refused(more: dict[str, int], zeros: str, message: str) -> None:
    inputs = [ramp((3, 64)), *operands(8, 64, 32, 4, zeros)]
    with pytest.raises(NotSupported, match=message):
        op_program("MatMulNBits", inputs, {"N": 8, "K": 64, "block_size": 32, "bits": 4, **more}, **HOW)


@pytest.mark.parametrize("constants", [[], [1, 2, 3, 4, 5]], ids=["computed", "constant"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("index", "given", "message"),
    [
        (1, np.zeros((8, 2, 15), np.uint8), r"B, .* is 15, but block_size\*bits/8 is 16"),
        (2, np.zeros((8, 1), np.float32), "scales, .* is 1, but K/block_size is 2"),
        (3, np.zeros((7, 1), np.uint8), "input 3 has 7 elements, expected 8"),
        (3, np.zeros((8, 1), np.float32), "input 3 has 8 elements, expected 16"),
        (4, np.zeros(63, np.int32), "input 4 has 63 elements, expected 64"),
        (5, np.zeros(7, np.float32), "bias, .* is 7, but N is 8"),
    ],
)
def test_operands_of_other_sizes_are_refused(index: int, given: Array, message: str, fixed: bool, constants: list[int]) -> None:
    inputs = [ramp((3, 64)), *operands(8, 64, 32, 4, "uint8"), np.zeros(64, np.int32), np.zeros(8, np.float32)]
    inputs[index] = given
    with pytest.raises(InvalidArgument, match=message):
        run_op("MatMulNBits", inputs, {"N": 8, "K": 64, "block_size": 32, "bits": 4}, fixed=fixed, constants=constants, **HOW)
