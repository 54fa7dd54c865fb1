"""Values of k beside each other, as products of small integers read them: whatever order the matrix has in memory."""

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite_cpu.kernels.gemm.integer import beside


def plainly(b: Array, width: int, count: int) -> Array:
    """Element by element."""
    *batch, k, n = b.shape
    out = np.zeros((*batch, -(-n // width), -(-k // count), width, count), b.dtype)
    for p in range(k):
        for j in range(n):
            out[..., j // width, p // count, j % width, p % count] = b[..., p, j]
    return out


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("shape", [(8, 32), (7, 33), (1, 1), (2, 5, 3), (0, 4), (4, 0)])
def test_every_order_in_memory_is_packed_alike(shape: tuple[int, ...], count: int, dtype: type[np.signedinteger]) -> None:
    b = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    columns = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    spread = np.repeat(b, 2, -1)[..., ::2]
    for each in (b, columns, spread, np.broadcast_to(b, (2, *shape))):
        np.testing.assert_array_equal(beside(each, 16, count), plainly(each, 16, count), strict=True)
