"""A kernel that runs at once does what it does in a program."""

import numpy as np
import pytest

from ort_lite.native.cpu import host
from ort_lite.native.extents import extents
from ort_lite.native.kernels import Kernels
from ort_lite.native.lang import OK, Ptr, Static, failed, native, span
from ort_lite_cpu.kernels.once import run_once


@native
@extents(x="count", y="count")
def scaled(x: Ptr, y: Ptr, count: int, factor: float, offset: Static, part: int, parts: int) -> int:
    """y = factor * x + offset. Fails where there is nothing to do."""
    if count == 0:
        return failed(7)
    for i in span(count, part, parts):
        y[i] = x[i] * factor + offset
    return OK


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_gets_arrays_scalars_and_statics(dtype: str) -> None:
    x = np.arange(5).astype(dtype)
    y = np.zeros_like(x)
    run_once(scaled, [x, y], Kernels(host()), count=5, factor=1.5, offset=2)
    np.testing.assert_array_equal(y, 1.5 * x + 2)


def test_a_status_is_an_error() -> None:
    empty = np.zeros(0, np.float32)
    with pytest.raises(RuntimeError, match="scaled returned status 7"):
        run_once(scaled, [empty, empty], Kernels(host()), count=0, factor=1.0, offset=0)


def test_a_call_that_does_not_fit_the_kernel_is_refused() -> None:
    x, y = np.zeros(5, np.float32), np.zeros(4, np.float32)
    with pytest.raises(TypeError, match=r"scaled would touch 5 elements of 'y', which is float32 \(4,\)"):
        run_once(scaled, [x, y], Kernels(host()), count=5, factor=1.5, offset=2)
    with pytest.raises(TypeError, match=r"elements of 'x', which is float32 \(3,\), not contiguous"):
        run_once(scaled, [x[::2], y], Kernels(host()), count=3, factor=1.5, offset=2)
    with pytest.raises(TypeError, match="1 arrays came, 2 are expected"):
        run_once(scaled, [x], Kernels(host()), count=5, factor=1.5, offset=2)
