"""A kernel that runs at once does what it does in a program."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_lite.errors import KernelMissing
from ort_lite.native import Spec
from ort_lite.native.cpu import host
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, failure_status, native, span
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.kernels.gemm.pack import filters
from ort_lite_cpu.kernels.gemm.winograd import filter_panels
from ort_lite_cpu.kernels.once import FEW, run_once
from ort_lite_cpu.run.kernels import Kernels


@native
@extents(x="count", y="count")
def scaled(x: Ptr, y: Ptr, count: int, factor: float, offset: Static, part: int, parts: int) -> int:
    """y = factor * x + offset. Fails where there is nothing to do."""
    if count == 0:
        return failure_status(7)
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


class Without(Kernels):
    """None is there, and none may be compiled."""

    def held(self, spec: Spec) -> bool:
        return False

    def load(self, specs: Sequence[Spec]) -> list[int]:
        raise KernelMissing("", tuple(specs))


HERE, WITHOUT = Kernels(host()), Without(host(), "never")


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(array == array, array, np.array(np.nan, array.dtype)).view(f"u{array.itemsize}")


def weights(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    """Some zeros of either sign, an infinity and no number among them."""
    found = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    found.flat[:6] = 0.0, -0.0, -0.0, np.inf, np.nan, 1e-30
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("edge", "taps", "stride"), [(4, 3, 1), (2, 3, 1), (2, 5, 1), (2, 3, 2)])
@pytest.mark.parametrize("axes", [1, 2])
def test_numpy_transforms_filters_to_the_same_bits(edge: int, taps: int, stride: int, axes: int, dtype: str) -> None:
    w = weights(dtype, 2 * 37, 3, *[taps] * axes)
    tile = Tile(6, 2, 4)
    native, numpy = (filter_panels(w, 2, edge, 16, tile, kernels, stride, axes) for kernels in (HERE, WITHOUT))
    np.testing.assert_array_equal(bits(numpy), bits(native))


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.parametrize(
    ("groups", "shape"), [(1, (5, 3, 2, 2)), (2, (18, 4, 3)), (3, (24, 1, 1, 1)), (1, (0, 2, 1)), (1, (4, 0, 3))]
)
def test_numpy_packs_filters_to_the_same_bits(groups: int, shape: tuple[int, ...], dtype: str) -> None:
    w = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    np.testing.assert_array_equal(filters(w, groups, 8, WITHOUT), filters(w, groups, 8, HERE))


def test_what_is_done_without_is_compiled_behind_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only small work is done without: large arrays are worth a kernel."""
    x, y, left = np.ones(5, np.float32), np.zeros(5, np.float32), []
    monkeypatch.setattr(Without, "leave", lambda self, spec: left.append(spec.name))
    waiting = Without(host())
    run_once(scaled, [x, y], waiting, lambda: y.fill(3), count=5, factor=1.5, offset=2)
    assert y.tolist() == [3] * 5
    assert left == ["tests.cpu.test_once.scaled<f32, f32, offset=2>"]
    large = np.zeros(FEW, np.float32)
    with pytest.raises(KernelMissing):
        run_once(scaled, [large, large], waiting, lambda: None, count=FEW, factor=1.5, offset=2)
    run_once(scaled, [large, large], WITHOUT, lambda: large.fill(1), count=FEW, factor=1.5, offset=2)
    assert large[-1] == 1
