"""Pools of planes: every width with many windows, memory that ends with its operands, NaN, and the instructions of inner loops."""

from typing import NamedTuple

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, parse_target
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.pooled_planes import PooledPlanes, PoolForm, pool_planes
from ort_lite_cpu.kernels.streams import RowForm, fits_streams
from tests.native.assembly import inner_loops
from tests.native.calls import COMPILED, TARGETS, call
from tests.native.compiled import assembly
from tests.native.guarded import Guarded

KINDS = ("max", "average", "average_padded")


class Axis(NamedTuple):
    """The windows along an axis."""

    taps: int
    stride: int = 1
    dilation: int = 1
    front: int = 0
    behind: int = 0

    def results(self, size: int) -> int:
        return (size + self.front + self.behind - (self.taps - 1) * self.dilation - 1) // self.stride + 1


WINDOWS = (
    Axis(1),
    Axis(2, 2),
    Axis(2, 1, 1, 1, 0),
    Axis(3, 2, 1, 1, 1),
    Axis(3, 1, 1, 1, 1),
    Axis(5, 1, 1, 2, 2),
    Axis(3, 3),
    Axis(4, 4, 1, 1, 3),
    Axis(3, 1, 2, 2, 2),
    Axis(2, 3, 3, 2, 1),
    Axis(2, 1, 3, 3, 4),
    Axis(7, 2, 1, 3, 3),
)


def lanes_of(target: Target, dtype: str) -> int:
    return tile_for(dtype, target).lanes


def spec(kind: str, down: Axis, along: Axis, lanes: int, rows: int, dtype: str = "f32") -> Spec:
    unrolled = down.taps <= 5
    form = PoolForm(down.taps if unrolled else 1, down.stride, down.dilation, rows)
    statics = {"kind": kind, "unrolled": unrolled, "form": form, "along": RowForm(*along[:4], lanes)}
    return Spec(pool_planes, (dtype,) * 3, statics)


def pooled(x: Array, down: Axis, along: Axis, kernel: Spec, parts: int, target: Target) -> Array:
    """The planes x, pooled by a kernel whose operands end where their memory does."""
    planes, ih, iw = x.shape
    oh, ow = down.results(ih), along.results(iw)
    shapes = [x.shape, (planes, oh, ow), (parts, ow)]
    memory = [Guarded(8 * int(np.prod(shape))) for shape in shapes]
    operands = [own.room(shape, x.dtype) for own, shape in zip(memory, shapes, strict=True)]
    operands[0][...] = x
    padded = (down.front + ih + down.behind, along.front + iw + along.behind)
    g = PooledPlanes(planes, ih, iw, oh, ow, down.taps, down.stride, down.dilation, down.front, *padded)
    for part in range(parts):
        assert call(kernel, operands, g, part, parts, target) == 0
    assert all(own.is_whole() for own in memory)
    return operands[1].copy()


