"""Register tile, packing, blocked products and Winograd transforms, called as native code, for all targets that run here."""

import ctypes
import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host, parse_target
from ort_lite_cpu.kernels.gemm.activation import activation
from ort_lite_cpu.kernels.gemm.gemm import DEPTH, KEPT, cut, gemm, grid, matmul
from ort_lite_cpu.kernels.gemm.integer import pairs
from ort_lite_cpu.kernels.gemm.microkernel import Tile, tile_for
from ort_lite_cpu.kernels.gemm.pack import filters, panels
from ort_lite_cpu.kernels.gemm.winograd import filter_panels, transform_filters
from ort_lite_cpu.run.kernels import Kernels
from tests.native.calls import COMPILED, TARGETS, call
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

HOST = host()
KERNELS = Kernels(HOST)
NO_LIMITS = (-math.inf, math.inf, 0.0, 0.0)
ELEMENT = {"float32": "f32", "float64": "f64"}


def spec(dtype: str = "float32", target: Target = HOST, kind: str = "") -> tuple[Spec, Tile]:
    tile = tile_for(ELEMENT[dtype], target)
    return Spec(gemm, (ELEMENT[dtype],) * 5, {"kind": kind, "tile": tile}), tile


def random(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product(
    a: Array,
    b: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    limits: Sequence[float] = NO_LIMITS,
    kind: str = "",
    parts: int = 1,
    target: Target = HOST,
) -> Array:
    """What the kernel computes for a packed b."""
    kernel, tile = spec(a.dtype.name, target, kind)
    c = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype)
    operands = [a, panels(b, tile.columns, Kernels(target)), bias, residual, c]
    for part in range(parts):
        assert call(kernel, operands, [*a.shape[:1], b.shape[1], a.shape[1], *limits], part, parts, target) == 0
    return c


def exact(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def assert_near(got: Array, want: Array) -> None:
    """Within some units in the last place of the largest magnitude."""
    assert np.isfinite(got).all()
    largest = np.abs(want).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=40 * float(np.finfo(got.dtype).eps) * largest)


# --- Products
@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("m", range(1, 16))
def test_every_edge_of_rows_and_columns(m: int, n: int) -> None:
    a, b = random(m, 21), random(21, n, seed=1)
    assert_near(product(a, b), exact(a, b))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, DEPTH - 1, DEPTH, DEPTH + 1, 2 * DEPTH + 7])
def test_every_edge_of_the_depth(k: int) -> None:
    for m in (1, 2, 4, 13):
        a, b = random(m, k), random(k, 19, seed=1)
        assert_near(product(a, b), exact(a, b))


@pytest.mark.parametrize(("dtype", "k"), [("float32", 1030), ("float64", 1027)])
def test_one_row_and_a_matrix_beyond_a_cache(dtype: str, k: int) -> None:
    """The last panel is narrow. The bits are the same, however many parts share the panels."""
    a, b, n = random(1, k, dtype=dtype), random(k, 301, dtype=dtype, seed=1), 301
    bias = random(n, dtype=dtype, seed=2)
    assert k * n > KEPT
    alone, *shared = [product(a, b, bias, None, (-30.0, 40.0, 0.0, 0.0), parts=parts) for parts in (1, 2, 3, 7)]
    assert_near(alone, np.clip(exact(a, b) + bias, -30, 40))
    for got in shared:
        np.testing.assert_array_equal(got, alone)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 300, 900), (7, 33, 50)])
def test_a_residual_may_lie_where_the_result_goes(m: int, k: int, n: int) -> None:
    """Also beside one row and a matrix beyond a cache."""
    a, b, residual = random(m, k), random(k, n, seed=1), random(m, n, seed=2)
    kernel, tile = spec()
    c = residual.copy()
    assert call(kernel, [a, panels(b, tile.columns, KERNELS), None, c, c], [m, n, k, *NO_LIMITS]) == 0
    assert_near(c, exact(a, b) + residual)


def test_more_rows_than_a_block_has() -> None:
    a, b = random(501, 33), random(33, 50, seed=1)
    assert_near(product(a, b), exact(a, b))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_target_that_runs_here(target: Target, dtype: str) -> None:
    for m, k, n in ((29, 37, 41), (3, 5, 2)):
        a, b, bias = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1), random(n, dtype=dtype, seed=2)
        residual = random(m, n, dtype=dtype, seed=3)
        got = product(a, b, bias, residual, (-1.0, 2.0, 0.0, 0.0), target=target)
        assert_near(got, np.clip(exact(a, b) + bias + residual, -1, 2))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_columns_of_narrow_panels_are_summed_up_as_all_others(target: Target) -> None:
    """For whole tiles of rows: a network whose channels are all alike gives results that are all alike."""
    tile = tile_for("f32", target)
    a, b = random(2 * tile.rows, 37), np.tile(random(37, 1, seed=1), 4 * tile.columns)
    for n in range(tile.columns + 1, 2 * tile.columns, tile.lanes):
        got = product(a, b[:, :n], target=target)
        np.testing.assert_array_equal(got, got[:, :1].repeat(n, 1))


