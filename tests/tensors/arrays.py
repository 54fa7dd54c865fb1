"""NDArrays to test with."""

from typing import Any

import numpy as np

from ort_lite import NDArray


def ramp(*shape: int, dtype: Any = np.float32) -> NDArray:
    return NDArray.from_numpy(np.arange(int(np.prod(shape))).astype(dtype).reshape(shape), copy=True)
