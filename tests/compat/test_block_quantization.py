"""Weights in few bits, against onnxruntime's native functions of the same names."""

from typing import Any

import numpy as np
import onnxruntime.capi.onnxruntime_pybind11_state as native
import pytest

from ort_lite.compat import block_quantization as ours
from ort_lite.errors import InvalidArgument

SIZES = [(40, 3, 16), (64, 5, 32), (36, 1, 32), (300, 2, 256)]  # rows, columns, weights of a block


def weights(k: int, n: int, kind: str, dtype: Any) -> np.ndarray[Any, Any]:
    """Of both signs, of one, all 0, or halfway between two codes."""
    drawn = np.random.default_rng(0).standard_normal((k, n)).astype(dtype)
    made = {"both": drawn, "one": np.abs(drawn), "none": drawn * 0, "halves": np.round(drawn * 4) / 4}
    chosen: np.ndarray[Any, Any] = made[kind].astype(dtype)
    return chosen


def same(name: str, arguments: tuple[Any, ...], *shapes: tuple[tuple[int, ...], Any]) -> None:
    """What both write, and return."""
    results = []
    for module in (native, ours):
        dst, *parameters = [np.zeros(shape, dtype) for shape, dtype in shapes]
        returned = getattr(module, name)(dst, arguments[0], *parameters, *arguments[1:])
        results.append([dst, *parameters, returned])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", ["both", "one", "none", "halves"])
@pytest.mark.parametrize(("k", "n", "block"), SIZES)
def test_codes_are_onnxruntime_s(k: int, n: int, block: int, kind: str, dtype: Any) -> None:
    src, count = weights(k, n, kind, dtype), -(-k // block)
    u1 = np.uint8
    for symmetric in (True, False):
        for bits in (2, 4, 8):
            shapes = ((n, count, block * bits // 8), u1), ((n, count), dtype), ((n, (count * bits + 7) // 8), u1)
            same(f"quantize_matmul_{bits}bits", (src, block, n, k, symmetric), *shapes)
        of_qdq = (((k * n + 1) // 2,), u1), ((count, n), dtype), (((count * n + 1) // 2,), u1)
        same("quantize_qdq_matmul_4bits", (src, block, n, k, symmetric), *of_qdq)
    for quant_type in (0, 1):
        flat = np.ascontiguousarray(src.T)
        shapes_of_rows = (((k * n + 1) // 2,), u1), ((-(-k * n // block),), dtype)
        same("quantize_matmul_bnb4", (flat, block, quant_type, n, k), *shapes_of_rows)


def test_rows_beyond_the_last_are_left_alone() -> None:
    """As the caller fills weights up to whole blocks."""
    src = np.vstack([weights(20, 2, "both", np.float32), np.full((12, 2), 9, np.float32)])
    same("quantize_matmul_4bits", (src, 16, 2, 20, False), ((2, 2, 8), np.uint8), ((2, 2), np.float32), ((2, 1), np.uint8))


def test_an_array_of_another_size_or_type_is_said() -> None:
    src, bytes_, scales = np.ones((16, 2), np.float32), np.zeros((2, 1, 8), np.uint8), np.zeros((2, 1), np.float32)
    zeros = np.zeros((2, 1), np.uint8)
    with pytest.raises(InvalidArgument, match="dst has 14 elements of uint8; expected 16"):
        ours.quantize_matmul_4bits(np.zeros((2, 7), np.uint8), src, scales, zeros, 16, 2, 16, True)
    with pytest.raises(InvalidArgument, match="scale has 2 elements of uint8; expected 2 of float32"):
        ours.quantize_matmul_4bits(bytes_, src, np.zeros((2, 1), np.uint8), zeros, 16, 2, 16, True)
    with pytest.raises(InvalidArgument, match=r"src has 32 elements, blocks 16; expected k \* n = 17 \* 2"):
        ours.quantize_matmul_4bits(bytes_, src, scales, zeros, 16, 2, 17, True)
    with pytest.raises(InvalidArgument, match="quant_type is 2"):
        ours.quantize_matmul_bnb4(bytes_, src, scales, 16, 2, 2, 16)
    with pytest.raises(InvalidArgument, match=r"src has 32 elements; expected n \* k = 2 \* 15"):
        ours.quantize_matmul_bnb4(bytes_, src, scales, 16, 0, 2, 15)