@pytest.mark.parametrize("target", COMPILED, ids=lambda target: str(target.name))
def test_every_target_compiles_and_needs_no_symbol(target: Target) -> None:
    kernel, _ = spec(target=target)
    assert undefined_symbols(object_code(kernel, target)) == []


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("x86-64", Tile(3, 3, 4)),
        ("x86-64-v3", Tile(6, 2, 8)),
        ("x86-64-v4", Tile(6, 4, 16)),
        ("sapphirerapids", Tile(6, 4, 16)),
        ("aarch64", Tile(6, 4, 4)),
    ],
)
def test_the_tile_fits_the_registers(name: str, tile: Tile) -> None:
    target = parse_target(name)
    assert tile_for("f32", target) == tile
    assert tile_for("f64", target) == Tile(tile.rows, tile.vectors, tile.lanes // 2)
    assert tile.rows * tile.vectors + tile.vectors + 1 <= target.vector_registers


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(0, 50), st.integers(1, 60), st.integers(1, 9))
def test_any_number_of_parts_gives_the_same_bits(m: int, k: int, n: int, parts: int) -> None:
    a, b = random(m, k), random(k, n, seed=1)
    np.testing.assert_array_equal(product(a, b), product(a, b, parts=parts))


def test_nan_and_infinity_go_through_and_stay_where_they_are() -> None:
    a, b = random(9, 5), random(5, 20, seed=1)
    a[3, 2], b[1, 17] = np.nan, np.inf
    got = product(a, b, limits=(-1.0, 1.0, 0.0, 0.0))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(a @ b))
    assert (got[:3, 17] == np.sign(a[:3, 1])).all()


# --- Epilogue
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("limits", [(-math.inf, math.inf), (0.0, math.inf), (-0.5, 0.75)])
def test_bias_residual_and_limits(bias: bool, residual: bool, limits: tuple[float, float]) -> None:
    a, b = random(15, 2 * DEPTH + 1) / 30, random(2 * DEPTH + 1, 37, seed=1)
    added, other = random(37, seed=2), random(15, 37, seed=3)
    got = product(a, b, added if bias else None, other if residual else None, (*limits, 0.0, 0.0))
    want = exact(a, b) + (added if bias else 0) + (other if residual else 0)
    assert_near(got, np.clip(want, *limits))


ORACLES: dict[str, Callable[[Array, float, float], Array]] = {
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "HardSwish": lambda x, a, b: x * np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "Selu": lambda x, a, b: b * np.where(x < 0, a * np.expm1(x), x),
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Swish": lambda x, a, b: x / (1 + np.exp(-a * x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
}


@pytest.mark.parametrize("name", ORACLES)
def test_activations(name: str) -> None:
    act = activation(name)
    assert act is not None
    a, b = random(9, 6), random(6, 40, seed=1)
    for parts in (1, 3):
        got = product(a, b, limits=(act.low, act.high, act.alpha, act.beta), kind=act.kind, parts=parts)
        assert_near(got, ORACLES[name](exact(a, b), act.alpha, act.beta))


@pytest.mark.parametrize(
    ("name", "params", "limits"),
    [
        ("", (), (-math.inf, math.inf)),
        ("Relu", (), (0.0, math.inf)),
        ("Clip", (), (-math.inf, math.inf)),
        ("Clip", (1.0,), (1.0, math.inf)),
        ("Clip", (0.0, 6.0), (0.0, 6.0)),
    ],
)
def test_relu_and_clip_are_limits(name: str, params: Sequence[float], limits: tuple[float, float]) -> None:
    act = activation(name, params)
    assert act is not None and (act.kind, act.low, act.high) == ("", *limits)


def test_parameters_of_an_activation_default_to_those_of_the_operator() -> None:
    act = activation("HardSigmoid", (0.5,))
    assert act is not None and (act.alpha, act.beta) == (0.5, 0.5)
    assert activation("Softmax") is None


