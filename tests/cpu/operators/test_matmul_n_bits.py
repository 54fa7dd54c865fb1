"""MatMulNBits, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, op_program, ramp
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


@pytest.mark.parametrize("zeros", ["", "uint8"])
def test_eight_bits(zeros: str) -> None:
    check(ramp((3, 64)), *operands(6, 64, 32, 8, zeros), N=6, K=64, block_size=32, bits=8)


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


def test_groups_have_zero_points_too() -> None:
    """Which onnxruntime does not look at then."""
    packed, scales, zeros = (
        np.full((2, 2, 8), 0x99, np.uint8),
        np.ones((2, 2), np.float32),
        np.array([[0x21], [0x54]], np.uint8),
    )
    groups = np.array([0, 1] * 16, np.int32)
    how = {"N": 2, "K": 32, "block_size": 16, "bits": 4, **HOW}
    identity = np.eye(32, dtype=np.float32)
    want = np.where(groups == 0, [[8], [5]], [[7], [4]]).astype(np.float32)
    check_op("MatMulNBits", identity, packed, scales, zeros, groups, constants=[1, 2, 3, 4], expected=want.T, **how)


def test_prepacked_weights_are_refused() -> None:
    inputs = [ramp((3, 32)), *operands(6, 32, 32, 4, "")[:2]]
    attributes = {"N": 6, "K": 32, "block_size": 32, "bits": 4, "weight_prepacked": 1}
    with pytest.raises(NotSupported, match="prepacked 1; there are 2, 4 and 8"):
        op_program("MatMulNBits", inputs, attributes, **HOW)
