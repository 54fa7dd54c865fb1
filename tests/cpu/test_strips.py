"""Strips of resized planes: every width at many scales, memory that ends with its operands, and the instructions of inner loops."""

from typing import NamedTuple

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, parse_target
from ort_lite_cpu.kernels.resized_planes import FAR, HELD, ResizedPlanes
from ort_lite_cpu.kernels.strips import LEAST, strip_lanes
from ort_lite_cpu.operators.interpolation import FEW, interpolate_planes
from tests.native.assembly import Loop, inner_loops
from tests.native.calls import TARGETS, call
from tests.native.compiled import assembly
from tests.native.guarded import Guarded

COORDINATES = ("half_pixel", "align_corners", "asymmetric")
SCALES = (0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 0.93, 1.0, 1.07, 1.3, 1.5, 2.0, 3.0, 4.0)
HEIGHTS = ((3, 5), (5, 3), (4, 4), (1, 1), (7, 2), (1, 4), (2, 9))
"""Rows of x and of y. Neither number is that of most widths, nor divides the other often."""
LARGE = ((60, 200, 90, 260), (60, 300, 20, 200), (20, 640, 9, 224), (9, 1000, 40, 130), (1, 300, 1, 320), (30, 30, 200, 500))
"""(height, width, rows, columns) of images of several bands."""


class Case(NamedTuple):
    """The sizes of planes and of the resized ones."""

    height: int
    width: int
    rows: int
    columns: int
    inner: int


def spec(lanes: int, how: str, nearest: str) -> Spec:
    statics = {"g.lanes": lanes, "how": how, "nearest": nearest, "wide": True}
    return Spec(interpolate_planes, ("f32", "f32", "i64", "f32", "f32"), statics)