# --- Memory
def at_the_end_of_a_page(array: Array) -> Array:
    """A copy whose last byte is followed by memory that nobody may touch."""
    page = mmap.PAGESIZE
    pages = -(-array.nbytes // page) + 1
    region = mmap.mmap(-1, pages * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + (pages - 1) * page), page, 0) != 0:
        pytest.skip("the system refuses mprotect, without which nothing notices a read past the end")
    view: Array = np.frombuffer(region, array.dtype, array.size, (pages - 1) * page - array.nbytes).reshape(array.shape)
    view[...] = array
    return view


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 9), (6, 4, 16), (7, 5, 23), (13, 17, 8)], ids=str)
def test_nothing_behind_an_operand_is_touched(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    kernel, tile = spec()
    a, b = random(m, k), random(k, n, seed=1)
    operands = [a, panels(b, tile.columns, KERNELS), random(n, seed=2), random(m, n, seed=3), np.zeros((m, n), np.float32)]
    guarded = [at_the_end_of_a_page(array) for array in operands]
    assert call(kernel, guarded, [m, n, k, 0.0, math.inf, 0.0, 0.0]) == 0
    assert_near(guarded[4], np.maximum(exact(a, b) + operands[2] + operands[3], 0))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("few", [0, 9])
@pytest.mark.parametrize("m", [1, 3, 4, 9])
def test_nothing_behind_an_operand_that_is_not_packed_is_touched(m: int, few: int, transposed: bool) -> None:
    tile, n, k = tile_for("f32", HOST), 21, 11
    kernel = Spec(matmul, ("f32",) * 6, {"transposed": transposed, "kind": "", "tile": tile})
    a, b = random(m, k), random(k, n, seed=1)
    lying = np.ascontiguousarray(b.T) if transposed else b
    scratch, c = np.zeros(DEPTH * tile.columns, np.float32), np.zeros((m, n), np.float32)
    guarded: list[Array | None] = [at_the_end_of_a_page(array) for array in (a, lying)]
    guarded += [None, None, at_the_end_of_a_page(c), at_the_end_of_a_page(scratch)]
    scalars: list[Any] = [m, n, k, k, k if transposed else n, 1.0, few, *NO_LIMITS, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert call(kernel, guarded, scalars) == 0
    assert guarded[4] is not None
    assert_near(guarded[4], exact(a, b))


# --- Packing and sharing
def test_panels_hold_columns_and_end_in_zeros() -> None:
    b = random(2, 3, 10)
    packed = panels(b, 4, KERNELS)
    assert packed.shape == (2, 3, 3, 4)
    np.testing.assert_array_equal(packed.transpose(0, 2, 1, 3).reshape(2, 3, 12)[..., :10], b)
    assert not packed[:, 2, :, 2:].any()


@pytest.mark.parametrize("shape", [(3, 10), (1, 5), (7, 1), (2, 8)], ids=str)
def test_panels_of_a_transposed_matrix_are_those_of_its_copy(shape: tuple[int, int]) -> None:
    b = random(*shape[::-1]).T
    np.testing.assert_array_equal(panels(b, 4, KERNELS), panels(b[None].copy(), 4, KERNELS)[0])


def test_packed_weights_begin_a_cache_line() -> None:
    """Vectors as long as a line would else touch two, each of them."""
    packed = [panels(random(3, 6), 4, KERNELS), panels(random(1, 3, 6), 4, KERNELS), filters(random(4, 3, 2, 2), 1, 4, KERNELS)]
    packed += [
        pairs(np.zeros((3, 6), np.int8), 4),
        filter_panels(random(16, 16, 3, 3), 1, 2, 16, tile_for("f32", HOST), KERNELS),
    ]
    assert [array.ctypes.data % CACHE_LINE for array in packed] == [0] * len(packed)


@pytest.mark.parametrize("groups", [1, 2])
def test_filters_are_panels_of_each_group_by_tap_and_channel(groups: int) -> None:
    weight = random(10, 3, 2, 2)
    by_tap = weight.reshape(groups, 10 // groups, 3, 4).transpose(0, 3, 2, 1)
    np.testing.assert_array_equal(
        filters(weight, groups, 4, KERNELS), panels(by_tap.reshape(groups, 12, -1).copy(), 4, KERNELS)
    )


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 16))
def test_a_grid_is_shared_without_gaps_or_overlaps(rows: int, columns: int, parts: int) -> None:
    taken = np.zeros((rows, columns), int)
    for part in range(parts):
        top, bottom, left, right = grid(rows, columns, 6, 64, part, parts)
        taken[top:bottom, left:right] += 1
    assert (taken == 1).all()


@pytest.mark.parametrize(("rows", "columns", "most"), [(100, 1, 25), (1, 100, 25), (9, 32, 72), (4, 4, 4)])
def test_a_grid_is_shared_evenly(rows: int, columns: int, most: int) -> None:
    shares = [grid(rows, columns, 1, 1, part, 4) for part in range(4)]
    assert max((bottom - top) * (right - left) for top, bottom, left, right in shares) <= most


@pytest.mark.parametrize(("height", "width", "across"), [(6, 64, 2), (6, 1, 1), (1, 0, 1)])
def test_a_grid_is_cut_where_less_is_read_twice(height: int, width: int, across: int) -> None:
    *_, left, right = grid(22, 48, height, width, 0, 2)
    assert right - left == 48 // across


def test_a_grid_that_is_almost_as_even_is_even_enough() -> None:
    assert grid(131, 4, 6, 0, 0, 2) == (0, 65, 0, 4), "66 rows of 4 for one part are less than a 64th above 131 of 2"
    assert grid(33, 8, 6, 0, 0, 2) == (0, 33, 0, 4), "17 rows of 8 are more"


@given(st.integers(0, 2000), st.integers(1, 500))
def test_a_depth_is_cut_into_pieces_that_are_small_enough_and_cover_it(k: int, depth: int) -> None:
    pieces, size = cut(k, depth)
    assert size <= depth and (pieces - 1) * size <= max(k - 1, 0) and k <= pieces * size


# --- Winograd
G = {
    (2, 3, 1): np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]]) / 2,
    (4, 3, 1): np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24,
    (2, 5, 1): np.array([[6, 0, 0, 0, 0], [-4] * 5, [-4, 4, -4, 4, -4], [1, 2, 4, 8, 16], [1, -2, 4, -8, 16], [0, 0, 0, 0, 24]])
    / 24,
    (2, 3, 2): np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0]]),
}
"""By edge, taps and stride: F(2x2, 3x3), F(4x4, 3x3), F(2x2, 5x5), and with a stride of 2 F(2, 2) beside the tap in the middle."""


