"""MatMulFpQ4, against a product of the numbers that the blocks stand for. onnxruntime runs it on CPUs with AVX-512 alone."""

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from tests.cpu.check import run_op
from tests.cpu.operators.test_microsoft_forms import HOW


def weights(k: int, n: int, kind: int) -> tuple[Array, Array]:
    """Return a blob and the matrix (K, N) that it stands for."""
    draw = np.random.default_rng([k, n, kind])
    blocks = -(-k // 32)
    scales, zeros = draw.normal(size=(n, blocks, 1)).astype(np.float32), draw.integers(0, 16, (n, blocks, 1), np.uint8)
    codes = draw.integers(0, 16, (n, blocks, 32), np.uint8)
    packed = codes[:, :, :16] | codes[:, :, 16:] << 4
    parts = [scales.view(np.uint8), *([zeros] if kind else []), packed]
    numbers = (codes.astype(np.float32) - (zeros if kind else 8)) * scales
    return np.concatenate(parts, -1).reshape(-1), numbers.reshape(n, -1)[:, :k].T


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("lead", "k", "n"), [((5,), 64, 7), ((2, 3), 70, 16), ((1,), 32, 1), ((0,), 33, 4)])
def test_products(lead: tuple[int, ...], k: int, n: int, kind: int) -> None:
    blob, matrix = weights(k, n, kind)
    a = np.random.default_rng(0).normal(size=(*lead, k)).astype(np.float32)
    for constants in ([1, 2], [2]):
        got = run_op("MatMulFpQ4", [a, blob, np.array([k, n])], {"blk_quant_type": kind}, constants=constants, outputs=1, **HOW)
        np.testing.assert_allclose(got[0], a @ matrix, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shape", "kind", "message"), [((64, 8), 1, "294 bytes"), ((64, 7), 0, "294 bytes")])
def test_blobs_of_another_size(shape: tuple[int, int], kind: int, message: str) -> None:
    blob, _ = weights(64, 7, 1)
    inputs = [np.ones((2, 64), np.float32), blob, np.array(shape)]
    with pytest.raises(InvalidArgument, match=message):
        run_op("MatMulFpQ4", inputs, {"blk_quant_type": kind}, constants=[1, 2], outputs=1, **HOW)