def expected(x: Array, down: Axis, along: Axis, kind: str) -> Array:
    """The same with NumPy, window by window."""
    fill = -np.inf if kind == "max" else 0
    edges = ((0, 0), (down.front, down.behind), (along.front, along.behind))
    wide, inside = (
        np.pad(a, edges, constant_values=v) for a, v in ((x.astype(np.float64), fill), (np.ones((1, *x.shape[1:])), 0))
    )
    y = np.empty((len(x), down.results(x.shape[1]), along.results(x.shape[2])))
    for r, c in np.ndindex(y.shape[1:]):
        rows, columns = ((at * a.stride) + np.arange(a.taps) * a.dilation for at, a in ((r, down), (c, along)))
        seen = wide[:, rows][:, :, columns]
        if kind == "max":
            y[:, r, c] = seen.max((1, 2))
        else:
            count = inside[0][np.ix_(rows, columns)].sum() if kind == "average" else down.taps * along.taps
            y[:, r, c] = seen.sum((1, 2)) / max(count, 1)
    return y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("along", WINDOWS, ids=str)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_all_widths(target: Target, along: Axis, kind: str) -> None:
    number, rows = WINDOWS.index(along), 4 if target.vector_registers == 32 else 2
    lanes, down = lanes_of(target, "f32") // (1 + number % 2), WINDOWS[(number + 3) % len(WINDOWS)]
    if not fits_streams(RowForm(*along[:4], lanes)):
        lanes *= 2
    kernel = spec(kind, down, along, lanes, rows)
    for width in range(1, 4 * lanes + 2):
        height = 1 + width % 11
        if along.results(width) > 0 and down.results(height) > 0:
            x = np.random.default_rng(width).standard_normal((3, height, width), np.float32)
            got = pooled(x, down, along, kernel, 1 + width % 3, target)
            np.testing.assert_allclose(got, expected(x, down, along, kind), 1e-5, 1e-6, err_msg=f"{down}, {width}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_of_float64(target: Target, kind: str) -> None:
    kernel = spec(kind, WINDOWS[4], WINDOWS[3], lanes_of(target, "f64"), 2, "f64")
    for width in range(1, 40):
        x = np.random.default_rng(width).standard_normal((2, 7, width))
        np.testing.assert_allclose(
            pooled(x, WINDOWS[4], WINDOWS[3], kernel, 2, target), expected(x, WINDOWS[4], WINDOWS[3], kind), 1e-12, 1e-12
        )


@pytest.mark.parametrize("windows", [(WINDOWS[4], WINDOWS[3]), (WINDOWS[1], WINDOWS[1]), (WINDOWS[11], WINDOWS[5])], ids=str)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_largest_of_nan_is_nan_and_infinities_count(target: Target, windows: tuple[Axis, Axis]) -> None:
    down, along = windows
    kernel = spec("max", down, along, lanes_of(target, "f32"), 2)
    x = np.random.default_rng(0).standard_normal((40, 9, 37), np.float32)
    rng = np.random.default_rng(1)
    for value in (np.nan, -np.nan, np.inf, -np.inf):
        x[tuple(rng.integers(0, size, 300) for size in x.shape)] = value
    np.testing.assert_array_equal(pooled(x, down, along, kernel, 1, target), expected(x, down, along, "max").astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_do_not_change_the_result(kind: str) -> None:
    """Rows are computed together in other groups. Zeros of both signs are equal, but not the same."""
    for down in (WINDOWS[3], WINDOWS[4], WINDOWS[5], WINDOWS[8]):
        kernel = spec(kind, down, WINDOWS[4], lanes_of(TARGETS["host"], "f32"), 4)
        x = np.random.default_rng(0).standard_normal((3, 13, 21), np.float32) * 1e3
        x[np.abs(x) > 900] = 0.0
        x[x < -700] = -0.0
        x[x > 0] = 0.0 if kind == "max" else 1e-3
        one, *others = (pooled(x, down, WINDOWS[4], kernel, parts, TARGETS["host"]) for parts in (1, 2, 3, 7, 40))
        for other in others:
            np.testing.assert_array_equal(one.view(np.int32), other.view(np.int32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_windows_in_the_padding(target: Target, kind: str) -> None:
    far = Axis(2, 1, 3, 3, 4)
    kernel = spec(kind, far, far, lanes_of(target, "f32"), 2)
    for shape in ((2, 1, 1), (2, 2, 1), (1, 1, 5), (0, 3, 3)):
        x = np.ones(shape, np.float32)
        np.testing.assert_allclose(pooled(x, far, far, kernel, 1, target), expected(x, far, far, kind), 1e-6)


@pytest.mark.parametrize("target", COMPILED, ids=lambda target: target.name)
@pytest.mark.parametrize("kind", ["max", "average"])
def test_compiles_everywhere(target: Target, kind: str) -> None:
    rows = 4 if target.vector_registers == 32 else 2
    assert assembly(spec(kind, WINDOWS[3], WINDOWS[3], lanes_of(target, "f32"), rows), target)


@pytest.mark.parametrize("name", ["haswell", "znver4", "skylake-avx512", "neoverse-n1"])
def test_rows_that_windows_share_are_loaded_once(name: str) -> None:
    """With 3 x 3 windows, four rows of results read six rows and two read four. No loop keeps a vector in memory."""
    target = parse_target(name)
    rows = 4 if target.vector_registers == 32 else 2
    loops = inner_loops(assembly(spec("average", WINDOWS[4], WINDOWS[4], lanes_of(target, "f32"), rows), target))
    counts = {loop.loads() for loop in loops if not loop.spilled()}
    assert {rows + 3, 5} & counts == {rows + 3, 5}  # and the divisors


def test_moves_beyond_a_neighboring_vector_do_not_fit() -> None:
    assert fits_streams(RowForm(9, 1, 1, 8, 8)) and not fits_streams(RowForm(10, 1, 1, 9, 8))
    assert fits_streams(RowForm(9, 1, 1, 0, 8)) and not fits_streams(RowForm(10, 1, 1, 0, 8))
    assert fits_streams(RowForm(3, 2, 8, 0, 8)) and not fits_streams(RowForm(3, 2, 9, 0, 8))