@pytest.mark.parametrize(("edge", "taps", "stride"), G)
@pytest.mark.parametrize(("outputs", "dtype"), [(40, "float32"), (43, "float64")])
def test_filters_are_transformed_in_the_order_of_their_use(outputs: int, dtype: str, edge: int, taps: int, stride: int) -> None:
    """Two blocks, of 32 outputs and of the rest, in panels of 16, four filters at a time and those left over one by one."""
    g, by = random(2 * outputs, 3, taps, taps, dtype=dtype), G[edge, taps, stride]
    kinds, tight = len(by) ** 2, 4 * np.finfo(g.dtype).eps
    made = filter_panels(g, 2, edge, 32, Tile(6, 4, 4), KERNELS, stride)
    for own, packed in zip(np.split(g, 2), made, strict=True):
        expected = np.zeros((kinds, 3, 48), dtype)
        expected[:, :, :outputs] = (by @ own.astype(float) @ by.T).reshape(outputs, 3, kinds).T
        first, second = np.split(packed.reshape(-1, 3, 16), [kinds * 2])
        first = first.reshape(kinds, 2, 3, 16)
        np.testing.assert_allclose(np.concatenate([first[:, 0], first[:, 1], second], 2), expected, rtol=tight, atol=tight)


@pytest.mark.parametrize(("edge", "taps"), [(2, 3), (4, 3), (2, 5)])
def test_filters_along_one_axis_are_transformed_once(edge: int, taps: int) -> None:
    g, by = random(32, 3, 1, taps), G[edge, taps, 1]
    [made] = filter_panels(g, 1, edge, 32, Tile(6, 4, 8), KERNELS, axes=1)
    expected = (g[:, :, 0].astype(float) @ by.T).transpose(2, 1, 0)
    np.testing.assert_allclose(made.reshape(expected.shape), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_filters_are_transformed_alike_on_every_target(target: str) -> None:
    """As many at a time as the target's vectors hold."""
    lanes = tile_for("f32", TARGETS[target]).lanes
    g, u = random(19, 2, 3, 3), np.empty(36 * 2 * 2 * 16, np.float32)
    spec = Spec(transform_filters, ("f32", "f32"), {"edge": 4, "taps": 3, "stride": 1, "axes": 2, "lanes": lanes})
    assert call(spec, [g, u], [19, 2, 32, 16, 2], target=TARGETS[target]) == 0
    expected = np.zeros((36, 2, 32))
    expected[:, :, :19] = (G[4, 3, 1] @ g.astype(float) @ G[4, 3, 1].T).reshape(19, 2, 36).T
    panels = u.reshape(36, 2, 2, 16)
    np.testing.assert_allclose(np.concatenate([panels[:, 0], panels[:, 1]], 2), expected, rtol=1e-6, atol=1e-6)