def resized(x: Array, case: Case, kernel: Spec, parts: int, target: Target) -> Array:
    """The planes x (outer, height, width, inner), resized by a kernel whose operands end where their memory does."""
    entries = case.columns * (case.inner if case.inner < FEW else 1)
    room = max(HELD * case.columns, case.width) * case.inner
    g = ResizedPlanes(len(x), *case, entries, room, 0)
    shapes: list[tuple[int, ...]] = [x.shape, (len(x), case.rows, case.columns, case.inner)]
    shapes += [(parts, 2 * entries + case.rows + -(-entries // LEAST) + 1), (parts, entries + 2 * case.rows), (parts, room)]
    kinds = (np.float32, np.float32, np.int64, np.float32, np.float32)
    memory = [Guarded(8 * int(np.prod(shape))) for shape in shapes]
    operands = [own.room(shape, kind) for own, shape, kind in zip(memory, shapes, kinds, strict=True)]
    operands[0][...] = x
    scalars = [*g[:-1], case.rows, case.height, 0.0, case.columns, case.width, 0.0, 0]
    for part in range(parts):
        assert call(kernel, operands, scalars, part, parts, target) == 0
    assert all(own.is_whole() for own in memory)
    return operands[1].copy()


def linear(x: Array, axis: int, m: int, how: str) -> Array:
    """x in float64, resized along an axis."""
    n, i = x.shape[axis], np.arange(m, dtype=np.float64)
    scale = m / n
    corners = i * (n - 1) / (m - 1) if m > 1 else 0 * i
    c = {"half_pixel": (i + 0.5) / scale - 0.5, "asymmetric": i / scale, "align_corners": corners}[how].clip(0, n - 1)
    low = np.floor(c).astype(np.int64)
    a, b = x.take(low, axis), x.take(np.minimum(low + 1, n - 1), axis)
    w = (c - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    with np.errstate(invalid="ignore"):
        blended: Array = np.where(w == 0, a, a * (1 - w) + b * w)
    return blended


def compare(case: Case, how: str, parts: int, target: Target, outer: int = 2) -> None:
    """Compare linear with NumPy, and nearest with gathers."""
    lanes, shape = strip_lanes(target), (outer, case.height, case.width, case.inner)
    x = np.random.default_rng(case).standard_normal(shape, np.float32)
    expected = linear(linear(x.astype(np.float64), 1, case.rows, how), 2, case.columns, how)
    got = resized(x, case, spec(lanes, how, ""), parts, target)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=f"{case}, {how}")
    picked, gathered = (resized(x, case, spec(count, how, "floor"), parts, target) for count in (lanes, 0))
    np.testing.assert_array_equal(picked, gathered, err_msg=f"{case}, {how}")


@pytest.mark.parametrize("how", COORDINATES)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_all_widths(target: Target, how: str) -> None:
    for number, width in enumerate(range(1, 71)):
        for k, scale in enumerate(SCALES):
            height, rows = HEIGHTS[(number + k) % len(HEIGHTS)]
            inner = (1, 1, 1, 2, 3, 15)[(number + 2 * k) % 6]
            compare(Case(height, width, rows, max(int(width * scale), 1), inner), how, 1 + (number + k) % 3, target)


@pytest.mark.parametrize("sizes", LARGE, ids=str)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_images_of_several_bands(target: Target, sizes: tuple[int, int, int, int]) -> None:
    for parts in (1, 2, 5):
        compare(Case(*sizes, 1), "half_pixel", parts, target, outer=3)
        compare(Case(*sizes, 3), "align_corners", parts, target, outer=3)


@pytest.mark.parametrize(("outer", "sizes"), [(1700, (1, 300, 1, 320)), (6, (300, 300, 320, 320))], ids=str)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_results_that_no_cache_holds(target: Target, outer: int, sizes: tuple[int, int, int, int]) -> None:
    assert outer * sizes[2] * sizes[3] >= FAR
    compare(Case(*sizes, 1), "half_pixel", 2, target, outer)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("columns", [20, 33, 41, 81, 161])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_what_is_no_number_has_no_effect_without_weight(target: Target, columns: int, value: float) -> None:
    """With corners aligned, every fourth, second or single column of y is one of x."""
    x = np.random.default_rng(0).standard_normal((1, 5, 41, 1), np.float32)
    x[0, [0, 4, 2], [0, 40, 17]] = value
    for rows in (3, 5, 9, 25):
        kernel = spec(strip_lanes(target), "align_corners", "")
        got = resized(x, Case(5, 41, rows, columns, 1), kernel, 1, target)
        expected = linear(linear(x.astype(np.float64), 1, rows, "align_corners"), 2, columns, "align_corners")
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_rows_and_no_columns(target: Target) -> None:
    kernel = spec(strip_lanes(target), "half_pixel", "")
    for case in (Case(3, 40, 0, 50, 1), Case(3, 40, 5, 0, 1)):
        assert resized(np.ones((2, 3, 40, 1), np.float32), case, kernel, 1, target).size == 0
    assert resized(np.ones((0, 3, 40, 1), np.float32), Case(3, 40, 6, 50, 1), kernel, 1, target).size == 0


PERMUTE = ("vpermps", "vpermd", "vpermt2ps", "vpermi2ps")


def permuting(name: str, nearest: str) -> list[Loop]:
    """The inner loops that pick elements, compiled for a CPU."""
    target = parse_target(name)
    loops = inner_loops(assembly(spec(strip_lanes(target), "half_pixel", nearest), target))
    return [loop for loop in loops if any(loop.count(name) for name in PERMUTE)]


@pytest.mark.parametrize("nearest", ["", "floor"])
@pytest.mark.parametrize("name", ["haswell", "znver3", "skylake-avx512", "znver4", "x86-64-v3", "x86-64-v4"])
def test_elements_are_picked_in_registers(name: str, nearest: str) -> None:
    """The loops of two vectors of one window each load two vectors a row, and pick two elements for each lane, or one."""
    loops = permuting(name, nearest)
    assert not any(loop.count("vgather") for loop in loops)
    counts = {sum(loop.count(name) for name in PERMUTE) for loop in loops}
    assert (2 if nearest else 4) in counts


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "cortex-a72", "neoverse-n1"])
def test_targets_without_permutations_have_no_strips(name: str) -> None:
    assert strip_lanes(parse_target(name)) == 0
